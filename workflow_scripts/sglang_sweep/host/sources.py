"""Where facts about the host come from: files, commands, NVML. Everything else in this package is arithmetic.

Tests and bug reports replace a :class:`Sources` by a recording (see :mod:`sglang_sweep.host.recording`).
"""

import os
import platform
import resource
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

COMMAND_TIMEOUT_S = 20.0  # nvidia-smi takes seconds on eight GPUs without persistence mode


class Unreadable(Exception):
    """A fact that could not be read; its text is the reason that environment.json gives."""


class Sources:
    """The real host. Every method raises :class:`Unreadable` or :class:`OSError` when there is no answer."""

    def __init__(self) -> None:
        self._running: dict[tuple[str, ...], Future[tuple[int, str]]] = {}
        self._nvml: Any = None
        self._handles: dict[int, Any] = {}

    def read_bytes(self, path: str) -> bytes:
        return Path(path).read_bytes()

    def read_text(self, path: str) -> str:
        return self.read_bytes(path).decode(errors="replace")

    def list_folder(self, path: str) -> list[str]:
        return sorted(os.listdir(path))  # noqa: PTH208 (names, not paths, are recorded)

    def resolve(self, path: str) -> str:
        """The path with every symbolic link followed."""
        return str(Path(path).resolve(strict=True))

    def which(self, program: str) -> str | None:
        return shutil.which(program)

    def run(self, command: Sequence[str]) -> tuple[int, str]:
        """Exit code and standard output (with standard error, where output is empty) of a command."""
        started = self._running.pop(tuple(command), None)
        return started.result() if started else self._execute(command)

    def start(self, commands: Iterable[Sequence[str]]) -> None:
        """Begin commands in the background; the ``run`` of each then only waits for the rest of it."""
        wanted = [tuple(command) for command in commands]
        pool = ThreadPoolExecutor(max_workers=max(1, len(wanted)))
        for command in wanted:
            self._running[command] = pool.submit(self._execute, command)
        pool.shutdown(wait=False)

    @staticmethod
    def _execute(command: Sequence[str]) -> tuple[int, str]:
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**os.environ, "LC_ALL": "C"},
            )
        except FileNotFoundError as error:
            raise Unreadable(f"{command[0]}: not found") from error
        try:
            output, errors = process.communicate(timeout=COMMAND_TIMEOUT_S)
        except subprocess.TimeoutExpired as error:
            # Not waited for: a process stuck in the driver (state D) cannot be reaped and would hold us too.
            process.kill()
            raise Unreadable(f"{' '.join(command)}: no answer within {COMMAND_TIMEOUT_S:.0f} s") from error
        text = output if output.strip() else errors
        return process.returncode, text.decode(errors="replace")

    def nvml(self, function: str, *arguments: Any) -> Any:
        """A system-wide NVML call as plain data."""
        try:
            return plain(getattr(self._library(), function)(*arguments))
        except Unreadable:
            raise
        except Exception as error:  # NVMLError has one subclass per code, made at import
            raise Unreadable(f"{function}: {error}") from error

    def nvml_gpu(self, index: int, function: str, *arguments: Any) -> Any:
        """An NVML call about one GPU as plain data."""
        if index not in self._handles:
            library = self._library()
            try:
                self._handles[index] = library.nvmlDeviceGetHandleByIndex(index)
            except Exception as error:
                raise Unreadable(f"nvmlDeviceGetHandleByIndex({index}): {error}") from error
        return self.nvml(function, self._handles[index], *arguments)

    def _library(self) -> Any:
        if self._nvml is None:
            import pynvml  # here, since parsing a workflow must not load it for nothing

            try:
                pynvml.nvmlInit()
            except Exception as error:
                raise Unreadable(f"NVML: {error}") from error
            self._nvml = pynvml
        return self._nvml

    def environment(self) -> dict[str, str]:
        return dict(os.environ)

    def disk_usage(self, path: str) -> tuple[int, int]:
        """Bytes in all and bytes free of the file system that holds ``path``, or will hold it."""
        folders = (Path(path), *Path(path).absolute().parents)
        usage = shutil.disk_usage(next(folder for folder in folders if folder.exists()))
        return usage.total, usage.free

    def limit(self, name: str) -> int | None:
        """Soft limit of a resource (``RLIMIT_NOFILE``); None when there is no limit."""
        soft, _ = resource.getrlimit(getattr(resource, name))
        return None if soft == resource.RLIM_INFINITY else soft

    def architecture(self) -> str:
        return platform.machine()

    def now(self) -> str:
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def plain(value: Any) -> Any:
    """NVML's structures as dicts, lists, numbers and strings."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if hasattr(value, "_fields_"):
        return {name: plain(getattr(value, name)) for name, *_ in value._fields_}
    if hasattr(value, "__dict__"):  # pynvml's "friendly" copies of structures
        return {name: plain(item) for name, item in vars(value).items()}
    return value


class Readings:
    """Collects facts, and for each that cannot be read the reason, under its path in environment.json."""

    def __init__(self, sources: Sources) -> None:
        self.sources = sources
        self.unreadable: dict[str, str] = {}

    def take(self, path: str, read: Callable[[], T | None]) -> T | None:
        """What ``read`` returns, or None with the reason noted. A parser's surprise counts as unreadable."""
        try:
            value = read()
        except (Unreadable, OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            self.missing(path, reason_of(error))
            return None
        if value is None:
            self.missing(path, "the source gives no value")
        return value

    def missing(self, path: str, reason: str) -> None:
        self.unreadable.setdefault(path, reason)


def reason_of(error: Exception) -> str:
    """One line a person can act on."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    if isinstance(error, Unreadable):
        return str(error)
    return f"unexpected format ({type(error).__name__}: {error})"
