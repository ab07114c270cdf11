"""Shows what was known before any launch: what the environment gate found, and which variants it rules out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sglang_sweep.report.facts import plain
from sglang_sweep.report.sections import Sections

View = dict[str, Any]


def gate_view(findings: Sequence[Mapping[str, Any]] | None) -> View | None:
    """Return what the gate found: what failed or could not be decided, the worst first, and what passed."""
    if not findings:
        return None
    rank = {"fail": 0, "warn": 1, "unknown": 2, "info": 3}
    rows: list[View] = [
        {
            key: plain(f.get(key))
            for key in ("severity", "id", "title", "scope", "found", "why", "remedy", "source")
        }
        | {"passed": f.get("passed") is True}
        | ({"severity": "unknown"} if f.get("passed") is None else {})
        for f in findings
    ]
    rows.sort(key=lambda row: rank.get(row["severity"], len(rank)))
    return {
        "open": [row for row in rows if not row["passed"]],
        "passed": [row for row in rows if row["passed"]],
    }


def predicted(sections: Sections) -> list[View]:
    """Return what was expected before any launch: as given, or what the gate says against a variant."""
    if sections.predictions is not None:
        return [_prediction(row) for row in sections.predictions]
    return [
        _prediction(
            f | {"variant": str(f["scope"]).partition(":")[2], "why": f"{f.get('found')}: {f.get('why')}"}
        )
        for f in map(dict, sections.gate or [])
        if f.get("passed") is False
        and f.get("severity") == "fail"
        and str(f.get("scope")).startswith("variant:")
    ]


def _prediction(row: Mapping[str, Any]) -> View:
    """`row` is a prediction of `evidence.limits` with its `variant`, or has the same keys."""
    return {
        "variant": row.get("variant"),
        "verdict": row.get("verdict") or "DEAD_END",
        "cause": row.get("cause"),
        "why": plain(row.get("why")),
        "source": plain(row.get("source")),
        "known": "seen" if row.get("seen") else "read",
        "remedy": plain(row["remedy"]) if row.get("remedy") else "",
        "reopens_when": plain(row["reopens_when"]) if row.get("reopens_when") else "",
    }
