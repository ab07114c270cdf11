"""What the collectives alone predict for a step, where they have a cliff, and what changed between two sizes."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sglang_sweep.costs.communication import Curve
from sglang_sweep.errors import UserError
from sglang_sweep.traces.cycle import decode_part

# a doubling of the message may double the time when bandwidth rules; more than this exponent is something else
_SUPERLINEAR = 1.15
# or a step: steeper by this much than both before and after; and always by this factor beyond the noise
_STEEPER, _BEYOND_NOISE = 0.35, 1.3


def allreduce_bytes(tokens: int, hidden_size: int, element_bytes: int = 2) -> int:
    """Message of one all-reduce: the hidden states of the tokens in flight (bf16: 2 bytes an element)."""
    return tokens * hidden_size * element_bytes


def cliffs(curve: Curve) -> list[dict[str, Any]]:
    """Where latency grows faster than the message alone explains: another algorithm, protocol or path begins.

    Per pair of neighbouring sizes, exponent = log(latency ratio) / log(size ratio): 0 when latency rules, 1 when
    bandwidth does. Above 1.15, or steeper by 0.35 than both neighbours and beyond the noise, is a cliff.
    """
    exponent = np.diff(np.log(curve.latency)) / np.diff(np.log(curve.sizes))
    found = []
    for number, value in enumerate(exponent):
        beyond = curve.low[number + 1] / curve.high[number] >= _BEYOND_NOISE
        # at the ends one cannot tell a step from the point where bandwidth begins to rule
        inner = 0 < number < len(exponent) - 1
        step = inner and value - max(exponent[number - 1], exponent[number + 1]) > _STEEPER
        if beyond and (value > _SUPERLINEAR or step):
            found.append(
                {
                    "setting": curve.setting,
                    "mode": curve.mode,
                    "from_bytes": int(curve.sizes[number]),
                    "to_bytes": int(curve.sizes[number + 1]),
                    "from_us": round(float(curve.latency[number]), 2),
                    "to_us": round(float(curve.latency[number + 1]), 2),
                    "ratio": round(float(curve.latency[number + 1] / curve.latency[number]), 2),
                    "exponent": round(float(value), 2),
                }
            )
    return found


def compare(
    curve: Curve,
    breakdown: dict[str, Any],
    bytes_by_kind: dict[str, int],
    tpot_ms: float | None = None,
    accept_length: float = 1.0,
) -> list[dict[str, Any]]:
    """Predicted beside profiled communication, per kind of step, and the share of TPOT.

    ``bytes_by_kind``: message size per kind of step (``allreduce_bytes``). A cycle of ``accept_length`` tokens
    takes ``tpot_ms * accept_length``. ``unexplained_ms`` is what the profile shows beyond the prediction.
    """
    rows = []
    for step in breakdown["steps"]:
        reduces, size = step["allreduce"], bytes_by_kind.get(step["kind"])
        if not reduces["count_per_step"] or size is None:
            continue
        alone = curve.at(size)
        predicted = reduces["count_per_step"] * alone / 1e3
        rows.append(
            {
                "kind": step["kind"],
                "batch_size": step["batch_size"],
                "count": reduces["count_per_step"],
                "bytes": size,
                "us_alone": round(alone, 3),
                "us_profiled": reduces["us_median"],
                "predicted_ms": round(predicted, 4),
                "profiled_ms": reduces["ms_per_step"],
                "unexplained_ms": round(reduces["ms_per_step"] - predicted, 4),
                "skew_ms": reduces["skew_ms"],
                "share_of_tpot": (
                    round(reduces["ms_per_step"] / (tpot_ms * accept_length), 4) if tpot_ms else None
                ),
            }
        )
    return rows


def growth(
    curves: Sequence[Curve], setting: str, small: tuple[int, float], large: tuple[int, float]
) -> dict[str, Any]:
    """What changed between two message sizes: ``small`` and ``large`` are (bytes, observed us per all-reduce).

    Answers the founding question (at most 92 us per all-reduce in decode, 246 us in verify): is it the size, the
    graph that verify does not run in, or neither, so that the collective is not at fault?
    """
    own = {curve.mode: curve for curve in curves if curve.setting == setting}
    if not own:
        raise UserError(f"no measurement of setting {setting!r}", key="communication")
    inside = own.get("graph", own.get("eager"))
    assert inside is not None
    observed = large[1] / small[1]
    before = inside.at(small[0])
    candidates = {"message size": inside.at(large[0]) / before}
    if "graph" in own and "eager" in own:
        candidates["large one outside a CUDA graph"] = own["eager"].at(large[0]) / before
    fit = {name: abs(math.log(ratio / observed)) for name, ratio in candidates.items()}
    best = min(fit, key=lambda name: fit[name])
    explained = fit[best] < math.log(1.3)
    return {
        "observed_ratio": round(observed, 3),
        "alone_ratio": {name: round(ratio, 3) for name, ratio in candidates.items()},
        "explained_by": best if explained else None,
        "absolute": {
            "small_us_alone": round(before, 2),
            "large_us_alone": round(inside.at(large[0]), 2),
        },
        "sentence": (
            f"the growth of {observed:.1f} x agrees with {best} ({candidates[best]:.1f} x alone)"
            if explained
            else f"the collectives alone grow {candidates['message size']:.1f} x where {observed:.1f} x was observed: "
            "look for waiting (skew between ranks), another path in the server, or work that is no all-reduce"
        ),
    }


def report(
    curves: Sequence[Curve],
    profiles: Mapping[str, Mapping[str, Any]],
    hidden_size: int,
    *,
    setting: str = "default",
    num_draft_tokens: int = 1,
    tpot_ms: Mapping[str, float] | None = None,
    accept_length: Mapping[str, float] | None = None,
) -> dict[str, Any]:
    """What the report shows: ``rows`` (``compare`` with a ``variant``), all ``cliffs``, and ``growth`` or None.

    ``profiles``: variant name to breakdown (or to a profile.json's, by stage). ``tpot_ms`` and ``accept_length`` by
    variant. ``growth`` compares the decode of one variant with the verify of another, if both were profiled; it
    needs two message sizes.
    """
    own = {curve.mode: curve for curve in curves if curve.setting == setting}
    if not own:
        raise UserError(f"no measurement of setting {setting!r}", key="communication")
    curve = own.get("graph", own.get("eager"))
    assert curve is not None
    rows = []
    for variant, profile in profiles.items():
        breakdown = decode_part(profile)
        sizes = step_bytes(breakdown, hidden_size, num_draft_tokens)
        tpot = (tpot_ms or {}).get(variant)
        for row in compare(curve, breakdown, sizes, tpot, (accept_length or {}).get(variant, 1.0)):
            rows.append({"variant": variant, **row})
    small = next((row for row in rows if row["kind"] == "DECODE"), None)
    large = next((row for row in rows if row["kind"] == "TARGET_VERIFY"), None)
    grown = None
    if small and large and large["bytes"] > small["bytes"]:
        observed = (small["us_profiled"], large["us_profiled"])
        grown = growth(curves, setting, (small["bytes"], observed[0]), (large["bytes"], observed[1]))
    return {"rows": rows, "cliffs": [cliff for each in curves for cliff in cliffs(each)], "growth": grown}


def step_bytes(breakdown: Mapping[str, Any], hidden_size: int, num_draft_tokens: int = 1) -> dict[str, int]:
    """Message size of an all-reduce per kind of step: as recorded, else from the tokens in flight.

    A decode carries one token a request, a verify ``num_draft_tokens``; of several batch sizes the largest counts.
    """
    sizes: dict[str, int] = {}
    for step in breakdown["steps"]:
        recorded = step["allreduce"]["message_bytes"]
        batch = step["batch_size"] or 1
        if recorded:
            size = int(max(recorded, key=lambda text: recorded[text]))
        elif step["tokens"]:
            size = allreduce_bytes(step["tokens"]["max"], hidden_size)
        elif step["kind"] in ("DECODE", "TARGET_VERIFY"):
            tokens = batch * (num_draft_tokens if step["kind"] == "TARGET_VERIFY" else 1)
            size = allreduce_bytes(tokens, hidden_size)
        else:
            continue  # a draft's width is the draft model's own
        sizes[step["kind"]] = max(size, sizes.get(step["kind"], 0))
    return sizes
