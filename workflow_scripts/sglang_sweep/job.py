"""What every script does around its one library call: log, and end readably."""

import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path

from sglang_sweep.errors import InfrastructureFault, UserError


@contextmanager
def logged(log: str | Path) -> Iterator[Callable[[str], None]]:
    """Output goes to ``log``; the yielded function writes there and to the terminal.

    UserError and InfrastructureFault end the job with their message, anything else with its traceback.
    """
    path = Path(log)
    path.parent.mkdir(parents=True, exist_ok=True)
    terminal = sys.stderr
    with (
        path.open("w", buffering=1, encoding="utf-8") as stream,
        redirect_stdout(stream),
        redirect_stderr(stream),
    ):

        def say(text: str) -> None:
            print(text)
            print(f"  {text}", file=terminal, flush=True)

        try:
            yield say
        except (UserError, InfrastructureFault) as error:
            say(str(error))
            sys.exit(1)
        except Exception:
            traceback.print_exc()
            raise
