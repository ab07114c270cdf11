"""Shows when speculation pays, from the economics that `traces.speculation.economics` computes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sglang_sweep.report.facts import plain
from sglang_sweep.report.numbers import MISSING, quantity, ratio, significant

_TERMS = (
    ("T_decode, wall time of a token without speculation, first tokens included", "t_decode_ms"),
    ("T_verify", "t_verify_ms"),
    ("T_draft, one draft step", "t_draft_ms"),
    ("all draft steps of a cycle", "draft_total_ms"),
    ("overhead, the rest of the cycle", "overhead_ms"),
    ("cycle at accept length {at_accept_length}", "cycle_ms"),
)


def speculation_view(economics: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the sentence, break-even and ceiling, terms, points and levers; None without economics."""
    if not economics:
        return None
    terms = {**(economics.get("terms") or {}), "t_decode_ms": economics.get("t_decode_ms")}
    return {
        "sentence": economics.get("sentence") or "",
        "facts": [
            ("break-even accept length", _break_even(economics.get("break_even") or {})),
            ("ceiling", _ceiling(economics.get("ceiling") or {})),
            ("draft steps", plain(economics.get("n_steps"))),
            ("concurrency", plain(economics.get("concurrency"))),
            *(
                (
                    label.format(at_accept_length=significant(terms.get("at_accept_length"))),
                    quantity(terms[key], "ms"),
                )
                for label, key in _TERMS
                if terms.get(key) is not None
            ),
            *([("term to attack", plain(economics["attack"]))] if economics.get("attack") else []),
        ],
        "points": [
            {
                "name": plain(point.get("name")),
                "accept": significant(point.get("accept_length")),
                "simulated": "simulated" if point.get("simulated") else "measured draft",
                "throughput": quantity(point.get("throughput"), "tok/s"),
                "cycle": quantity(point.get("cycle_ms"), "ms"),
                "speedup": ratio(point.get("speedup")),
            }
            for point in economics.get("points") or []
        ],
        "levers": [
            {
                "term": plain(lever.get("term")),
                "now": _lever(lever, "now"),
                "ideal": _lever(lever, "ideal"),
                "speedup": ratio(lever.get("speedup")),
            }
            for lever in economics.get("levers") or []
        ],
        "notes": [plain(note) for note in economics.get("notes") or []],
        "figure": economics.get("figure"),
    }


def _break_even(even: Mapping[str, Any]) -> str:
    if even.get("accept_length") is None:
        return "none: the cycle costs more than its tokens are worth"
    ends = even.get("ci95")
    interval = f" [{significant(ends[0])}, {significant(ends[1])}]" if ends else ""
    return f"{significant(even['accept_length'])}{interval}" + (
        "" if even.get("reachable", True) else ", beyond full acceptance"
    )


def _ceiling(ceiling: Mapping[str, Any]) -> str:
    if ceiling.get("speedup") is None:
        return MISSING
    rate = quantity(ceiling.get("throughput"), "tok/s")
    return (
        f"ratio {ratio(ceiling['speedup'])} ({rate}) at accept length {plain(ceiling.get('accept_length'))}"
    )


def _lever(lever: Mapping[str, Any], key: str) -> str:
    unit = "tokens" if lever.get("term") == "acceptance" else "ms"
    return quantity(lever.get(key), unit)
