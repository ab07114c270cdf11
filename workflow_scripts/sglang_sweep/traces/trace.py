"""A trace in memory: columns of a few bytes per event, and what the file says about itself."""

from array import array
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np


class Columns:
    """Events as columns: start and duration in us, index into ``Trace.names``, two integers, bytes moved."""

    def __init__(self) -> None:
        self._start, self._duration, self._bytes = array("d"), array("d"), array("d")
        self._name, self._lane, self._correlation = array("i"), array("q"), array("q")

    def append(
        self, start: float, duration: float, name: int, lane: int, correlation: int, moved: float
    ) -> None:
        self._start.append(start)
        self._duration.append(duration)
        self._name.append(name)
        self._lane.append(lane)
        self._correlation.append(correlation)
        self._bytes.append(moved)

    def __len__(self) -> int:
        return len(self._start)

    @property
    def start(self) -> np.ndarray:
        return np.frombuffer(self._start, dtype=np.float64) if self._start else np.empty(0)

    @property
    def duration(self) -> np.ndarray:
        return np.frombuffer(self._duration, dtype=np.float64) if self._duration else np.empty(0)

    @property
    def end(self) -> np.ndarray:
        return self.start + self.duration

    @property
    def name(self) -> np.ndarray:
        return np.frombuffer(self._name, dtype=np.int32) if self._name else np.empty(0, dtype=np.int32)

    @property
    def lane(self) -> np.ndarray:
        """The stream of a kernel, the thread of a host event."""
        return np.frombuffer(self._lane, dtype=np.int64) if self._lane else np.empty(0, dtype=np.int64)

    @property
    def correlation(self) -> np.ndarray:
        """What ties a kernel to the runtime call that launched it; -1 where the trace does not say."""
        data = self._correlation
        return np.frombuffer(data, dtype=np.int64) if data else np.empty(0, dtype=np.int64)

    @property
    def bytes(self) -> np.ndarray:
        """Bytes of a copy or of a collective's message; NaN where the trace does not say."""
        return np.frombuffer(self._bytes, dtype=np.float64) if self._bytes else np.empty(0)


@dataclass(frozen=True)
class Annotation:
    """A named span: ``step[DECODE bs=1]``, ``draft``, ``scheduler.run_batch``; microseconds."""

    name: str
    start: float
    duration: float
    lane: int

    @property
    def end(self) -> float:
        return self.start + self.duration


@dataclass
class Trace:
    """One rank's trace. ``kernels``: GPU kernels, copies; ``launches``: runtime calls; ``ops``: operators."""

    path: Path
    rank: int | None
    world_size: int | None
    profile_id: str | None
    stage: str | None
    base_ns: int
    devices: list[str]
    names: list[str] = field(default_factory=list)
    kernels: Columns = field(default_factory=Columns)
    launches: Columns = field(default_factory=Columns)
    ops: Columns = field(default_factory=Columns)
    annotations: list[Annotation] = field(default_factory=list)
    gpu_annotations: list[Annotation] = field(default_factory=list)
    python_spans: list[Annotation] = field(default_factory=list)
    sglang: bool = False
    python_stacks: bool = False
    truncated: str | None = None
    events: int = 0
    bytes_read: int = 0
