"""Nothing we start outlives us: parent-death signals, TERM as an exception, and marks on every child.

Pattern measured in facts about Snakemake 9: the measuring script owns the server's process group, asks the
kernel for TERM when Snakemake dies, turns TERM into an exception and kills the group in ``finally``.
"""

import ctypes
import fcntl
import os
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from sglang_sweep.errors import InfrastructureFault

MARK = "SGLANG_SWEEP_OWNER"
"""Environment variable of every process tree of ours: ``<pid>:<start time>`` of the script that owns it."""

_PR_SET_PDEATHSIG = 1


class Interrupted(BaseException):
    """TERM or INT arrived; a BaseException, so that no ``except Exception`` swallows it."""


def die_with_parent(signum: int = signal.SIGTERM) -> None:
    """Asks the kernel to signal this process when its parent ends (Linux ``prctl``, no effect elsewhere)."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(signum), 0, 0, 0)


@contextmanager
def interruptible() -> Iterator[None]:
    """TERM and INT raise Interrupted inside the block; handlers are restored after it."""

    def stop(signum: int, _frame: object) -> None:
        raise Interrupted(signal.Signals(signum).name)

    die_with_parent()
    previous = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def owner_mark() -> str:
    """Identifies this process even after its pid is reused."""
    return f"{os.getpid()}:{psutil.Process().create_time():.2f}"


def marked_processes(mark: str | None = None) -> list[tuple[psutil.Process, str]]:
    """Processes that carry ``mark``, or any mark of ours, with the mark."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            value = process.environ().get(MARK)
            if value and process.pid != os.getpid() and mark in (None, value):
                found.append((process, value))
    return found


def kill_orphans() -> list[str]:
    """Ends process trees whose owner is gone, left by a run that was killed; says what it ended."""
    ended = []
    for process, mark in marked_processes():
        if not _alive(mark):
            with suppress(psutil.Error):
                ended.append(f"{process.pid} {process.name()}")
                process.kill()
    if ended:
        time.sleep(0.5)
    return ended


def _alive(mark: str) -> bool:
    pid, _, started = mark.partition(":")
    try:
        return f"{psutil.Process(int(pid)).create_time():.2f}" == started
    except (psutil.Error, ValueError):
        return False


@contextmanager
def exclusive(wait_s: float, folder: Path | None = None) -> Iterator[None]:
    """One measurement at a time on this host, whatever ``--resources`` was given on whichever workflow.

    Raises InfrastructureFault when another measurement does not end within ``wait_s`` seconds.
    """
    path = (folder or Path(tempfile.gettempdir())) / "sglang-sweep-measuring.lock"
    with path.open("a+") as lock:
        with suppress(PermissionError):
            path.chmod(0o666)
        deadline = time.monotonic() + wait_s
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise InfrastructureFault(
                        f"another measurement still holds {path}",
                        remedy="let the other workflow end, or raise limits.busy_wait_s in config/config.yaml",
                    ) from None
                time.sleep(1)
        yield
