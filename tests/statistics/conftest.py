"""Launch records as the launch step writes them, with chosen numbers."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

Launch = dict[str, Any]
MINUTES_PER_LAUNCH = 8


def make_launch(
    variant: str,
    block: int,
    rates: Sequence[float] = (),
    *,
    minutes: float = 0.0,
    cause: str | None = None,
    outcome: str | None = None,
    host: str = "this-host",
    gpus: str | None = None,
    metrics: Mapping[str, float] | None = None,
) -> Launch:
    windows = [
        {
            "workload": "chat",
            "window": index,
            "duration_s": 10.0,
            "valid": True,
            "invalid": [],
            "metrics": {"output_throughput": rate, "completed": 8, "failed": 0, **(metrics or {})},
        }
        for index, rate in enumerate(rates)
    ]
    hours, rest = divmod(int(minutes + 60 * 10), 60)
    days, hours = divmod(hours, 24)
    return {
        "variant": variant,
        "key": "0123456789",
        "block": block,
        "started_at": f"2026-11-{1 + days:02d}T{hours:02d}:{rest:02d}:00+00:00",
        "outcome": outcome or ("failed" if cause else "completed"),
        "cause": cause,
        "host": {"hostname": "h", "class_digest": host, "gpus_digest": gpus},
        "windows": windows,
        "host_samples": {"before": {}, "after": {}},
        "clean_room": {"before": {"processes": []}},
    }


def make_campaign(values: Mapping[str, Mapping[int, float]]) -> list[Launch]:
    """One launch of two equal windows for each value of each arm and block."""
    return [
        make_launch(arm, block, (value, value), minutes=MINUTES_PER_LAUNCH * (block * 10 + position))
        for position, (arm, blocks) in enumerate(values.items())
        for block, value in blocks.items()
    ]


@pytest.fixture(name="launch")
def _launch() -> Callable[..., Launch]:
    return make_launch


@pytest.fixture(name="campaign")
def _campaign() -> Callable[..., list[Launch]]:
    return make_campaign


@pytest.fixture
def design() -> dict[str, Any]:
    return {
        "mode": "fixed",
        "blocks": 3,
        "max_blocks": 12,
        "smallest_effect": 0.05,
        "alpha": 0.05,
        "primary": {"workload": "chat", "metric": "output_throughput"},
        "contemporary_hours": 24,
    }
