"""Building: never half, never twice, never without disk."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from sglang_sweep.errors import InfrastructureFault, UserError
from sglang_sweep.stacks import build
from sglang_sweep.stacks.stack import Stack

FOUND = {
    "stack": {"sglang": "0.5.23", "torch": "2.14.1", "serves": True, "reasons": {}},
    "flags": {"sglang_version": "0.5.23", "flags": ["tp-size"], "deprecated": []},
}


def _stack(tmp_path: Path, **declared: Any) -> Stack:
    defaults = {
        "sglang": "0.5.23",
        "disk_gb": 0.0,
        "download_gb": None,
        "env": {},
        "launcher": [],
        "prune": [],
    }
    return Stack(
        "small", "lock", "abc", tmp_path, "3.12", {**defaults, "lock": "l", "packages": [], **declared}
    )


@pytest.fixture
def installs(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Counts installations instead of doing them."""
    done: list[Path] = []
    monkeypatch.setattr(build, "_install", lambda stack, folder, log: done.append(folder))
    monkeypatch.setattr(build, "look_inside", lambda stack, store, log: FOUND)
    return done


def test_a_built_stack_has_its_facts_and_flags_and_is_not_built_again(
    tmp_path: Path, installs: list[Path]
) -> None:
    stack = _stack(tmp_path)
    for _ in range(2):
        build.build_stack(stack, tmp_path, print)
    folder = stack.folder(tmp_path)
    assert installs == [folder]
    assert json.loads((folder / "stack.json").read_text())["sglang"] == "0.5.23"
    assert json.loads((folder / "flags.json").read_text()) == FOUND["flags"]


def test_the_rest_of_a_killed_build_is_not_believed(tmp_path: Path, installs: list[Path]) -> None:
    stack = _stack(tmp_path)
    rest = stack.folder(tmp_path) / "lib" / "half"
    rest.mkdir(parents=True)
    build.build_stack(stack, tmp_path, print)
    assert installs
    assert not rest.exists()


def test_a_failed_build_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(stack: Stack, folder: Path, log: build.Log) -> None:
        (folder / "lib").mkdir()
        raise InfrastructureFault("no registry")

    monkeypatch.setattr(build, "_install", fail)
    stack = _stack(tmp_path)
    with pytest.raises(InfrastructureFault, match="no registry"):
        build.build_stack(stack, tmp_path, print)
    assert not stack.folder(tmp_path).exists()


def test_a_second_workflow_waits_for_the_first_and_does_not_build(
    tmp_path: Path, installs: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    building, go_on = threading.Event(), threading.Event()

    def slow(stack: Stack, folder: Path, log: build.Log) -> None:
        installs.append(folder)
        building.set()
        assert go_on.wait(30)

    monkeypatch.setattr(build, "_install", slow)
    stack = _stack(tmp_path)
    said: list[str] = []

    def second_says(text: str) -> None:
        said.append(text)
        go_on.set()

    first = threading.Thread(target=build.build_stack, args=(stack, tmp_path, lambda text: None))
    first.start()
    assert building.wait(30)
    build.build_stack(stack, tmp_path, second_says)
    first.join(30)
    assert len(installs) == 1
    assert "waiting" in said[0]
    assert "complete" in said[1]


def test_too_little_disk_is_said_before_anything_is_downloaded(tmp_path: Path) -> None:
    with pytest.raises(InfrastructureFault, match=r"GB free(.|\n)*remedy: free some space"):
        build.build_stack(_stack(tmp_path, disk_gb=1e9), tmp_path, print)


def test_pruning_removes_what_matches_and_nothing_else(tmp_path: Path) -> None:
    for name in (
        "nvidia/cudnn/lib/libcudnn_ops.so.9",
        "nvidia/cudnn/lib/libcudnn.so.9",
        "nvidia/cudnn/include/a.h",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"1234")
    freed = build.prune(tmp_path, ["nvidia/cudnn/lib/libcudnn_*.so*", "nvidia/*/include", "absent/*"])
    assert freed == 8
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["libcudnn.so.9"]


def _with_interpreter(tmp_path: Path, script: str) -> Stack:
    stack = _stack(tmp_path)
    python = stack.python(tmp_path)
    python.parent.mkdir(parents=True)
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    return stack


def test_a_stack_that_cannot_serve_is_refused_with_the_reason(tmp_path: Path) -> None:
    answer = json.dumps(
        {"stack": {"serves": False, "reasons": {"sglang": "ModuleNotFoundError: x"}}, "flags": {}}
    )
    stack = _with_interpreter(tmp_path, f"echo '{answer}'")
    with pytest.raises(UserError, match="cannot start a server: sglang: ModuleNotFoundError: x"):
        build.look_inside(stack, tmp_path, print)


def test_a_lock_that_holds_another_sglang_than_declared_is_refused(tmp_path: Path) -> None:
    answer = json.dumps({"stack": {"serves": True, "sglang": "0.5.22", "reasons": {}}, "flags": {}})
    stack = _with_interpreter(tmp_path, f"echo '{answer}'")
    with pytest.raises(UserError, match=r"declared SGLang 0\.5\.23, but its lock holds 0\.5\.22"):
        build.look_inside(stack, tmp_path, print)


def test_an_interpreter_that_crashes_is_a_fault_with_its_last_words(tmp_path: Path) -> None:
    stack = _with_interpreter(tmp_path, "echo 'Illegal instruction' >&2; exit 132")
    with pytest.raises(InfrastructureFault, match="Illegal instruction"):
        build.look_inside(stack, tmp_path, print)
