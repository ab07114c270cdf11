"""Shows two stacks finding by finding (`host.stack_comparison`), and what a new one reopens (`host.reopening`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sglang_sweep.gate.stack_comparison import CAUTION
from sglang_sweep.report.facts import plain
from sglang_sweep.report.numbers import MISSING, ratio, ratio_interval

Record = Mapping[str, Any]


def comparison_view(record: Record | None) -> dict[str, Any] | None:
    """Return the rows of `{a, b, rows}`: two names and what `compare_stacks` returned; None without them."""
    if not record:
        return None
    return {
        "a": plain(record.get("a")),
        "b": plain(record.get("b")),
        "caution": CAUTION,
        "rows": [
            {
                "variant": plain(row.get("variant")),
                "status": plain(row.get("status")),
                "ratio": ratio(row.get("ratio")),
                "interval": ratio_interval(row.get("ci95")),
                "a": _side(row.get("a")),
                "b": _side(row.get("b")),
            }
            for row in record.get("rows") or []
        ],
    }


def reopened_view(rows: Sequence[Record] | None) -> list[dict[str, str]]:
    """Return dead ends that are worth another launch, and why."""
    return [
        {
            "variant": plain(row.get("variant")),
            "verdict": plain(row.get("verdict")),
            "why": plain(row.get("why")),
            "source": plain(row["source"]) if row.get("source") else "",
        }
        for row in rows or []
    ]


def _side(side: Record | None) -> str:
    if side is None:
        return MISSING
    cause = f" ({side['cause']})" if side.get("cause") else ""
    value = side.get("ratio_to_baseline")
    return f"{side.get('verdict')}{cause}" + (
        f", {ratio(value)} of its baseline" if value is not None else ""
    )
