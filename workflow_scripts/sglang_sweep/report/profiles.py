"""Shows where a step's time goes, from the breakdown that `analyze-trace --json` writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sglang_sweep.report.facts import plain
from sglang_sweep.report.numbers import MISSING, percent, quantity, significant

Breakdown = Mapping[str, Any]
# Less skew than this is the resolution of the clocks, not a rank that came late.
_SKEW_WORTH_SAYING_MS = 0.01


def profile_view(breakdown: Breakdown | None) -> dict[str, Any] | None:
    """Return phases, the cycle, kernel classes and caveats of one variant's profile; None without a profile.

    Collectives cost the minimum over ranks; the rest of a rank's time in them is waiting, shown as skew.
    """
    if not breakdown:
        return None
    ranks = list(breakdown.get("ranks") or [])
    steps = breakdown.get("steps") or []
    cycle = breakdown.get("cycle") or {}
    return {
        "ranks": _ranks(ranks, breakdown.get("world_size")),
        "unit": "operators" if breakdown.get("source") == "cpu" else "kernels",
        "caveats": _caveats(breakdown, ranks),
        "phases": [_phase(step) for step in steps],
        "classes": [row for step in steps for row in _classes(step)],
        "cycle": _cycle(cycle) if len(cycle.get("phases") or []) > 1 else None,
        "unmatched": [
            {
                "name": plain(row.get("name")),
                "kind": plain(row.get("kind")),
                "share": percent(row.get("share")),
            }
            for row in breakdown.get("unmatched") or []
        ],
    }


def explanation_view(explanation: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return which phase and kernel class moved between two arms, or that the profiles do not explain it."""
    if not explanation:
        return None
    return {
        "sentence": plain(explanation.get("sentence")),
        "moved": [
            {
                "phase": plain(row.get("phase")),
                "class": plain(row.get("class")).replace("_", " "),
                "before": quantity(row.get("ms_before"), "ms"),
                "after": quantity(row.get("ms_after"), "ms"),
                "share": percent(row.get("share_of_change")),
            }
            for row in explanation.get("moved") or []
        ],
    }


def _ranks(ranks: list[Any], world: int | None) -> str:
    of = f" of {world}" if world and world != len(ranks) else ""
    return f"{'rank' if len(ranks) == 1 else 'ranks'} {', '.join(map(str, ranks))}{of}" if ranks else ""


def _caveats(breakdown: Breakdown, ranks: list[Any]) -> list[str]:
    notes = [plain(note) for note in breakdown.get("notes") or []]
    alone = len(ranks) == 1 and breakdown.get("world_size") != 1
    if alone and not any("told apart" in note for note in notes):
        notes.insert(0, "one rank only: the cost of a collective and waiting for it cannot be told apart")
    return [note[:1].upper() + note[1:].rstrip(".") + "." for note in notes]


def _phase(step: Mapping[str, Any]) -> dict[str, str]:
    reduce = step.get("allreduce") or {}
    has = bool(reduce.get("count_per_step"))
    return {
        "kind": _kind(step),
        "count": plain(step.get("count")),
        "time": quantity(step.get("ms_per_step"), "ms"),
        "busy": quantity(step.get("busy_ms"), "ms"),
        "gaps": percent(step.get("gap_share")),
        "kernels": _number(step.get("kernels_per_step")),
        "path": plain(reduce.get("path")) if has else "none",
        "collectives": _number(reduce.get("count_per_step")) if has else "",
        "median": quantity(reduce.get("us_median"), "µs") if has else "",
        "collective_time": quantity(reduce.get("ms_per_step"), "ms") if has else "",
        "share": percent(reduce.get("share")) if has else "",
        "skew": _skew(reduce) if has else "",
    }


def _kind(step: Mapping[str, Any]) -> str:
    size = f" bs={step['batch_size']}" if step.get("batch_size") is not None else ""
    return f"{step.get('kind')}{size}"


def _skew(reduce: Mapping[str, Any]) -> str:
    skew = reduce.get("skew_ms")
    if skew is None:
        return MISSING
    late = reduce.get("late_rank")
    blame = f", rank {late} late" if late is not None and skew >= _SKEW_WORTH_SAYING_MS else ""
    return f"{quantity(skew, 'ms')}{blame}"


def _number(value: float | None) -> str:
    """Return a mean count: whole ones are exact and shown so."""
    return str(int(value)) if value is not None and value == int(value) else significant(value)


def _classes(step: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return kernel classes of a phase, the largest first."""
    rows = sorted(
        (step.get("classes") or {}).items(), key=lambda item: (-(item[1].get("ms_per_step") or 0), item[0])
    )
    return [
        {
            "kind": _kind(step),
            "class": str(name).replace("_", " "),
            "time": quantity(row.get("ms_per_step"), "ms"),
            "share": percent(row.get("share")),
            "kernels": _number(row.get("kernels_per_step")),
        }
        for name, row in rows
    ]


def _cycle(cycle: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "period": quantity(cycle.get("period_ms"), "ms"),
        "busy": quantity(cycle.get("busy_ms"), "ms"),
        "phases": [
            {
                "kind": str(phase.get("kind")),
                "per_cycle": _number(phase.get("per_cycle")),
                "time": quantity(phase.get("ms"), "ms"),
                "busy": quantity(phase.get("busy_ms"), "ms"),
                "share": percent(phase.get("share")),
                "collectives": _number(phase.get("allreduces")),
                "collective_time": quantity(phase.get("allreduce_ms"), "ms"),
            }
            for phase in cycle["phases"]
        ],
    }
