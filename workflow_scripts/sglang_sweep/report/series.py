"""Takes from launch.json records the points that the figures draw: by launch and by window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sglang_sweep.report.words import primary_of

DEFAULT_METRIC = "output_throughput"


@dataclass(frozen=True)
class Point:
    """One launch, or one window of it: `hours` since the first launch, `value` in the unit of `metric`."""

    arm: str
    block: int
    window: int
    hours: float
    value: float
    metric: str
    removed: bool


def launch_points(
    launches: Sequence[Mapping[str, Any]], verdicts: Mapping[str, Any] | None = None
) -> list[Point]:
    """Return one point per launch with a number, in order of time.

    The value is the mean over valid windows; where a rule removed all of them, over all windows, so that what
    was removed can still be seen.
    """
    workload, metric = primary_of(verdicts)
    metric = metric or DEFAULT_METRIC
    removed = _removed(verdicts)
    begun = [_seconds(record["started_at"]) for record in launches if record.get("started_at")]
    points = []
    for record in launches:
        windows = _windows(record, workload, metric)
        valid = [w for w in windows if w.get("valid", True)]
        values = [w["metrics"][metric] for w in valid or windows]
        if not values or not record.get("started_at"):
            continue
        points.append(
            Point(
                arm=str(record["variant"]),
                block=int(record["block"]),
                window=0,
                hours=(_seconds(record["started_at"]) - min(begun)) / 3600,
                value=sum(values) / len(values),
                metric=metric,
                removed=not valid or (record["variant"], record["block"]) in removed,
            )
        )
    return sorted(points, key=lambda p: (p.hours, p.arm))


def window_points(
    launches: Sequence[Mapping[str, Any]], verdicts: Mapping[str, Any] | None = None
) -> list[Point]:
    """Return one point per window: its change in percent against the mean of its launch."""
    workload, metric = primary_of(verdicts)
    metric = metric or DEFAULT_METRIC
    points = []
    for record in launches:
        windows = _windows(record, workload, metric)
        if not windows:
            continue
        mean = sum(w["metrics"][metric] for w in windows) / len(windows)
        for window in windows:
            points.append(
                Point(
                    arm=str(record["variant"]),
                    block=int(record["block"]),
                    window=int(window["window"]),
                    hours=0.0,
                    value=(window["metrics"][metric] / mean - 1) * 100 if mean else 0.0,
                    metric=metric,
                    removed=not window.get("valid", True),
                )
            )
    return sorted(points, key=lambda p: (p.arm, p.block, p.window))


def _windows(record: Mapping[str, Any], workload: str | None, metric: str) -> list[Mapping[str, Any]]:
    windows = record.get("windows") or []
    named = workload or (windows[0].get("workload") if windows else None)
    return [
        w for w in windows if w.get("workload") == named and (w.get("metrics") or {}).get(metric) is not None
    ]


def _removed(verdicts: Mapping[str, Any] | None) -> set[tuple[Any, Any]]:
    return {
        (variant["name"], row.get("block"))
        for variant in (verdicts or {}).get("variants") or []
        for row in variant.get("launches") or []
        if row.get("removed")
    }


def _seconds(iso: str) -> float:
    return datetime.fromisoformat(iso).timestamp()
