"""Takes from launch.json records the points that the figures draw: by launch and by window."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from statistics import median
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

    The value is the mean over the windows that count; where rules removed the launch or all its windows, over
    all of them, so that what was removed can still be seen.
    """
    begun = [_seconds(record["started_at"]) for record in launches if record.get("started_at")]
    points = []
    for record, windows, metric in _measured(launches, verdicts):
        counting = [value for value, removed in windows.values() if not removed]
        values = counting or [value for value, _ in windows.values()]
        if not record.get("started_at"):
            continue
        points.append(
            Point(
                arm=str(record["variant"]),
                block=int(record["block"]),
                window=0,
                hours=(_seconds(record["started_at"]) - min(begun)) / 3600,
                value=sum(values) / len(values),
                metric=metric,
                removed=not counting,
            )
        )
    return sorted(points, key=lambda p: (p.hours, p.arm))


def sessions(points: Sequence[Point]) -> list[list[Point]]:
    """Return points in order of time, parted where nothing ran: half an hour, and ten times the usual step."""
    ordered = sorted(points, key=lambda p: p.hours)
    steps = [later.hours - earlier.hours for earlier, later in pairwise(ordered)]
    pause = max(0.5, 10 * median(steps)) if steps else 0.0
    parts = [ordered[:1]] if ordered else []
    for point, step in zip(ordered[1:], steps, strict=True):
        if step > pause:
            parts.append([])
        parts[-1].append(point)
    return parts


def window_points(
    launches: Sequence[Mapping[str, Any]], verdicts: Mapping[str, Any] | None = None
) -> list[Point]:
    """Return one point per window: its change in percent against the mean of its launch."""
    points = []
    for record, windows, metric in _measured(launches, verdicts):
        mean = sum(value for value, _ in windows.values()) / len(windows)
        points += [
            Point(
                arm=str(record["variant"]),
                block=int(record["block"]),
                window=number,
                hours=0.0,
                value=(value / mean - 1) * 100 if mean else 0.0,
                metric=metric,
                removed=removed,
            )
            for number, (value, removed) in windows.items()
        ]
    return sorted(points, key=lambda p: (p.arm, p.block, p.window))


def _measured(
    launches: Sequence[Mapping[str, Any]], verdicts: Mapping[str, Any] | None
) -> Iterator[tuple[Mapping[str, Any], dict[int, tuple[float, bool]], str]]:
    """Yield each launch with numbers, its windows as number -> (value, removed), and the metric's name."""
    workload, metric = primary_of(verdicts)
    metric = metric or DEFAULT_METRIC
    removed = _removed(verdicts)
    for record in launches:
        windows = record.get("windows") or []
        named = workload or (windows[0].get("workload") if windows else None)
        whole = (record["variant"], record["block"], None) in removed
        shown = {
            int(window["window"]): (
                float(window["metrics"][metric]),
                whole
                or window.get("valid") is False
                or (record["variant"], record["block"], index) in removed,
            )
            for index, window in enumerate(windows)
            if window.get("workload") == named and (window.get("metrics") or {}).get(metric) is not None
        }
        if shown:
            yield record, shown, metric


def _removed(verdicts: Mapping[str, Any] | None) -> set[tuple[Any, Any, int | None]]:
    """Return (arm, block, index of the window, or None for the whole launch) of what does not count."""
    known = verdicts or {}
    gone = {
        (row.get("arm"), row.get("block"), row.get("window"))
        for row in (known.get("session") or {}).get("removed") or []
    }
    return gone | {
        (variant["name"], row.get("block"), None)
        for variant in known.get("variants") or []
        for row in variant.get("launches") or []
        if row.get("removed")
    }


def _seconds(iso: str) -> float:
    return datetime.fromisoformat(iso).timestamp()
