"""Writes the paragraph a report opens with: what is fastest here, what was not, what cannot run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from sglang_sweep.report.numbers import change_interval, count, quantity, signed_percent, significant
from sglang_sweep.report.words import (
    ORDER,
    PHRASES,
    Variant,
    elsewhere_words,
    is_control,
    is_noise_arm,
    label_of,
    primary_metric,
    reading_order,
    unit_of,
)


def answer(verdicts: Mapping[str, Any]) -> tuple[str, str]:
    """Return the campaign's answer in plain text: the sentence that matters, then what became of the rest.

    A void session answers nothing, and says so first: the numbers below it are shown, not believed. A control
    whose accept length is simulated is never the answer, however fast: nobody can serve that way.
    """
    arms = [v for v in verdicts["variants"] if not is_noise_arm(v)]
    controls = [v for v in arms if is_control(v) and v.get("ratio") is not None]
    variants = [v for v in arms if v not in controls]
    session = verdicts.get("session") or {}
    void = bool(session.get("void"))
    smallest = (verdicts.get("design") or {}).get("smallest_effect")
    rest = [_tally(variants, smallest, without_first_win=not void), _controls(controls)]
    return _void(session) if void else _fastest(variants, smallest), " ".join(filter(None, rest))


def fastest(verdicts: Mapping[str, Any]) -> Variant | None:
    """Return the win with the largest ratio, or None where nothing won or the session is void."""
    if (verdicts.get("session") or {}).get("void"):
        return None
    wins = [v for v in verdicts["variants"] if v["verdict"] == "WIN" and not is_control(v)]
    return reading_order(wins)[0] if wins else None


def _controls(controls: list[Variant]) -> str:
    changes = ", ".join(f"{v['name']} {signed_percent(v['ratio'] - 1)}" for v in reading_order(controls))
    return f"Controls with a simulated accept length, which price speculation: {changes}." if changes else ""


def _void(session: Mapping[str, Any]) -> str:
    reasons = "; ".join(str(reason).rstrip(".") for reason in session.get("reasons") or [])
    return (
        f"Void session: {reasons or 'the two baseline arms disagree'}. No verdict on speed is drawn from it."
    )


def _fastest(variants: list[Variant], smallest_effect: float | None) -> str:
    wins = [v for v in reading_order(variants) if v["verdict"] == "WIN" and v.get("ratio")]
    if wins:
        best = wins[0]
        gain = f"{signed_percent(best['ratio'] - 1)} {change_interval(best.get('ci95'))}"
        return f"Fastest: {best['name']}, {gain}{_values(best)}{_but(best, smallest_effect)}."
    measured = any(v.get("ratio") is not None for v in variants)
    if measured:
        return "No variant is shown to be faster than the baseline."
    if all(v["verdict"] == "PLANNED" for v in variants):
        return "Nothing is measured yet."
    return "No variant could be measured against the baseline."


def _values(variant: Variant) -> str:
    row = primary_metric(variant)
    if not row or row.get("baseline_mean") is None or row.get("variant_mean") is None:
        return ""
    unit = row.get("unit") or unit_of(row["metric"])
    before, after = significant(row["baseline_mean"]), quantity(row["variant_mean"], unit)
    return f" ({label_of(row['metric'])} {before} → {after}, {count(variant.get('blocks') or 0, 'block')})"


def _tally(variants: list[Variant], smallest_effect: float | None, *, without_first_win: bool) -> str:
    totals = Counter(v["verdict"] for v in variants)
    if without_first_win and totals["WIN"]:
        totals["WIN"] -= 1
    parts = []
    for verdict in ORDER:
        number = totals[verdict]
        if number:
            one, many = PHRASES[verdict]
            other = "more " if verdict == "WIN" and without_first_win else ""
            skip = 1 if verdict == "WIN" and without_first_win else 0
            names = [v for v in reading_order(variants) if v["verdict"] == verdict][skip:]
            parts.append(f"{number} {other}{one if number == 1 else many}{_named(names, smallest_effect)}")
    return f"{'; '.join(parts)}." if parts else ""


def _named(variants: list[Variant], smallest_effect: float | None) -> str:
    """Name up to three in place, losses with their size, and what another workload says against the verdict."""
    if len(variants) > 3:
        return ""
    names = [
        f"{v['name']} {signed_percent(v['ratio'] - 1)}"
        if v["verdict"] in ("WIN", "LOSS") and v.get("ratio") is not None
        else f"{v['name']}: {v['reasons'][0]}"
        if v["verdict"] == "UNSTABLE" and v.get("reasons")
        else str(v["name"])
        for v in variants
    ]
    against = [_but(v, smallest_effect) for v in variants]
    listed = (f"{name}{but}" for name, but in zip(names, against, strict=True))
    return f" ({('; ' if any(against) else ', ').join(listed)})"


def _but(variant: Variant, smallest_effect: float | None) -> str:
    elsewhere = elsewhere_words(variant, smallest_effect)
    return f", but {elsewhere}" if elsewhere else ""
