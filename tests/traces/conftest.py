"""Recordings of real servers, and small made-up traces whose every number is known."""

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sglang_sweep.stacks.stack import load_stack

RECORDINGS = Path(__file__).parents[1] / "recordings" / "h200x2-sglang-0.5.16"


@pytest.fixture(scope="session")
def recording() -> Callable[[str], list[Path]]:
    """The traces of one recorded case, rank 0 first."""
    return lambda case: sorted((RECORDINGS / case).glob("decode-TP-*.trace.json.gz"))


class TraceMaker:
    """Builds a trace event by event; times in us."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.correlation = 0
        self.header: dict[str, Any] = {}

    def process(self, name: str) -> "TraceMaker":
        self.events.append({"ph": "M", "name": "process_name", "args": {"name": name}})
        return self

    def annotation(
        self, name: str, start: float, duration: float, tid: int = 1, category: str = "user_annotation"
    ) -> "TraceMaker":
        self.events.append(
            {"ph": "X", "cat": category, "name": name, "ts": start, "dur": duration, "pid": 1, "tid": tid}
        )
        return self

    def op(self, name: str, start: float, duration: float, tid: int = 1) -> "TraceMaker":
        return self.annotation(name, start, duration, tid, "cpu_op")

    def launch(self, name: str, start: float, tid: int = 1) -> int:
        """A runtime call; kernels name its correlation."""
        self.correlation += 1
        event = {
            "ph": "X",
            "cat": "cuda_runtime",
            "name": name,
            "ts": start,
            "dur": 1.0,
            "pid": 1,
            "tid": tid,
        }
        self.events.append({**event, "args": {"correlation": self.correlation}})
        return self.correlation

    def kernel(
        self,
        name: str,
        start: float,
        duration: float,
        correlation: int = -1,
        stream: int = 7,
        **arguments: Any,
    ) -> "TraceMaker":
        arguments = {"stream": stream, "device": 0, "correlation": correlation} | arguments
        event = {
            "ph": "X",
            "cat": "kernel",
            "name": name,
            "ts": start,
            "dur": duration,
            "pid": 0,
            "tid": stream,
        }
        self.events.append({**event, "args": arguments})
        return self

    def write(self, path: Path, rank: int = 0, world_size: int = 1) -> Path:
        content = {"distributedInfo": {"rank": rank, "world_size": world_size}} | self.header
        text = json.dumps({**content, "traceEvents": self.events})
        if path.suffix == ".gz":
            with gzip.open(path, "wt") as stream:
                stream.write(text)
        else:
            path.write_text(text)
        return path


@pytest.fixture
def maker() -> Callable[[], TraceMaker]:
    return TraceMaker


@pytest.fixture
def cpu_stack_python() -> Path:
    """The interpreter of the cpu stack, where it has been built."""
    root = Path(__file__).parents[2]
    store = Path(os.environ.get("SGLANG_SWEEP_STORE", "~/.cache/sglang-sweep")).expanduser()
    python = load_stack(root / "envs", "cpu").python(store)
    if not python.exists():
        pytest.skip(f"the cpu stack is not built ({python})")
    return python
