"""From launch records to numbers: windows paired by index between arms, removed in all or in none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

from sglang_sweep.statistics.invalidation import UNSURVIVED, Launch, Removal, removals
from sglang_sweep.statistics.metrics import METRICS

Key = tuple[str, str]
"""Workload and metric."""

NOTHING_DELIVERED = "nothing_delivered"
"""What is noted of a launch whose throughput or goodput is zero on a workload."""


@dataclass(frozen=True)
class Measured:
    """One launch reduced to what the statistics use; ``values`` by (workload, metric) and index of the window, in
    the metric's unit, without what rules removed. ``served``: its server became ready."""

    arm: str
    block: int
    started: datetime
    host_class: str | None
    host: str | None
    gpus: str | None
    outcome: str
    cause: str | None
    file: str
    served: bool = True
    values: Mapping[Key, Mapping[int, float]] = field(default_factory=dict)
    removed: tuple[Removal, ...] = ()

    @cached_property
    def raw(self) -> dict[Key, float]:
        """The mean of each metric over the launch's own windows."""
        return {key: _mean(windows.values()) for key, windows in self.values.items()}

    @cached_property
    def seen(self) -> frozenset[str]:
        """The rules that spoke of this launch or one of its windows."""
        empty = any(value == 0 for (_, metric), value in self.raw.items() if METRICS[metric].higher_is_better)
        return frozenset([r.rule for r in self.removed] + [NOTHING_DELIVERED] * empty)

    @property
    def lost(self) -> str | None:
        """The rules that removed the whole launch, or all its windows; None if a value is left."""
        if self.outcome != "completed" or self.values:
            return None
        return ", ".join(dict.fromkeys(r.rule for r in self.removed if r.removes)) or "no_windows"


Arms = Mapping[str, Sequence[Measured]]


def measured(launch: Launch) -> Measured:
    """Reduce one record. A launch-wide removal leaves no value; of a window in which requests failed only what
    counts the failed ones is left."""
    removed = tuple(removals(launch)) if launch["outcome"] == "completed" else ()
    whole = any(r.window is None and r.removes for r in removed)
    dropped: dict[int, set[str]] = {}
    for r in removed:
        if r.removes and r.window is not None:
            dropped.setdefault(r.window, set()).add(r.rule)
    values: dict[Key, dict[int, float]] = {}
    for position, window in enumerate([] if whole else launch.get("windows") or []):
        for metric, value in _kept(window, dropped.get(position, set())).items():
            values.setdefault((window["workload"], metric), {})[window.get("window", position)] = value
    host = launch.get("host") or {}
    return Measured(
        arm=launch["variant"],
        block=launch["block"],
        started=datetime.fromisoformat(launch["started_at"]),
        host_class=host.get("class_digest"),
        host=host.get("hostname"),
        gpus=host.get("gpus_digest"),
        outcome=launch["outcome"],
        cause=launch.get("cause"),
        file=launch.get("file")
        or f"launches/{launch['variant']}-{launch['key']}/block-{launch['block']}/launch.json",
        served=(launch.get("timeline") or {}).get("ready_s") is not None,
        values=values,
        removed=removed,
    )


def _kept(window: Mapping[str, Any], dropped: set[str]) -> dict[str, float]:
    """The metrics of a window that count. Zero is a value, but a latency of zero is that of no request."""
    if dropped - {"incomplete_requests"}:
        return {}
    metrics = window.get("metrics") or {}
    done, failed = metrics.get("completed"), metrics.get("failed") or 0
    shown = {name: float(metrics[name]) for name in METRICS if metrics.get(name) is not None}
    if done is not None and done + failed > 0:
        shown["completion"] = done / (done + failed)
    shown = {name: value for name, value in shown.items() if value > 0 or METRICS[name].higher_is_better}
    if not dropped:
        return shown
    # Nothing completed: its throughput is zero and nobody survived to flatter it.
    return {name: value for name, value in shown.items() if name in UNSURVIVED or (done == 0 and value == 0)}


def by_arm(launches: Iterable[Launch]) -> dict[str, list[Measured]]:
    """Return the launches of each arm in the order of their blocks."""
    arms: dict[str, list[Measured]] = {}
    for launch in sorted((measured(record) for record in launches), key=lambda m: m.block):
        arms.setdefault(launch.arm, []).append(launch)
    return arms


def blocks_by_gpus(arms: Arms) -> list[dict[str, Any]]:
    """Return which blocks ran on which GPUs, by their digest; None where the records do not name them."""
    found: dict[str | None, set[int]] = {}
    for launch in (launch for launches in arms.values() for launch in launches):
        found.setdefault(launch.gpus, set()).add(launch.block)
    return [
        {"gpus": gpus, "blocks": sorted(found[gpus])} for gpus in sorted(found, key=lambda g: min(found[g]))
    ]


def contemporary(a: Measured, b: Measured, hours: float) -> bool:
    """Whether two launches of a block may be compared: started within so many hours, on the same class of
    host and, where both say on which GPUs, on the same ones."""
    if a.host_class != b.host_class or (a.gpus and b.gpus and a.gpus != b.gpus):
        return False
    return abs((a.started - b.started).total_seconds()) <= hours * 3600


@dataclass(frozen=True)
class Paired:
    """Means of one metric by arm and block, over the windows that an arm and its baselines have in common, in the
    metric's unit; and the blocks whose baselines are not contemporary."""

    values: Mapping[str, Mapping[int, float]]
    stale: frozenset[int] = frozenset()


def paired_values(arms: Arms, arm: str, baselines: Sequence[str], key: Key, hours: float) -> Paired:
    """Pair one arm with its contemporary baselines.

    Windows of one index hold the same prompts, so only indices that all of them have are compared: what a rule
    removed in one is removed in all. A zero has no logarithm and counts as half the least value that any launch
    has, whichever arm it is in.
    """
    floor = min((m.raw[key] for ms in arms.values() for m in ms if m.raw.get(key, 0) > 0), default=0.0) / 2
    values: dict[str, dict[int, float]] = {name: {} for name in (arm, *baselines)}
    stale: set[int] = set()
    for mine in arms.get(arm, ()):
        own = set(mine.values.get(key, ()))
        beside = [
            (name, b)
            for name in baselines
            for b in arms.get(name, ())
            if b.block == mine.block and own.intersection(b.values.get(key, ()))
        ]
        fresh = [(name, b) for name, b in beside if contemporary(mine, b, hours)]
        if not fresh:
            stale.update({mine.block} if beside else ())
            continue
        common = own.intersection(*(b.values[key] for _, b in fresh))
        for name, launch in [(arm, mine), *fresh] if common and floor else []:
            values[name][mine.block] = _mean(launch.values[key][i] for i in common) or floor
    return Paired(values, frozenset(stale))


def _mean(values: Iterable[float]) -> float:
    listed = list(values)
    return sum(listed) / len(listed)
