"""A host that is short of something is told so before a launch, with the figure needed."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from sglang_sweep.errors import InfrastructureFault
from sglang_sweep.launch import headroom
from test_measure import INSTRUMENTS, measure, order


@pytest.mark.parametrize(
    ("limit", "value", "said"),
    [
        ("RLIMIT_NOFILE", 256, "the limit of open files (ulimit -n) is 256, 1032 are needed"),
        ("RLIMIT_AS", 8 << 30, "the limit of address space (ulimit -v) is 8 GiB, 64 GiB are needed"),
        ("RLIMIT_FSIZE", 10 << 20, "the limit of size of a file (ulimit -f) is 10 MiB, 1024 MiB are needed"),
    ],
)
def test_a_limit_below_the_need_is_named_before_anything_starts(
    tmp_path: Path, limit: str, value: int, said: str
) -> None:
    code = (
        f"import resource, sys; sys.path[:0] = {sys.path!r}\n"
        f"resource.setrlimit(resource.{limit}, ({value}, {value}))\n"
        "from pathlib import Path\nfrom test_measure import INSTRUMENTS, measure, order\n"
        f"measure(order('healthy'), Path({str(tmp_path)!r}) / 'launch.json', INSTRUMENTS)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=dict(os.environ))
    assert f"InfrastructureFault: this host cannot run healthy as it is: {said}" in done.stderr
    assert not list(tmp_path.glob("attempt-*"))


@pytest.mark.parametrize(
    ("need", "said"),
    [("SHARED_MEMORY", "/dev/shm has"), ("DISK", "MiB are needed"), ("INODES", "more files, ")],
)
def test_want_of_space_is_the_hosts_fault_before_and_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, need: str, said: str
) -> None:
    monkeypatch.setattr(headroom, need, 1 << 60)
    with pytest.raises(InfrastructureFault, match=said):
        measure(order("healthy"), tmp_path / "launch.json", INSTRUMENTS)
    assert headroom.exhausted(tmp_path, order("healthy"), "Bus error")


def test_a_failure_that_names_files_or_space_is_the_hosts_and_any_other_is_not(tmp_path: Path) -> None:
    for reason in ("OSError: [Errno 24] Too many open files", "OSError: [Errno 28] No space left on device"):
        assert headroom.exhausted(tmp_path, order("healthy"), reason)
    assert headroom.exhausted(tmp_path, order("healthy"), "ValueError: 28 layers") is None


def test_this_host_is_not_refused(tmp_path: Path) -> None:
    assert list(headroom.shortages(order("healthy"), tmp_path)) == []
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[1] > headroom.FILES
