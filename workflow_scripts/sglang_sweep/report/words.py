"""Says what each verdict is called, in which order it is read and what it means for one variant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sglang_sweep.report.numbers import (
    change_interval,
    count,
    percent,
    quantity,
    signed_percent,
    significant,
    threshold,
)
from sglang_sweep.statistics.metrics import METRICS
from sglang_sweep.verdict.decision import VERDICTS

Variant = Mapping[str, Any]

ORDER = tuple(map(str, VERDICTS))
BELIEVED = frozenset(str(verdict) for verdict, about in VERDICTS.items() if about.believed)
PHRASES = {str(verdict): (about.one, about.many) for verdict, about in VERDICTS.items()}
GLYPHS = {str(verdict): about.glyph for verdict, about in VERDICTS.items()}


def unit_of(metric: str) -> str:
    """Return the unit of a metric of `launch.json`; one that the statistics do not know has none."""
    return METRICS[metric].unit if metric in METRICS else ""


def label_of(metric: str) -> str:
    """Return a metric's name in words: `p99_ttft_ms` is `p99 TTFT`."""
    words = metric.removesuffix("_ms").split("_")
    return " ".join(word.upper() if word in {"ttft", "tpot", "itl", "e2e"} else word for word in words)


def is_noise_arm(variant: Variant) -> bool:
    """Tell whether this is A', the baseline launched a second time in each block."""
    return str(variant["name"]).endswith("-prime")


def is_control(variant: Variant) -> bool:
    """Tell whether the accept length was forced: the arm prices speculation and is no way to serve."""
    return variant.get("speculation") == "simulated"


def reading_order(variants: list[Variant]) -> list[Variant]:
    """Return variants by verdict, the larger gain first, A' after the last measured arm of its verdict."""
    return sorted(
        variants,
        key=lambda v: (
            ORDER.index(v["verdict"]) if v["verdict"] in ORDER else len(ORDER),
            is_noise_arm(v),
            -(v.get("ratio") or 0.0),
            v["name"],
        ),
    )


def primary_of(verdicts: Mapping[str, Any] | None) -> tuple[str | None, str | None]:
    """Return workload and metric that verdicts rest on; None for what the design does not name."""
    primary = ((verdicts or {}).get("design") or {}).get("primary") or {}
    return primary.get("workload"), primary.get("metric")


def primary_metric(variant: Variant) -> Mapping[str, Any] | None:
    """Return the row of `metrics` that the verdict rests on, if it was measured."""
    return next((row for row in variant.get("metrics") or [] if row.get("primary")), None)


def meaning(variant: Variant, smallest_effect: float | None = None) -> str:
    """Return one sentence on what a verdict means for this variant, in words an engineer can act on."""
    verdict = variant["verdict"]
    gain = None if variant.get("ratio") is None else variant["ratio"] - 1
    if verdict in ("WIN", "LOSS"):
        return _measured(variant, gain, elsewhere_words(variant, smallest_effect))
    if verdict == "NO_DIFFERENCE":
        within = f" within ±{threshold(smallest_effect)}" if smallest_effect else ""
        if is_noise_arm(variant):
            return f"The baseline again, shown equal to itself{within}."
        elsewhere = elsewhere_words(variant, smallest_effect)
        if elsewhere:
            return f"Shown equal to the baseline{within} on {_primary_workload(variant)}, but {elsewhere}."
        return f"Shown equal to the baseline{within}; not worth more GPU time."
    if verdict == "INCONCLUSIVE":
        return _inconclusive(variant, gain, elsewhere_words(variant, smallest_effect))
    if verdict == "DEAD_END":
        cause = str(variant.get("cause") or "unknown").replace("_", " ")
        if variant.get("outcome") != "failed":
            return f"Expected not to run on this host and stack, and not tried: {cause}."
        return f"Cannot run on this host and stack: {cause}."
    if verdict == "NO_OP":
        idle = [f["feature"] for f in features(variant) if f.get("state") == "not_engaged"]
        named = f" ({', '.join(idle)} not engaged)" if idle else ""
        return f"Ran, but the change was never active{named}; its speed says nothing about the idea."
    if verdict == "CONFOUNDED":
        moved = [str(c["setting"]) for c in undeclared(variant)]
        also = f": {', '.join(moved)} differs too" if len(moved) == 1 else f": {', '.join(moved)} differ too"
        return f"Not believed{also if moved else ''}; pin or declare it, then measure again."
    if verdict == "WRONG_OUTPUT":
        reason = str((variant.get("correctness") or {}).get("reason") or "answers differ from the baseline's")
        return f"{reason[:1].upper()}{reason[1:].rstrip('.')}; its speed does not count."
    if verdict == "UNSTABLE":
        reasons = "; ".join(str(reason) for reason in variant.get("reasons") or [])
        seen = f" ({signed_percent(gain)} where it ran)" if gain is not None else ""
        return f"{reasons[:1].upper()}{reasons[1:]}{seen}."
    if verdict == "OUTRUN":
        return "Left behind in the race; nothing is claimed about it."
    if verdict == "STALE":
        return "Its baseline is not contemporary; measure again beside a fresh one."
    if verdict == "PLANNED":
        return "Not measured yet."
    return f"A verdict this report does not know: {verdict}."


def elsewhere_words(variant: Variant, smallest_effect: float | None) -> str:
    """Return what other objectives do that the verdict does not say; else nothing.

    Of each workload what is worst, a loss that is shown before one that is not excluded; gains beside a verdict that
    is no WIN. These intervals are not corrected for the number of objectives.
    """
    verdict, primary = variant["verdict"], primary_metric(variant) or {}
    if verdict not in BELIEVED or is_noise_arm(variant):
        return ""
    kinds = {
        "WIN": ("worse", "not_excluded", "not_measured"),
        "NO_DIFFERENCE": ("worse", "better", "not_excluded", "not_measured"),
        "LOSS": ("better",),
    }.get(verdict, ("worse", "better"))
    found = []
    rows = sorted(
        (row for row in variant.get("elsewhere") or [] if row["kind"] in kinds),
        key=lambda row: (kinds.index(row["kind"]), row["metric"] != primary.get("metric")),
    )
    for workload in dict.fromkeys(row["workload"] for row in rows):
        mine = [row for row in rows if row["workload"] == workload]
        first = mine[0]
        also = sum(row["kind"] == first["kind"] for row in mine) - 1
        where = (
            f"{_objective(first, primary)}{f' and {also} more' if also and first['kind'] == 'worse' else ''}"
        )
        if first["kind"] in ("worse", "better"):
            found.append(f"{signed_percent(first['ratio'] - 1)} {change_interval(first['ci95'])}{where}")
        elif first["kind"] == "not_excluded":
            low = min(row["ci95"][0] for row in mine if row["metric"] == first["metric"])
            found.append(f"up to {signed_percent(low - 1)}{where} is not excluded")
        else:
            found.append(f"too little is measured{where}")
    return ", ".join(found)


def _objective(row: Mapping[str, Any], primary: Mapping[str, Any]) -> str:
    same_metric = row["metric"] == primary.get("metric")
    same_workload = row["workload"] == primary.get("workload")
    metric = "" if same_metric else f" in {label_of(row['metric'])}"
    return f"{metric}{'' if same_workload else ' on ' + str(row['workload'])}"


def _primary_workload(variant: Variant) -> str:
    return str((primary_metric(variant) or {}).get("workload"))


def features(variant: Variant) -> list[Mapping[str, Any]]:
    """Return the features whose state shows whether the change was active."""
    return list((variant.get("engagement") or {}).get("features") or [])


def undeclared(variant: Variant) -> list[Mapping[str, Any]]:
    """Return the confounds that can move performance and that the change does not imply."""
    confounds = variant.get("confounds") or []
    return [c for c in confounds if c.get("moves_performance") and not c.get("declared")]


def cheapest_end(ci95: Any) -> float | None:
    """Return the end of an interval of ratios that lies nearer to one: what is certain at 95 %."""
    if not ci95 or any(end is None for end in ci95):
        return None
    low, high = sorted(ci95)
    return float(low if low > 1 else high)


def _measured(variant: Variant, gain: float | None, elsewhere: str) -> str:
    better = "Better" if variant["verdict"] == "WIN" else "Worse"
    sure = cheapest_end(variant.get("ci95"))
    least = "" if sure is None else f", at least {percent(abs(sure - 1))} at 95 % confidence"
    row = primary_metric(variant)
    values = ""
    if row and row.get("baseline_mean") is not None and row.get("variant_mean") is not None:
        unit = row.get("unit") or unit_of(row["metric"])
        before, after = significant(row["baseline_mean"]), quantity(row["variant_mean"], unit)
        values = f" ({label_of(row['metric'])} {before} → {after})"
    control = "; a control, its accept length is simulated" if is_control(variant) else ""
    reasons = "; ".join(str(reason) for reason in variant.get("reasons") or [])
    control += f"; {reasons}" if reasons else ""
    but = f"; on {_primary_workload(variant)}, but {elsewhere}" if elsewhere else ""
    return f"{better} by {percent(None if gain is None else abs(gain))}{least}{values}{control}{but}."


def _inconclusive(variant: Variant, gain: float | None, elsewhere: str) -> str:
    more = variant.get("more_blocks")
    fresh = variant.get("fresh_blocks")
    settle = f"; about {count(more, 'more block')} would settle it" if more else ""
    if fresh:
        settle = f"; a new campaign of about {count(fresh, 'block')} would settle it (these were tested once)"
    seen = f" ({signed_percent(gain)} so far)" if gain is not None else ""
    reasons = "; ".join(str(reason) for reason in variant.get("reasons") or [])
    why = reasons[:1].upper() + reasons[1:] if reasons else "Neither a difference nor equality is shown yet"
    also = f"; {elsewhere}" if elsewhere else ""
    return f"{why}{seen}{settle}{also}."
