"""What every script does around its one library call: log, and end readably."""

import errno
import io
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import NoReturn, TextIO

from sglang_sweep.errors import InfrastructureFault, UserError
from sglang_sweep.files.redaction import printable
from sglang_sweep.launch.ownership import Interrupted

HOSTS = {
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EROFS,
    errno.EACCES,
    errno.EPERM,
    errno.EMFILE,
    errno.ENFILE,
    errno.EIO,
}
"""Errors of the host's disk and limits, which a traceback explains no better than a sentence."""


def _end(say: Callable[[str], None], error: OSError) -> NoReturn:
    where = f" {error.filename}" if error.filename else ""
    text = f"this host does not let us write or open{where}: {error.strerror}\n  remedy: free some space, or see to"
    text += " the rights and limits of that folder; then run again"
    with suppress(OSError):
        say(text)
    sys.exit(f"\n{text}\n")


def _opened(path: Path) -> TextIO:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("w", buffering=1, encoding="utf-8")
    except OSError as error:
        _end(lambda _: None, error)


class _Tee(io.TextIOBase):
    """Text to the terminal and to the log."""

    def __init__(self, *streams: TextIO) -> None:
        self.streams = streams

    def write(self, text: str) -> int:
        for stream in self.streams:
            stream.write(text)
        return len(text)

    def flush(self) -> None:
        for stream in self.streams:
            stream.flush()

    def isatty(self) -> bool:
        return self.streams[0].isatty()


@contextmanager
def told(log: str | Path) -> Iterator[None]:
    """For targets that a person reads at the terminal: output goes there and to ``log``; errors end readably."""
    with _opened(Path(log)) as stream, redirect_stdout(_Tee(sys.stdout, stream)):
        try:
            yield
        except (UserError, InfrastructureFault) as error:
            sys.exit(f"\n{error}\n")


@contextmanager
def logged(log: str | Path) -> Iterator[Callable[[str], None]]:
    """Output goes to ``log``; the yielded function writes there and to the terminal.

    UserError and InfrastructureFault end the job with their message, anything else with its traceback.
    """
    terminal = sys.stderr
    with (
        _opened(Path(log)) as stream,
        redirect_stdout(stream),
        redirect_stderr(stream),
    ):

        def say(text: str) -> None:
            print(text)
            print(f"  {printable(text)}", file=terminal, flush=True)

        try:
            yield say
        except (UserError, InfrastructureFault) as error:
            say(str(error))
            sys.exit(1)
        except OSError as error:
            if error.errno not in HOSTS:
                traceback.print_exc()
                raise
            _end(say, error)
        except Interrupted as signal_name:
            say(f"stopped by {signal_name}; its server is ended, run again to go on")
            sys.exit(1)
        except Exception:
            traceback.print_exc()
            raise
