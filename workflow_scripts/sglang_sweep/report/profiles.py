"""Shows where a step's time goes, from the breakdown that `analyze-trace --json` writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sglang_sweep.report.facts import facts, plain
from sglang_sweep.report.numbers import MISSING, percent, quantity, significant


def profile_view(profile: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return phases, kernel classes and caveats of one variant's profile; None without a profile.

    Collectives cost the minimum over ranks; the rest of a rank's time in them is waiting, shown as skew.
    """
    if not profile:
        return None
    ranks = profile.get("ranks")
    number = len(ranks) if isinstance(ranks, list) else ranks
    caveats = [plain(item) for item in profile.get("warnings") or profile.get("notes") or []]
    if number == 1:
        caveats.insert(
            0, "One rank's trace only: the cost of a collective and waiting for it cannot be told apart."
        )
    return {
        "ranks": number,
        "caveats": caveats,
        "phases": [_phase(step) for step in profile.get("steps") or []],
        "classes": [row for step in profile.get("steps") or [] for row in _classes(step)],
        "cycle": facts(profile.get("cycle") or {}),
    }


def _phase(step: Mapping[str, Any]) -> dict[str, str]:
    reduce = step.get("allreduce") or {}
    skew = reduce.get("skew_ms")
    return {
        "kind": str(step.get("kind")),
        "count": plain(step.get("count")),
        "time": quantity(step.get("ms_per_step"), "ms"),
        "kernels": significant(step.get("kernels_per_step")),
        "gaps": percent(step.get("gap_share")),
        "path": plain(reduce.get("path")),
        "collectives": significant(reduce.get("count_per_step")),
        "median": quantity(reduce.get("us_median"), "µs"),
        "collective_time": quantity(reduce.get("ms_per_step"), "ms"),
        "share": percent(reduce.get("share")),
        "skew": quantity(skew, "ms") if not isinstance(skew, Mapping) else plain(skew),
    }


def _classes(step: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return kernel classes of a phase, the largest first."""
    classes = step.get("classes") or {}
    rows = []
    for name, value in classes.items():
        time = value.get("ms_per_step") if isinstance(value, Mapping) else value
        share = value.get("share") if isinstance(value, Mapping) else None
        if share is None and time is not None and step.get("ms_per_step"):
            share = time / step["ms_per_step"]
        rows.append(
            (
                time or 0.0,
                {
                    "kind": str(step.get("kind")),
                    "class": str(name).replace("_", " "),
                    "time": quantity(time, "ms") if time is not None else MISSING,
                    "share": percent(share),
                },
            )
        )
    return [row for _, row in sorted(rows, key=lambda pair: -pair[0])]
