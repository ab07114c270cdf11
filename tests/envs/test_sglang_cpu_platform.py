"""The out-of-tree CPU platform: its thread binding alone, and a real server on it."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import time
import types
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from sglang_sweep.campaign.site import default_store
from sglang_sweep.stacks.build import build_stack
from sglang_sweep.stacks.models import load_model, make_model
from sglang_sweep.stacks.stack import load_stack

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "envs" / "cpu" / "sglang-cpu-platform" / "src" / "sglang_cpu_platform"


def _load(name: str, file: Path) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module with torch, which the controller does not have, replaced."""
    torch = types.ModuleType("torch")
    torch.library = types.SimpleNamespace(Library=object)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", torch)
    return _load("threads_under_test", SOURCES / "threads.py")


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.delenv("SGLANG_PLATFORM", raising=False)
    monkeypatch.delenv("SGLANG_USE_CPU_ENGINE", raising=False)
    return _load("package_under_test", SOURCES / "__init__.py")


def _accelerator(monkeypatch: pytest.MonkeyPatch, present: bool) -> None:
    torch = types.ModuleType("torch")
    torch.accelerator = types.SimpleNamespace(is_available=lambda: present)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", torch)


@pytest.mark.parametrize(
    ("binding", "rank", "cores"),
    [
        ("0", 0, {0}),
        ("0-3,6", 0, {0, 1, 2, 3, 6}),
        ("0-1|2-3", 1, {2, 3}),
        ("all", 0, None),
        ("", 5, None),
    ],
)
def test_a_rank_gets_the_cores_of_its_group(
    threads: Any, binding: str, rank: int, cores: set[int] | None
) -> None:
    assert threads.cores_of_rank(binding, rank) == cores


@pytest.mark.parametrize(("binding", "rank"), [("0-1", 1), ("a", 0), ("0|", 1), ("3-1", 0)])
def test_an_unusable_binding_is_an_error_that_names_the_variable(
    threads: Any, binding: str, rank: int
) -> None:
    with pytest.raises(ValueError, match="SGLANG_CPU_OMP_THREADS_BIND"):
        threads.cores_of_rank(binding, rank)


def test_the_platform_activates_where_torch_sees_no_accelerator(
    package: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    _accelerator(monkeypatch, False)
    assert package.activate() == package.PLATFORM_CLASS


def test_the_platform_stands_back_beside_an_accelerator_unless_insisted_on(
    package: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    _accelerator(monkeypatch, True)
    assert package.activate() is None
    monkeypatch.setenv("SGLANG_PLATFORM", package.NAME)
    assert package.activate() == package.PLATFORM_CLASS


def test_the_platform_stands_back_for_sglangs_own_cpu_engine(
    package: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    _accelerator(monkeypatch, False)
    monkeypatch.setenv("SGLANG_USE_CPU_ENGINE", "1")
    assert package.activate() is None


def test_the_entry_point_names_what_the_package_holds(package: Any) -> None:
    import tomllib

    project = tomllib.loads((SOURCES.parents[1] / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["sglang.srt.platforms"] == {package.NAME: "sglang_cpu_platform:activate"}
    module, _, name = package.PLATFORM_CLASS.rpartition(".")
    source = SOURCES / f"{module.rpartition('.')[2]}.py"
    assert f"class {name}(" in source.read_text()


def _post(port: int, path: str, body: dict[str, Any] | None = None, timeout: float = 120) -> Any:
    data = json.dumps(body).encode() if body else None
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}", data, {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=timeout) as answer:
        return answer.read()


@pytest.mark.sglang
def test_the_real_server_generates_on_this_cpu_bound_to_the_core_it_was_given(tmp_path: Path) -> None:
    store = default_store()
    stack = load_stack(ROOT / "envs", "cpu")
    build_stack(stack, store, print)
    model = load_model("tiny-llama", ROOT / "config" / "models.yaml")
    make_model(model, stack, store, print)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    core = min(os.sched_getaffinity(0))
    command = [*stack.launcher(store), "--model-path", str(model.path(store)), "--host", "127.0.0.1"]
    log = tmp_path / "server.log"
    with log.open("w") as stream:
        server = subprocess.Popen(
            [
                *command,
                "--port",
                str(port),
                "--device",
                "cpu",
                "--max-total-tokens",
                "4096",
                "--disable-cuda-graph",
            ],
            env={**os.environ, **stack.env, "SGLANG_CPU_OMP_THREADS_BIND": str(core)},
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        _wait_until_ready(server, port, log)
        sampling = {"temperature": 0, "max_new_tokens": 8, "ignore_eos": True}
        answers = [
            json.loads(_post(port, "/generate", {"text": "The licence", "sampling_params": sampling}))
            for _ in range(2)
        ]
        assert answers[0]["meta_info"]["completion_tokens"] == 8
        assert answers[0]["output_ids"] == answers[1]["output_ids"]
        info = json.loads(_post(port, "/server_info"))
        assert info["attention_backend"] == "torch_native"
        assert f"rank 0 bound to cores [{core}]" in log.read_text()
    finally:
        server.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(60)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)


def _wait_until_ready(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    for _ in range(1200):
        assert server.poll() is None, log.read_text()[-3000:]
        try:
            _post(port, "/ready", timeout=5)
            return
        except (urllib.error.URLError, OSError):
            time.sleep(0.5)
    pytest.fail(f"not ready after 10 minutes: {log.read_text()[-3000:]}")
