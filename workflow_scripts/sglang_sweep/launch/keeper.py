"""Holds one process tree: whatever the command forks stays below this process, and ends when its owner does.

Usage: ``python -I -S keeper.py LIFELINE[,LOCK...] COMMAND...``, in a session of its own. The kernel gives orphans of
the tree to the nearest "subreaper" above them, this process: neither a double fork, a session of its own, an emptied
environment nor a new name takes a process out of it. The owner holds the other end of the pipe LIFELINE: when that
closes, because the owner says so or was killed, or when the command ends, everything below is killed. LOCKs are files
that stay locked until then. TERM is passed on to the command alone. The exit status is the command's, as a shell
gives it. Only the standard library is used, so that it starts in 20 ms and takes no processor.
"""

import contextlib
import ctypes
import os
import select
import signal
import sys
import time
from typing import NamedTuple

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


class Process(NamedTuple):
    """A line of /proc; ``started`` in clock ticks after the start of the machine, which no step of the clock moves."""

    pid: int
    state: str
    parent: int
    session: int
    started: int


def process(pid: int) -> Process | None:
    """What the kernel says of a process that is there, dead but not yet waited for (state Z) included."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123  (pathlib costs its start 10 ms)
            words = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return Process(pid, words[0].decode(), int(words[1]), int(words[3]), int(words[19]))


def processes() -> dict[int, Process]:
    """All that this process may see."""
    found = (process(int(name)) for name in os.listdir("/proc") if name.isdigit())  # noqa: PTH208
    return {one.pid: one for one in found if one}


def below(pid: int, there: dict[int, Process]) -> set[int]:
    """Children of ``pid``, their children, and so on."""
    children: dict[int, list[int]] = {}
    for one in there.values():
        children.setdefault(one.parent, []).append(one.pid)
    found: set[int] = set()
    waiting = [pid]
    while waiting:
        new = [child for child in children.get(waiting.pop(), ()) if child not in found]
        found.update(new)
        waiting += new
    return found


def prctl(option: int, value: int) -> None:
    """Linux ``prctl``; no effect elsewhere."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def die_with_parent(number: int = signal.SIGTERM) -> None:
    """Asks the kernel to signal this process when its parent ends."""
    prctl(_PR_SET_PDEATHSIG, int(number))


def _start(command: list[str]) -> int:
    child = os.fork()
    if child:
        return child
    try:
        os.setpgid(0, 0)  # a signal to the command's group does not reach us
        die_with_parent(signal.SIGKILL)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        os.execvp(command[0], command)
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr, flush=True)
    finally:
        os._exit(127)


def _reaped(root: int) -> int | None:
    """Takes the dead away; the exit status of the command if it is among them."""
    code = None
    with contextlib.suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            if found[0] == root:
                status = os.waitstatus_to_exitcode(found[1])
                code = 128 - status if status < 0 else status
    return code


def main() -> None:
    """Until the command, its owner, or both have ended, and with them everything below."""
    lifeline, *locks = map(int, sys.argv[1].split(","))
    for descriptor in (lifeline, *locks):
        os.set_inheritable(descriptor, False)
    prctl(_PR_SET_CHILD_SUBREAPER, 1)
    woken, wake = os.pipe()
    os.set_blocking(woken, False)
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    root = _start(sys.argv[2:])

    def pass_on(number: int, _frame: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(root, number)

    signal.signal(signal.SIGTERM, pass_on)
    code = _reaped(root)
    while code is None:
        ready = select.select([lifeline, woken], [], [])[0]
        with contextlib.suppress(BlockingIOError):
            os.read(woken, 4096)
        code = _reaped(root)
        if lifeline in ready:
            break
    pause = 0.01
    while left := below(os.getpid(), processes()):
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(pause)
        pause = min(1.0, pause * 1.5)
        code = _reaped(root) if code is None else (_reaped(root), code)[1]
    os._exit(137 if code is None else code)


if __name__ == "__main__":
    main()
