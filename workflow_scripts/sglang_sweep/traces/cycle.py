"""One turn of the decode loop: which phases it has, how long each takes, and what lies between them."""

from collections import Counter
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from sglang_sweep.traces.intervals import union_length
from sglang_sweep.traces.phases import PREFILL, Step

_ANCHORS = ("TARGET_VERIFY", "DECODE")


class Cost(Protocol):
    """What is needed of a step's cost: first GPU activity and length, us."""

    @property
    def begin(self) -> float: ...

    @property
    def span(self) -> float: ...

    @property
    def busy(self) -> float: ...


def decode_part(profile: Mapping[str, Any]) -> dict[str, Any]:
    """The breakdown of the decode stage: of a profile.json that keeps the stages apart, or the breakdown itself.

    Empty where the stage is missing or could not be read.
    """
    part = profile if "steps" in profile else profile.get("decode") or {}
    return dict(part) if "steps" in part else {"steps": [], "cycle": {}}


def cycle_of(
    steps: list[Step],
    costs: list[Any],
    reports: list[dict[str, Any]],
    outside: tuple[np.ndarray, np.ndarray],
) -> dict[str, Any]:
    """The decode cycle, anchored on verify, else on decode, else (a prefill trace) on extend. Times in ms.

    ``period_ms`` is the median time between successive anchors with no prefill in between; ``between_ms`` is
    what of it no phase covers, ``outside_busy_ms`` how long the GPU worked in that (sampling, tree building).
    """
    present = Counter(step.kind for step in steps)
    anchor = next((kind for kind in _ANCHORS if present[kind]), None)
    if anchor is None:
        anchor = present.most_common(1)[0][0] if present else None
    if anchor is None:
        return {}
    cycles = present[anchor]
    decoding = anchor in _ANCHORS
    parts = [
        kind
        for kind in dict.fromkeys(step.kind for step in steps)
        if not decoding or (kind not in PREFILL and kind != "draft_extend after prefill")
    ]
    phases = []
    for kind in parts:
        own = [cost for step, cost in zip(steps, costs, strict=True) if step.kind == kind]
        rows = [row for row in reports if row["kind"] == kind]
        reduces = sum(row["allreduce"]["count_per_step"] * row["count"] for row in rows)
        phases.append(
            {
                "kind": kind,
                "per_cycle": round(len(own) / cycles, 3),
                "ms": round(sum(cost.span for cost in own) / cycles / 1e3, 4),
                "busy_ms": round(sum(cost.busy for cost in own) / cycles / 1e3, 4),
                "allreduces": round(reduces / cycles, 2),
                "allreduce_ms": round(
                    sum(row["allreduce"]["ms_per_step"] * row["count"] for row in rows) / cycles, 4
                ),
            }
        )
    busy = sum(phase["busy_ms"] for phase in phases)
    for phase in phases:
        phase["share"] = round(phase["busy_ms"] / busy, 4) if busy else 0.0
    period = _period(steps, costs, anchor)
    covered = sum(phase["ms"] for phase in phases)
    return {
        "kind": {"TARGET_VERIFY": "speculative", "DECODE": "decode"}.get(anchor, "other"),
        "anchor": anchor,
        "count": cycles,
        "phases": phases,
        "busy_ms": round(busy, 4),
        "allreduces": round(sum(phase["allreduces"] for phase in phases), 2),
        "allreduce_ms": round(sum(phase["allreduce_ms"] for phase in phases), 4),
        "period_ms": round(period / 1e3, 4) if period else None,
        "between_ms": round(max(period / 1e3 - covered, 0.0), 4) if period else None,
        "outside_busy_ms": _outside_busy(steps, costs, anchor, outside),
    }


def _anchored(steps: list[Step], costs: list[Any], anchor: str) -> list[tuple[float, float]]:
    """Begin of one anchor and of the next, for neighbours with no prefill in between."""
    pairs: list[tuple[float, float]] = []
    previous: float | None = None
    for step, cost in zip(steps, costs, strict=True):
        if step.kind in PREFILL and anchor not in PREFILL:
            previous = None
        elif step.kind == anchor and np.isfinite(cost.begin):
            if previous is not None:
                pairs.append((previous, cost.begin))
            previous = cost.begin
    return pairs


def _period(steps: list[Step], costs: list[Any], anchor: str) -> float | None:
    pairs = [end - begin for begin, end in _anchored(steps, costs, anchor) if end > begin]
    return float(np.median(pairs)) if pairs else None


def _outside_busy(
    steps: list[Step], costs: list[Any], anchor: str, outside: tuple[np.ndarray, np.ndarray]
) -> float | None:
    pairs = _anchored(steps, costs, anchor)
    start, end = outside
    if not pairs:
        return None
    busy = [
        union_length(start[inside], end[inside])
        for begin, stop in pairs
        for inside in [(start >= begin) & (start < stop)]
    ]
    return round(float(np.median(busy)) / 1e3, 4)
