"""What we start ends with us however it hides, what is others' is left alone, and locks hold between users."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from sglang_sweep.errors import InfrastructureFault
from sglang_sweep.launch import keeper, ownership

HIDES = """
    import os, sys, time
    def hidden():
        if os.fork():
            return
        os.setsid()
        if os.fork():
            os._exit(0)
        # as a daemon that wants nobody to know where it came from, or as setproctitle leaves SGLang's scheduler
        os.execve(sys.executable, ["sglang::scheduler", "-c", "import time; time.sleep(600)", {word!r}], {{}})
    hidden()
    time.sleep({then})
"""
"""A command whose child double-forks, in a session of its own, with an empty environment and another name."""


def hides(word: str, then: float = 600) -> list[str]:
    return [sys.executable, "-c", textwrap.dedent(HIDES).format(word=word, then=then)]


def hidden(word: str) -> list[psutil.Process]:
    """Live processes whose last argument is ``word``, without their keeper."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        line = process.info["cmdline"]
        if (
            line
            and line[-1] == word
            and keeper.__file__ not in line
            and process.info["status"] != psutil.STATUS_ZOMBIE
        ):
            found.append(process)
    return found


def until(true: Callable[[], object], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.05)


@pytest.fixture
def word(tmp_path: Path) -> Iterator[str]:
    """Marks the processes of one test."""
    yield (name := f"hidden-in-{tmp_path.name}-{os.getpid()}")
    for process in hidden(name):
        process.kill()


@pytest.fixture(autouse=True)
def locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for the locks of one test."""
    monkeypatch.setenv(ownership.FOLDER, str(tmp_path / "locks"))
    return ownership.shared_folder()


def test_a_child_that_sheds_session_environment_and_name_is_seen_and_ended(word: str) -> None:
    held = ownership.Held(hides(word), {})
    until(lambda: hidden(word))
    assert hidden(word)[0].pid in {process.pid for process in held.tree()}
    held.kill()
    assert (hidden(word), held.tree()) == ([], [])


def test_what_a_command_leaves_behind_ends_with_it_and_its_exit_code_is_told(word: str) -> None:
    held = ownership.Held([*hides(word, 0.5)], {})
    until(lambda: hidden(word))
    assert held.process.wait(30) == 0
    assert hidden(word) == []
    held.kill()


def test_kill_to_the_commands_group_while_children_start_leaves_nothing(word: str) -> None:
    held = ownership.Held(hides(word), {})
    until(lambda: hidden(word))
    command = next(p for p in held.tree() if p.ppid() == held.process.pid and not hidden_one(p, word))
    os.killpg(os.getpgid(command.pid), signal.SIGKILL)
    held.process.wait(30)
    assert (held.exit_code, held.keeper_killed) == (137, False)
    assert hidden(word) == []
    held.kill()


def hidden_one(process: psutil.Process, word: str) -> bool:
    return process.pid in {other.pid for other in hidden(word)}


def test_a_missing_command_is_told_in_its_log(tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as log:
        held = ownership.Held(["/no/such/server"], {}, stderr=log)
    assert held.process.wait(30) == 127
    assert (tmp_path / "log").read_text() == "/no/such/server: No such file or directory\n"
    held.kill()


OWNER = """
    import sys, time
    from sglang_sweep.launch import ownership
    with ownership.exclusive(60, "theirs", {gpus!r}) as lease:
        held = ownership.Held({command!r}, {{}}, lease)
        print(held.process.pid, flush=True)
        while True:
            held.tree()
            time.sleep(0.05)
"""


def owner(
    command: list[str], gpus: tuple[str, ...] = (), before: tuple[str, ...] = ()
) -> "subprocess.Popen[str]":
    code = textwrap.dedent(OWNER).format(command=command, gpus=gpus)
    return subprocess.Popen([*before, sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)


def test_a_killed_owners_tree_ends_before_its_lock_is_free(word: str) -> None:
    killed = owner(hides(word))
    until(lambda: hidden(word))
    killed.kill()
    killed.wait()
    with ownership.exclusive(30, "ours"):
        assert hidden(word) == []
        assert ownership.end_orphans().ended == []


def test_when_owner_and_keeper_are_killed_the_next_run_finds_what_they_left(word: str, locks: Path) -> None:
    killed = owner(hides(word))
    assert killed.stdout
    until(lambda: hidden(word))
    until(lambda: f'"{hidden(word)[0].pid}"' in next(locks.glob("*.json")).read_text())
    os.kill(int(killed.stdout.readline()), signal.SIGSTOP)  # or it would end its tree before it is killed
    (left,) = hidden(word)
    killed.kill()
    killed.wait()
    for path in Path("/proc").glob("[0-9]*/stat"):
        if (seen := keeper.process(int(path.parent.name))) and seen.pid == left.ppid():
            os.kill(seen.pid, signal.SIGKILL)
    assert hidden(word) == [left]
    with ownership.exclusive(30, "ours"):
        assert any(line.startswith(f"{left.pid} ") for line in ownership.end_orphans().ended)
    assert hidden(word) == []
    assert list(locks.glob("*.json")) == []


def namespaces(*kinds: str) -> tuple[str, ...]:
    command = ("unshare", *kinds, "--fork", "--kill-child")
    if subprocess.run([*command, "true"], capture_output=True, check=False).returncode:
        pytest.skip("namespaces are not allowed here")
    return command


def test_a_container_beside_the_host_is_left_alone_and_named(word: str) -> None:
    sleeper = [sys.executable, "-c", "import time; time.sleep(600)", word]
    contained = owner(sleeper, ("GPU-1",), namespaces("--pid", "--mount-proc"))
    until(lambda: hidden(word))
    said: list[str] = []
    with ownership.exclusive(30, "ours", ("GPU-2",), said.append):
        orphans = ownership.end_orphans()
    (process,) = hidden(word)
    assert orphans.ended == []
    assert any(line.startswith(f"{process.pid} ") for line in orphans.left_alone)
    assert any("campaign theirs" in text for text in ownership.holders())
    contained.kill()
    contained.wait(30)
    until(lambda: not hidden(word))


def test_a_step_of_the_clock_makes_no_owner_dead() -> None:
    mine = ownership.me()
    assert mine.alive is True
    assert ownership.Owner.parse(str(mine)) == mine
    assert mine._replace(started=mine.started + 1).alive is False
    assert mine._replace(boot="00000000").alive is False
    assert mine._replace(namespace="1").alive is None
    assert ownership.Owner.parse("4711:1764560000.12") is None


def test_who_waits_is_told_for_whom_and_since_when() -> None:
    holding = owner(["sleep", "600"])
    assert holding.stdout and holding.stdout.readline()
    said: list[str] = []
    with (
        pytest.raises(InfrastructureFault, match="campaign theirs, since"),
        ownership.exclusive(0.5, say=said.append),
    ):
        pass
    assert [text.partition(" this host")[0] for text in said] == ["waiting for the processors of"]
    assert "campaign theirs, since 2" in said[0]
    holding.kill()
    holding.wait()
    with ownership.exclusive(30):
        pass


def test_different_gpus_are_measured_at_once_but_never_beside_the_processors() -> None:
    with ownership.exclusive(0, gpus=("GPU-a", "GPU-b")), ownership.exclusive(0, gpus=("GPU-c",)):
        with (
            pytest.raises(InfrastructureFault, match="the GPU-b of this host"),
            ownership.exclusive(0, gpus=("GPU-b",)),
        ):
            pass
        with pytest.raises(InfrastructureFault, match="the processors of this host"), ownership.exclusive(0):
            pass


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_a_lock_that_is_no_plain_file_is_refused_and_not_touched(
    tmp_path: Path, locks: Path, kind: str
) -> None:
    lock, target = locks / "sglang-sweep-processors.lock", tmp_path / "precious"
    target.write_text("kept")
    target.chmod(0o600)
    {"link": lambda: lock.symlink_to(target), "pipe": lambda: os.mkfifo(lock), "folder": lock.mkdir}[kind]()
    with pytest.raises(InfrastructureFault, match="cannot be opened safely"), ownership.exclusive(0):
        pass
    assert (target.read_text(), target.stat().st_mode & 0o777) == ("kept", 0o600)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_users_measurement_is_waited_for_and_its_note_ends_nothing(word: str, locks: Path) -> None:
    locks.chmod(0o1777)
    for folder in [locks, *locks.parents][:-1]:
        folder.chmod(folder.stat().st_mode | 0o711)
    bystander = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", word])
    seen = keeper.process(bystander.pid)
    assert seen
    code = textwrap.dedent(
        f"""
        import os, time
        from sglang_sweep.launch import ownership
        os.setgid(65534); os.setuid(65534)
        with ownership.exclusive(60, "theirs") as lease:
            lease.record({{{seen.pid}: {seen.started}}}, session={seen.session})
            print(flush=True)
            time.sleep(600)
        """
    )
    other = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert other.stdout and other.stdout.readline()
    with pytest.raises(InfrastructureFault, match="nobody, campaign theirs"), ownership.exclusive(0):
        pass
    other.kill()
    other.wait()
    with ownership.exclusive(30):
        assert ownership.end_orphans().ended == []
    assert bystander.poll() is None
    bystander.kill()
    bystander.wait()
