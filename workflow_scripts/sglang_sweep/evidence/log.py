"""What one reading of a server log finds: phases, facts, batches, NCCL's choices, tracebacks and known lines."""

from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from sglang_sweep.evidence.tracebacks import Block


@dataclass(frozen=True)
class Line:
    """A line as evidence: its number (from 1, as editors count) and its text, cut to a readable length."""

    number: int
    text: str


@dataclass
class Hit:
    """An entry's pattern found in the log: how often, where first, and what its named groups held there."""

    count: int
    first: Line
    groups: dict[str, str]
    last: Line | None = None
    began: datetime | None = None
    ended: datetime | None = None


@dataclass(frozen=True)
class Mark:
    """The first line of a launch phase, for one rank."""

    phase: str
    title: str
    rank: str | None
    line: Line
    time: datetime | None


@dataclass
class Stack:
    """Where one process stood when a watchdog looked: innermost frame first, as ``function (file)``."""

    rank: str
    frames: list[str]
    line: Line


@dataclass
class Answers:
    """HTTP requests that ended with one status of 5xx at one path."""

    count: int
    first: Line
    last: Line
    began: datetime | None
    ended: datetime | None


@dataclass
class Batches:
    """Decode and prefill steps that SGLang logged (it logs one decode step in ``decode_log_interval``)."""

    decode: int = 0
    outside_graph: int = 0
    running: int = 0
    running_outside_graph: int = 0
    accept_sum: float = 0.0
    accept_weight: int = 0
    most_running: int = 0
    prefill_new: int = 0
    prefill_cached: int = 0
    full: int = 0
    """Decode steps in a row, the most, with a full KV cache and requests waiting."""
    rates: dict[int, list[float]] = field(default_factory=dict)
    """Tokens per second by running requests, the first and last few that were logged."""
    first: dict[str, Line] = field(default_factory=dict)

    @property
    def accept_length(self) -> float | None:
        """Mean accept length over logged decode steps, weighted by running requests; 1.0 = nothing accepted."""
        return self.accept_sum / self.accept_weight if self.accept_weight else None

    @property
    def share_outside_graph(self) -> float | None:
        """Share of decoded tokens (running requests summed over steps) that no captured graph served."""
        return self.running_outside_graph / self.running if self.running else None


@dataclass
class Collective:
    """How NCCL served one collective of one size: how often, on how many channels, first where."""

    function: str
    size_bytes: int
    algorithm: str
    protocol: str
    channels: int
    count: int
    line: Line


@dataclass
class LogScan:
    """What one reading of a log found."""

    path: Path
    lines: int = 0
    first_time: datetime | None = None
    last_line: Line | None = None
    marks: list[Mark] = field(default_factory=list)
    facts: dict[str, tuple[str, Line]] = field(default_factory=dict)
    hits: dict[str, Hit] = field(default_factory=dict)
    batches: Batches = field(default_factory=Batches)
    blocks: list[Block] = field(default_factory=list)
    collectives: dict[tuple[str, int, str, str], Collective] = field(default_factory=dict)
    arguments: dict[str, Any] = field(default_factory=dict)
    arguments_line: Line | None = None
    stopping_line: int | None = None
    source: str = ""
    """Who printed it, where several did: a container, a pod, an actor."""
    began: int = 1
    """The file's line at which this server begins."""
    mixed: bool = False
    """A second server wrote between its lines and nothing tells them apart."""
    graphs: dict[str, float] = field(default_factory=dict)
    """GB of CUDA graphs by what was captured (target decode, draft, ...)."""
    stacks: list[Stack] = field(default_factory=list)
    answers: dict[tuple[str, str], Answers] = field(default_factory=dict)
    """Failed HTTP requests by status and path."""
    ranks: dict[str, Line] = field(default_factory=dict)
    """The last line of each rank."""
    last_time: datetime | None = None
    last_stamped: int = 0
    """The last line that a logger wrote, by its time stamp."""

    def mark(self, *phases: str) -> Mark | None:
        """The first mark of one of these phases over all ranks."""
        return next((mark for mark in self.marks if mark.phase in phases), None)

    @property
    def ready(self) -> Mark | None:
        """When it was up: ready to serve, or as a further node of another's server.

        A log that begins while the server decodes (rotated, or a tail) shows it by its first decode step.
        """
        first = self.batches.first.get("decode_in_graph") or self.batches.first.get("decode_outside_graph")
        if first and not self.marks:
            return Mark("ready", "serving when the log begins", None, first, None)
        return self.mark("ready", "worker-ready")
