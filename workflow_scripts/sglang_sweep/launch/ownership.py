"""Nothing we start outlives us, and nothing of others is ended: keepers, owners, and one measurement at a time.

Each command runs below a keeper (keeper.py), which ends its whole tree when the measuring script ends, however it
ends. Should the keeper be killed too, the next run finds what is left by the note that lies beside the lock: sessions
and start times of all processes seen. What runs in another container, or whose owner may be alive, is only named.
"""

import fcntl
import getpass
import json
import os
import re
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from sglang_sweep.errors import InfrastructureFault
from sglang_sweep.files.records import now
from sglang_sweep.launch import keeper

MARK = "SGLANG_SWEEP_OWNED_BY"
"""Environment variable of every process tree of ours: the ``Owner`` whose it is. Version 0.1 had another name for it:
it would take an owner written so for a dead one, and end the tree."""

FOLDER = "SGLANG_SWEEP_LOCKS"
"""Environment variable that names another folder for the locks, as for containers that share GPUs."""

_PREFIX = "sglang-sweep-"
_GONE_S = 10.0
_REMIND_S = 60.0

Say = Callable[[str], None]


class Interrupted(BaseException):
    """TERM or INT arrived; a BaseException, so that no ``except Exception`` swallows it."""


class Owner(NamedTuple):
    """A process told apart from all others: a pid means nothing after a restart or in another container."""

    boot: str
    namespace: str
    pid: int
    started: int

    @classmethod
    def parse(cls, mark: object) -> "Owner | None":
        """From ``str(owner)``; None for anything else."""
        with suppress(ValueError):
            boot, namespace, pid, started = str(mark).split(":")
            return cls(boot, namespace, int(pid), int(started))
        return None

    def __str__(self) -> str:
        return ":".join(map(str, self))

    @property
    def alive(self) -> bool | None:
        """None where it cannot be known: in another container, a pid names another process."""
        if self.boot != _boot():
            return False
        if self.namespace != _namespace():
            return None
        seen = keeper.process(self.pid)
        return seen is not None and seen.started == self.started and seen.state != "Z"


def _boot() -> str:
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text()[:8]
    return ""


def _namespace() -> str:
    with suppress(OSError):
        return re.sub(r"\D", "", os.readlink("/proc/self/ns/pid"))  # noqa: PTH115
    return ""


def me() -> Owner:
    """This process."""
    seen = keeper.process(os.getpid())
    return Owner(_boot(), _namespace(), os.getpid(), seen.started if seen else 0)


@contextmanager
def interruptible() -> Iterator[None]:
    """TERM and INT raise Interrupted inside the block; handlers are restored after it."""

    def stop(signum: int, _frame: object) -> None:
        raise Interrupted(signal.Signals(signum).name)

    keeper.die_with_parent()
    previous = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def marked_processes(mark: str | None = None) -> list[tuple[psutil.Process, str]]:
    """Processes that carry ``mark``, or any mark of ours, with the mark. Those that blank their environment are not
    among them: SGLang's schedulers do."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            value = process.environ().get(MARK)
            if value and process.pid != os.getpid() and mark in (None, value) and _running(process):
                found.append((process, value))
    return found


def _running(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    return False


@dataclass
class Lease:
    """The right to measure: locks held, and the note beside them that says who holds them and what runs under them."""

    locks: list[int] = field(default_factory=list)
    note: Path | None = None
    content: dict[str, Any] = field(default_factory=lambda: {"processes": {}, "sessions": []})

    def record(self, seen: dict[int, int], session: int | None = None) -> None:
        """Adds processes, pid to start, so that the next run finds them should everything here be killed."""
        known, sessions = self.content["processes"], self.content["sessions"]
        if not known.keys() >= seen.keys() or session not in (None, *sessions):
            known |= seen
            if session not in (None, *sessions):
                sessions.append(session)
            self.content["at"] = _ticks()
            self.write()

    def write(self) -> None:
        """The note, as far as the folder lets us."""
        if self.note:
            with suppress(OSError):
                flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
                with os.fdopen(os.open(self.note, flags, 0o644), "w") as file:
                    file.truncate()
                    json.dump(self.content, file)


class Held:
    """A command and all that it starts, below a keeper of ours."""

    def __init__(
        self,
        command: Sequence[str],
        environment: dict[str, str],
        lease: Lease | None = None,
        inherit: Sequence[int] = (),
        **options: Any,
    ) -> None:
        """Starts it; ``inherit`` are descriptors it gets, ``options`` those of ``subprocess.Popen``."""
        self.lease = lease or Lease()
        theirs, self._lifeline = os.pipe()
        try:
            self.process: subprocess.Popen[Any] = subprocess.Popen(
                [
                    *(sys.executable, "-I", "-S", keeper.__file__),
                    ",".join(map(str, [theirs, *self.lease.locks])),
                    *command,
                ],
                env={**environment, MARK: str(me())},
                pass_fds=[theirs, *self.lease.locks, *inherit],
                start_new_session=True,
                **options,
            )
        finally:
            os.close(theirs)
        self._seen: dict[int, int] = {}
        if own := keeper.process(self.process.pid):
            self.lease.record({own.pid: own.started}, session=own.pid)

    @property
    def exit_code(self) -> int | None:
        """The command's, as the shell would say: 137 for a process ended by KILL; None while it runs."""
        code = self.process.poll()
        return 128 - code if code is not None and code < 0 else code

    @property
    def keeper_killed(self) -> bool:
        """Somebody ended the keeper itself, and with it the command: nothing is known of why that ended."""
        return (self.process.poll() or 0) < 0

    def tree(self) -> list[psutil.Process]:
        """Every live process of the command: below the keeper, in its session, or seen there before."""
        there = keeper.processes()
        pid = self.process.pid
        pids = keeper.below(pid, there) | {one.pid for one in there.values() if one.session == pid}
        pids |= {one for one, started in self._seen.items() if one in there and there[one].started == started}
        pids = {one for one in pids - {pid, os.getpid()} if there[one].state != "Z"}
        self._seen |= {one: there[one].started for one in pids}
        self.lease.record({one: there[one].started for one in pids})
        found = []
        for one in pids:
            with suppress(psutil.Error):
                found.append(psutil.Process(one))
        return found

    def terminate(self) -> None:
        """TERM to the command alone."""
        self.process.terminate()

    def kill(self) -> None:
        """KILL to everything; returns when all are gone or after 10 s."""
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(_GONE_S)
        _end(self.tree)


def _end(left: Callable[[], Sequence[psutil.Process]]) -> None:
    """KILL to what ``left`` finds, until it finds nothing or 10 s are over."""
    deadline = time.monotonic() + _GONE_S
    while (found := left()) and time.monotonic() < deadline:
        for process in found:
            with suppress(psutil.Error):
                process.kill()
        time.sleep(0.05)


@dataclass(frozen=True)
class Orphans:
    """What earlier runs left on this machine, as ``pid name``: what was ended, and what was left alone and why."""

    ended: list[str]
    left_alone: list[str]


def end_orphans() -> Orphans:
    """Ends process trees whose owner is proven dead. Call it with the locks held."""
    ended: dict[int, str] = {}
    left_alone: list[str] = []

    def left() -> list[psutil.Process]:
        found = {}
        left_alone.clear()
        for process, mark in marked_processes():
            owner = Owner.parse(mark)
            alive = owner.alive if owner else None
            if alive is False:
                found[process.pid] = process
            elif alive is None:
                left_alone.append(f"{named(process)} (its owner {mark} is not of this container and boot)")
        for note in _notes():
            if note.mine and note.owner.alive is False:
                found |= {process.pid: process for process in _remains(note)}
        ended.update({pid: named(process) for pid, process in found.items()})
        return list(found.values())

    _end(left)
    for note in _notes():
        if note.mine and note.owner.alive is False and not _remains(note):
            note.path.unlink(missing_ok=True)
    return Orphans(list(ended.values()), left_alone)


def named(process: psutil.Process) -> str:
    """``pid name``."""
    with suppress(psutil.Error):
        return f"{process.pid} {process.name()}"
    return str(process.pid)


class Note(NamedTuple):
    """Who measures, or did; ``mine`` if this user wrote it: only then may anything be ended for its sake."""

    path: Path
    owner: Owner
    locks: list[str]
    text: str
    processes: dict[int, int]
    sessions: set[int]
    at: int
    mine: bool


def _notes() -> list[Note]:
    """Every readable note beside the locks; one that is damaged, a link, or of a strange form is passed over."""
    found = []
    for path in sorted(shared_folder().glob(f"{_PREFIX}owner-*.json")):
        with suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(descriptor) as file:
                status = os.fstat(descriptor)
                content = json.loads(file.read(1 << 20)) if stat.S_ISREG(status.st_mode) else {}
            owner = Owner.parse(content["owner"])
            if owner:
                text = (
                    f"{content['user']}, campaign {content['campaign']}, since {content['since']}"
                    f" (process {owner.pid})"
                )
                seen = {int(pid): int(started) for pid, started in content.get("processes", {}).items()}
                mine = status.st_uid == os.geteuid()
                sessions, at = {int(one) for one in content.get("sessions", [])}, int(content.get("at", 0))
                found.append(
                    Note(path, owner, list(content["locks"]), printable(text), seen, sessions, at, mine)
                )
    return found


def printable(text: str) -> str:
    """Text of others for a terminal, without what would steer it."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)[:300]


def _remains(note: Note) -> list[psutil.Process]:
    """Live processes of a note: those seen, what they started, and who was in the keeper's session when it was written.

    A session's number is given to nobody else while a process is in it, but may be once it is empty: hence ``at``.
    """
    if note.owner.boot != _boot():
        return []
    there = keeper.processes()
    own = {pid for pid, started in note.processes.items() if pid in there and there[pid].started == started}
    own |= {p.pid for p in there.values() if p.session in note.sessions and p.started <= note.at}
    own = own.union(*(keeper.below(pid, there) for pid in own)) - {os.getpid()}
    found = []
    for pid in own:
        with suppress(psutil.Error):
            if there[pid].state != "Z":
                found.append(psutil.Process(pid))
    return found


def _ticks() -> int:
    """Now, as ``Process.started`` counts."""
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))


def shared_folder() -> Path:
    """Where every user of this machine looks for the locks: the first that is writable by all and sticky."""
    if named := os.environ.get(FOLDER):
        Path(named).mkdir(parents=True, exist_ok=True)
        return Path(named)
    for folder in map(Path, ("/run/lock", "/dev/shm", "/tmp")):
        with suppress(OSError):
            if folder.stat().st_mode & 0o1777 == 0o1777 and os.access(folder, os.W_OK):
                return folder
    return Path(tempfile.gettempdir())


def holders(names: Sequence[str] | None = None) -> list[str]:
    """Who measures on this machine now: ``user, campaign, since``; only holders of a lock in ``names`` if given."""
    notes = (note for note in _notes() if note.owner.alive is not False)
    return [note.text for note in notes if names is None or set(names) & set(note.locks)]


@contextmanager
def exclusive(
    wait_s: float, campaign: str = "", gpus: Sequence[str] = (), say: Say = print
) -> Iterator[Lease]:
    """One measurement at a time on the same GPUs (their UUIDs), and none beside one on the processors.

    ``say`` is told who is waited for. Raises InfrastructureFault when that takes more than ``wait_s`` seconds, or a
    lock cannot be opened safely.
    """
    wanted = {"processors": fcntl.LOCK_SH if gpus else fcntl.LOCK_EX}
    wanted |= {re.sub(r"[^A-Za-z0-9-]", "_", gpu): fcntl.LOCK_EX for gpu in sorted(gpus)}
    lease, mine = Lease(), me()
    lease.content |= {"owner": str(mine), "user": _user(), "campaign": campaign, "locks": list(wanted)}
    deadline = time.monotonic() + wait_s
    with ExitStack() as stack:
        for name, kind in wanted.items():
            descriptor = _open(shared_folder() / f"{_PREFIX}{name}.lock")
            stack.callback(os.close, descriptor)
            _wait(descriptor, kind, name, deadline, wait_s, say)
            lease.locks.append(descriptor)
        name = f"{_PREFIX}owner-{os.geteuid()}-{mine.namespace or 0}-{mine.pid}-{mine.started}.json"
        lease.note = shared_folder() / name
        lease.content["since"] = now()
        lease.write()
        try:
            yield lease
        finally:
            if not any(_alive_as(*one) for one in lease.content["processes"].items()):
                with suppress(OSError):
                    lease.note.unlink(missing_ok=True)


def _alive_as(pid: int, started: int) -> bool:
    seen = keeper.process(pid)
    return seen is not None and seen.started == started and seen.state != "Z"


def _user() -> str:
    with suppress(OSError, KeyError):
        return getpass.getuser()
    return str(os.geteuid())


def _open(path: Path) -> int:
    """A lock file, made if there is none. It is never written, and neither a link nor a pipe is followed."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        for _ in range(3):
            with suppress(FileNotFoundError):
                descriptor = os.open(path, flags)
                if stat.S_ISREG(os.fstat(descriptor).st_mode):
                    return descriptor
                os.close(descriptor)
                break
            # Never O_CREAT on a file that is there: the kernel refuses that where another user made it.
            with suppress(FileExistsError):
                descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o644)
                os.fchmod(descriptor, 0o644)
                return descriptor
        why = "it is no plain file"
    except OSError as error:
        why = str(error.strerror)
    raise InfrastructureFault(
        f"the lock {path} cannot be opened safely: {why}",
        remedy=f"let its owner or root remove it, or name another folder in the variable {FOLDER}, for all users alike",
    )


def _wait(descriptor: int, kind: int, name: str, deadline: float, wait_s: float, say: Say) -> None:
    remind = 0.0
    while True:
        with suppress(BlockingIOError):
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
            return
        by = "; ".join(holders([name])) or "a program that left no note"
        if time.monotonic() > deadline:
            raise InfrastructureFault(
                f"the {name} of this host are still measured on after {wait_s:.0f} s: {by}",
                remedy="let it end, or raise limits.busy_wait_s in config/config.yaml",
            )
        if time.monotonic() > remind:
            say(f"waiting for the {name} of this host, measured on by {by}")
            remind = time.monotonic() + _REMIND_S
        time.sleep(1)
