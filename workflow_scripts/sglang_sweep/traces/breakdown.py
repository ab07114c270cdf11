"""Where the time of each kind of step goes: kernel classes, collectives at cost, waiting, and idle gaps.

Every step is described from the rank that waited least in it, since that rank shows what the step takes when
nobody is late. On it, span = busy + waiting + gaps, where busy is the union over streams of the kernels with
the waiting cut off the front of each collective.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sglang_sweep.traces.caveats import caveats, unmatched
from sglang_sweep.traces.collectives import Matched, cost_starts, match
from sglang_sweep.traces.cycle import cycle_of
from sglang_sweep.traces.intervals import union_length
from sglang_sweep.traces.kernels import CLASSES, load
from sglang_sweep.traces.phases import OUTSIDE
from sglang_sweep.traces.ranks import Ranks, load_ranks
from sglang_sweep.traces.work import Work


@dataclass(frozen=True)
class StepCost:
    """One step, seen from its least-waiting rank; us."""

    rank: int
    begin: float
    span: float
    busy: float
    waiting: float
    count: int
    classes: dict[str, tuple[float, int]]

    @property
    def gap(self) -> float:
        return max(self.span - self.busy - self.waiting, 0.0)


def analyze(paths: Sequence[str | Path], version: str | None = None) -> dict[str, Any]:
    """The breakdown of one profile's traces, one per rank, as JSON-able data (keys: docs/profiles.md).

    Times in ms per step, and us for single collectives. Raises UserError for files that are not one profile
    of an SGLang server.
    """
    ranks = load_ranks(paths, load(version))
    matched, disagreeing = match(ranks.works, ranks.common_steps)
    starts = cost_starts(ranks.works, matched) if len(ranks.works) > 1 else [ranks.works[0].start]
    costs = [_step_cost(ranks, starts, step) for step in range(ranks.common_steps)]
    by_step: dict[int, list[Matched]] = defaultdict(list)
    for group in matched:
        by_step[group.step].append(group)
    kinds: dict[tuple[str, int | None], list[int]] = defaultdict(list)
    for number in range(ranks.common_steps):
        step = ranks.works[0].steps[number]
        kinds[(step.kind, step.batch_size)].append(number)
    steps = [_kind_report(ranks, members, costs, by_step, disagreeing) for members in kinds.values()]
    return {
        "ranks": ranks.numbers,
        "world_size": ranks.world_size,
        "source": ranks.source,
        "devices": ranks.devices,
        "stages": ranks.stages,
        "sglang_version": version,
        "attributed_by": ranks.works[0].how,
        "steps": steps,
        "cycle": cycle_of(ranks.works[0].steps[: ranks.common_steps], costs, steps, _outside(ranks.works[0])),
        "unmatched": unmatched(ranks),
        "notes": caveats(ranks, version, disagreeing),
    }


def _step_cost(ranks: Ranks, starts: list[np.ndarray], step: int) -> StepCost:
    seen = []
    for number, (work, cost_start) in enumerate(zip(ranks.works, starts, strict=True)):
        members = work.members(step)
        if not len(members):
            continue
        start, end = work.start[members], work.end[members]
        full = union_length(start, end)
        busy = union_length(cost_start[members], end)
        seen.append((full - busy, number, members, full, busy))
    if not seen:
        return StepCost(0, np.nan, 0.0, 0.0, 0.0, 0, {})
    waiting, number, members, _, busy = min(seen, key=lambda row: (row[0], row[1]))
    work = ranks.works[number]
    own = work.steps[step]
    # a host step lasts as its annotation says; on the GPU, from the first kernel to the last
    on_host = work.exclusive is not None
    span = own.end - own.start if on_host else float(work.end[members].max() - work.start[members].min())
    # always on the first rank's clock, since another host's may differ
    first = ranks.works[0].members(step)
    begin = ranks.works[0].steps[step].start
    if not on_host:
        begin = float(ranks.works[0].start[first].min()) if len(first) else np.nan
    classes = _classes(work, starts[number], members)
    count = int(work.top[members].sum())
    return StepCost(ranks.numbers[number], begin, span, busy, waiting, count, classes)


def _classes(work: Work, cost_start: np.ndarray, members: np.ndarray) -> dict[str, tuple[float, int]]:
    found = {}
    for name in CLASSES:
        own = members[work.of_class(name)[members]]
        if not len(own):
            continue
        time = (
            union_length(cost_start[own], work.end[own])
            if work.exclusive is None
            else float(work.exclusive[own].sum())
        )
        found[name] = (time, int(work.head[own].sum()))
    return found


def _kind_report(
    ranks: Ranks,
    members: list[int],
    costs: list[StepCost],
    by_step: dict[int, list[Matched]],
    disagreeing: list[int],
) -> dict[str, Any]:
    step = ranks.works[0].steps[members[0]]
    own = [costs[number] for number in members if costs[number].count]
    count = max(len(own), 1)
    span, busy = sum(cost.span for cost in own), sum(cost.busy for cost in own)
    tokens = [tokens for number in members if (tokens := ranks.works[0].steps[number].tokens) is not None]
    classes = {}
    for name in CLASSES:
        time = sum(cost.classes.get(name, (0.0, 0))[0] for cost in own)
        events = sum(cost.classes.get(name, (0.0, 0))[1] for cost in own)
        if events:
            classes[name] = {
                "ms_per_step": _ms(time / count),
                "share": _ratio(time, busy),
                "kernels_per_step": _whole(events / count),
            }
    groups = [group for number in members for group in by_step[number]]
    usable = [number for number in members if number not in disagreeing]
    return {
        "kind": step.kind,
        "annotation": step.annotation,
        "batch_size": step.batch_size,
        "tokens": {"min": min(tokens), "max": max(tokens)} if tokens else None,
        "count": len(members),
        "ms_per_step": _ms(span / count),
        "ms_median": _ms(float(np.median([cost.span for cost in own]))) if own else 0.0,
        "busy_ms": _ms(busy / count),
        "waiting_ms": _ms(sum(cost.waiting for cost in own) / count) if len(ranks.works) > 1 else None,
        "gap_share": _ratio(sum(cost.gap for cost in own), span),
        "kernels_per_step": _whole(sum(cost.count for cost in own) / count),
        "allreduce": _collective(
            [group for group in groups if group.kernel_class == "all_reduce"],
            ranks,
            len(usable),
            span,
            busy,
            count,
        ),
        "other_collectives": [
            {
                "operation": operation,
                **_collective(
                    [
                        group
                        for group in groups
                        if group.kernel_class != "all_reduce" and group.operation == operation
                    ],
                    ranks,
                    len(usable),
                    span,
                    busy,
                    count,
                ),
            }
            for operation in sorted(
                {group.operation for group in groups if group.kernel_class != "all_reduce"}
            )
        ],
        "classes": classes,
    }


def _collective(
    groups: list[Matched], ranks: Ranks, steps: int, span: float, busy: float, count: int
) -> dict[str, Any]:
    """Cost and skew of one operation over ``steps`` steps in which the ranks agreed."""
    several = len(ranks.works) > 1
    cost = np.concatenate([group.cost for group in groups]) if groups else np.empty(0)
    skew = np.concatenate([group.skew for group in groups]) if groups else np.empty(0)
    late = np.concatenate([group.late for group in groups]) if groups else np.empty(0)
    paths: Counter[str] = Counter()
    sizes: Counter[int] = Counter()
    for group in groups:
        paths[group.path] += len(group.cost)
        sizes.update(int(size) for size in group.message if np.isfinite(size))
    steps = max(steps, 1)
    blame = {
        str(rank): _ms(float(skew[late == number].sum()) / steps) for number, rank in enumerate(ranks.numbers)
    }
    return {
        "count_per_step": _whole(len(cost) / steps),
        "us_median": round(float(np.median(cost)), 3) if len(cost) else None,
        "ms_per_step": _ms(float(cost.sum()) / steps),
        "share": _ratio(float(cost.sum()) / steps, busy / count),
        "share_of_step": _ratio(float(cost.sum()) / steps, span / count),
        "path": paths.most_common(1)[0][0] if paths else None,
        "paths": dict(paths.most_common()),
        "message_bytes": {str(size): number for size, number in sorted(sizes.items())} or None,
        "skew_ms": _ms(float(skew.sum()) / steps) if several else None,
        "late_rank": max(ranks.numbers, key=lambda rank: blame[str(rank)]) if several and len(cost) else None,
        "skew_ms_by_late_rank": blame if several else None,
        "one_rank_ms_per_step": {
            str(rank): _ms(float(sum(group.duration[number].sum() for group in groups)) / steps)
            for number, rank in enumerate(ranks.numbers)
        },
    }


def _outside(work: Work) -> tuple[np.ndarray, np.ndarray]:
    """Start and end of what ran on the GPU outside every step."""
    outside = work.owner == OUTSIDE
    return work.start[outside], work.end[outside]


def _ms(microseconds: float) -> float:
    return round(microseconds / 1e3, 4)


def _ratio(part: float, whole: float) -> float:
    return round(part / whole, 4) if whole else 0.0


def _whole(value: float) -> float | int:
    return int(value) if value == int(value) else round(value, 2)
