"""From launch records to numbers: windows averaged, invalid ones removed and listed, pairs that are
contemporary."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sglang_sweep.statistics.invalidation import Launch, Removal, removals
from sglang_sweep.statistics.metrics import METRICS, oriented


@dataclass(frozen=True)
class Measured:
    """One launch reduced to what the statistics use; ``raw`` is by (workload, metric), in the metric's
    unit."""

    arm: str
    block: int
    started: datetime
    host_class: str | None
    gpus: str | None
    outcome: str
    cause: str | None
    file: str
    raw: Mapping[tuple[str, str], float] = field(default_factory=dict)
    removed: tuple[Removal, ...] = ()

    @property
    def lost(self) -> str | None:
        """The rules that removed the whole launch, or all its windows; None if a value is left."""
        if self.outcome != "completed" or self.raw:
            return None
        return ", ".join(dict.fromkeys(r.rule for r in self.removed)) or "no_windows"


Arms = Mapping[str, Sequence[Measured]]


def measured(launch: Launch) -> Measured:
    """Reduce one record. A launch-wide removal leaves no value; windows removed leave the mean of the
    others."""
    removed = tuple(removals(launch)) if launch["outcome"] == "completed" else ()
    whole = any(r.window is None for r in removed)
    dropped = {r.window for r in removed}
    host = launch.get("host") or {}
    return Measured(
        arm=launch["variant"],
        block=launch["block"],
        started=datetime.fromisoformat(launch["started_at"]),
        host_class=host.get("class_digest"),
        gpus=host.get("gpus_digest"),
        outcome=launch["outcome"],
        cause=launch.get("cause"),
        file=launch.get("file")
        or f"launches/{launch['variant']}-{launch['key']}/block-{launch['block']}/launch.json",
        raw={} if whole else _means(w for i, w in enumerate(launch.get("windows") or []) if i not in dropped),
        removed=removed,
    )


def _means(windows: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], float]:
    values: dict[tuple[str, str], list[float]] = {}
    for window in windows:
        for metric in METRICS:
            value = (window.get("metrics") or {}).get(metric)
            if value is not None:
                values.setdefault((window["workload"], metric), []).append(float(value))
    return {key: sum(v) / len(v) for key, v in values.items()}


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


def paired_values(
    arms: Arms, arm: str, baselines: Sequence[str], key: tuple[str, str], hours: float
) -> tuple[dict[str, dict[int, float]], set[int]]:
    """Return `ratios.Values` of one arm beside its contemporary baselines, and the blocks whose pair is
    stale.

    Values are oriented so that larger is better; zeros (a goodput of nothing) have no logarithm and are
    left out. A block is stale when it has a baseline value but none that is contemporary.
    """
    values: dict[str, dict[int, float]] = {name: {} for name in (arm, *baselines)}
    stale: set[int] = set()
    for mine in arms.get(arm, ()):
        if mine.raw.get(key, 0) <= 0:
            continue
        beside = [
            (name, launch)
            for name in baselines
            for launch in arms.get(name, ())
            if launch.block == mine.block and launch.raw.get(key, 0) > 0
        ]
        fresh = [(name, b) for name, b in beside if contemporary(mine, b, hours)]
        if fresh:
            values[arm][mine.block] = oriented(key[1], mine.raw[key])
            for name, b in fresh:
                values[name][mine.block] = oriented(key[1], b.raw[key])
        elif beside:
            stale.add(mine.block)
    return values, stale
