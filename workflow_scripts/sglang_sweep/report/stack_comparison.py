"""Two stacks (or hosts) compared finding by finding, with the evidence of both."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from sglang_sweep.gate.reopening import DEAD
from sglang_sweep.report.escape import markdown

ALIVE = frozenset({"WIN", "LOSS", "NO_DIFFERENCE", "INCONCLUSIVE"})
CAUTION = (
    "The launches of two campaigns are not interleaved in blocks: a drift of the host between them is in these "
    "numbers. SGLang, torch, NCCL and FlashInfer move together with CUDA, so this compares stacks, not CUDA versions."
)


def compare_stacks(
    verdicts_a: Mapping[str, Any], verdicts_b: Mapping[str, Any], smallest_effect: float | None = None
) -> list[dict[str, Any]]:
    """One row for each variant of either verdicts.json, in the order of ``a``, then of ``b``.

    ``status``: unblocked, still dead, newly broken, faster, slower, same, undecided, untested (in one of them,
    or in a way that says nothing: confounded, stale, planned). ``ratio`` is b/a of the primary metric over
    launches, above 1 is better, with a 95 % Welch interval on the logs; ``faster`` and ``slower`` need an
    interval on one side of 1 and an effect of at least ``smallest_effect`` (default: the design's of ``b``),
    ``same`` an interval within it.
    """
    effect = smallest_effect
    if effect is None:
        effect = float(verdicts_b["design"].get("smallest_effect") or 0.02)
    a_rows, b_rows = (
        {row["name"]: row for row in verdicts["variants"]} for verdicts in (verdicts_a, verdicts_b)
    )
    same_metric = verdicts_a["design"]["primary"] == verdicts_b["design"]["primary"]
    latency = verdicts_b["design"]["primary"]["metric"].endswith("_ms")
    rows = []
    for name in dict.fromkeys([*a_rows, *b_rows]):
        a, b = a_rows.get(name), b_rows.get(name)
        ratio, interval = welch_ratio(_values(a), _values(b), latency) if same_metric else (None, None)
        rows.append(
            {
                "variant": name,
                "status": _status(a, b, ratio, interval, effect),
                "ratio": ratio,
                "ci95": interval,
                "a": _side(a),
                "b": _side(b),
            }
        )
    return rows


def welch_ratio(
    a: Sequence[float], b: Sequence[float], less_is_better: bool = False
) -> tuple[float | None, list[float] | None]:
    """Ratio of geometric means b/a, oriented so that above 1 is better, and its 95 % interval.

    Launches are independent, their logs about normal with unequal variances (Welch 1947). No interval with
    fewer than two launches on a side.
    """
    if not a or not b:
        return None, None
    logs_a, logs_b = ([math.log(value) for value in values] for values in (a, b))
    difference = sum(logs_b) / len(logs_b) - sum(logs_a) / len(logs_a)
    sign = -1.0 if less_is_better else 1.0
    if len(a) < 2 or len(b) < 2:
        return math.exp(sign * difference), None
    from scipy import stats  # here: reports without a comparison need not load it

    found = stats.ttest_ind(logs_b, logs_a, equal_var=False).confidence_interval(0.95)
    bounds = sorted(sign * float(bound) for bound in (found.low, found.high))
    if any(math.isnan(bound) for bound in bounds):  # no spread at all on either side
        bounds = [sign * difference] * 2
    return math.exp(sign * difference), [math.exp(bound) for bound in bounds]


def comparison_markdown(rows: Sequence[Mapping[str, Any]], name_a: str, name_b: str) -> str:
    """A heading's worth of Markdown: the caution, then one table row a variant."""
    before, after = markdown(name_a), markdown(name_b)
    lines = [
        f"{CAUTION}\n",
        f"| variant | {before} to {after} | ratio (95 %) | {before} | {after} |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        ratio = "" if row["ratio"] is None else f"{row['ratio']:.3f}"
        if row["ci95"]:
            ratio += f" ({row['ci95'][0]:.3f} to {row['ci95'][1]:.3f})"
        cells = [row["variant"], row["status"], ratio, _told(row["a"]), _told(row["b"])]
        lines.append("| " + " | ".join(str(markdown(cell)) for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def _status(
    a: Mapping[str, Any] | None,
    b: Mapping[str, Any] | None,
    ratio: float | None,
    interval: Sequence[float] | None,
    effect: float,
) -> str:
    before, after = (row["verdict"] if row else None for row in (a, b))
    if before in DEAD and after in DEAD:
        return "still dead"
    if before in DEAD and after in ALIVE:
        return "unblocked"
    if before in ALIVE and after in DEAD:
        return "newly broken"
    if before not in ALIVE or after not in ALIVE:
        return "untested"
    if ratio is None or interval is None:
        return "undecided"
    low, high = interval
    if low > 1 and ratio >= 1 + effect:
        return "faster"
    if high < 1 and ratio <= 1 / (1 + effect):
        return "slower"
    return "same" if 1 / (1 + effect) <= low and high <= 1 + effect else "undecided"


def _values(row: Mapping[str, Any] | None) -> list[float]:
    """The primary metric of every launch that counts."""
    launches = row["launches"] if row else []
    return [x["value"] for x in launches if x["value"] and not x["removed"] and x["outcome"] == "completed"]


def _side(row: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """What one stack says about a variant, with its first line of evidence."""
    if row is None:
        return None
    evidence = row.get("evidence") or []
    return {
        "verdict": row["verdict"],
        "cause": row.get("cause"),
        "ratio_to_baseline": row.get("ratio"),
        "launches": len(_values(row)),
        "holds_for": row.get("holds_for"),
        "evidence": evidence[0] if evidence else None,
    }


def _told(side: Mapping[str, Any] | None) -> str:
    if side is None:
        return "not declared"
    text = str(side["verdict"])
    if side["cause"]:
        text += f" ({side['cause']})"
    elif side["ratio_to_baseline"] is not None:
        text += f", {side['ratio_to_baseline']:.3f} of its baseline, {side['launches']} launches"
    if side["evidence"]:
        where = side["evidence"].get("file")
        line = side["evidence"].get("line")
        text += f": {side['evidence']['text']}" + (f" [{where}{f':{line}' if line else ''}]" if where else "")
    return text
