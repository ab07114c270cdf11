"""What one launch is told, and what measuring borrows from other parts of the library."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sglang_sweep.campaign.declared import Workload
from sglang_sweep.campaign.site import Limits
from sglang_sweep.launch.server import StallVerdict

CauseOf = Callable[[Path, str | None, int | None], tuple[str, str | None]]
"""(log, SGLang version, exit code) to (cause, first exception)."""


@dataclass(frozen=True)
class LaunchOrder:
    """Everything one launch needs to know. ``command`` lacks only ``--host`` and ``--port``."""

    campaign: str
    variant: str
    key: str
    identity: dict[str, Any]
    block: int
    position: int
    command: list[str]
    environment: dict[str, str]
    declared_environment: dict[str, str]
    model: str
    stack: dict[str, Any]
    host: dict[str, str]
    workloads: tuple[Workload, ...]
    windows: int
    client_python: Path
    share_processors: bool
    limits: Limits = field(default_factory=Limits)
    gpus: tuple[str, ...] = ()
    """UUIDs of those it may use."""
    random_key: bool = True
    """Whether the server gets an API key that nobody knows, where the campaign gives it none."""


@dataclass(frozen=True)
class Instruments:
    """What measuring borrows from other parts of the library; tests give their own."""

    cause_of: CauseOf
    stall_verdict: StallVerdict
    sample_host: Callable[[], dict[str, Any]]
    sample_clocks: Callable[[], list[dict[str, Any]]]
