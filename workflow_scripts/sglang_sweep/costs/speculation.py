"""When speculation pays: break-even accept length, ceiling, and which term of the cycle to attack.

    speedup = accept_length x T_decode / (T_verify + n_steps x T_draft + overhead)

T_decode is what one token takes without speculation, the denominator what one cycle takes. Both come from tokens
and wall time alone: under a simulated accept length the client cannot time single tokens (a mean TPOT of
0.0006 ms was seen beside 365 tok/s), so no client latency ever enters.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import stats

from sglang_sweep.errors import UserError
from sglang_sweep.traces.cycle import decode_part

# a client's TPOT further than this from what the tokens took is called out (it is unused either way)
_TPOT_TOLERANCE = 0.5


def throughput_of(point: dict[str, Any]) -> float:
    """Output tokens per second: tokens over wall time where both are given, else ``throughput``."""
    if point.get("total_output_tokens") and point.get("duration_s"):
        return float(point["total_output_tokens"]) / float(point["duration_s"])
    if not point.get("throughput"):
        raise UserError(
            "a launch without tokens and duration has no place in the economics",
            key=str(point.get("name", "?")),
            remedy="give throughput, or total_output_tokens and duration_s",
        )
    return float(point["throughput"])


def economics(
    baseline: dict[str, Any],
    points: Sequence[dict[str, Any]],
    n_steps: int,
    profiles: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """The economics of one draft length at one concurrency, as JSON-able data.

    ``baseline`` and each point: ``throughput`` in tok/s (or ``total_output_tokens`` and ``duration_s``),
    ``concurrency`` (default 1), optionally ``blocks`` (a list of such dicts, one per block, in the same order for
    all). A point also has ``accept_length`` (as observed, bonus token included), ``simulated`` and ``name``.
    ``profiles``: breakdowns as ``breakdown.analyze`` returns them, ``{"variant": ..., "baseline": ...}``.

    Raises UserError when there is nothing to compute from or the concurrencies differ.
    """
    notes: list[str] = []
    concurrency = int(baseline.get("concurrency", 1))
    usable = [_checked(point, concurrency, notes) for point in points]
    if not usable:
        raise UserError(
            "no launch with speculation completed",
            key="speculation",
            remedy="measure at least one, for example with SGLANG_SIMULATE_ACC_LEN=3",
        )
    t_decode = 1e3 * concurrency / throughput_of(baseline)
    model = _cycle_model([(p["accept_length"], p["cycle_ms"]) for p in usable], notes)
    fixed, per_token = model["fixed_ms"], model["per_token_ms"]
    for point in usable:
        point["speedup"] = round(point["accept_length"] * t_decode / point["cycle_ms"], 4)
        point["break_even_if_constant"] = round(point["cycle_ms"] / t_decode, 4)
        point["cycle_ms"] = round(point["cycle_ms"], 4)
    full = n_steps + 1
    ceiling = full * t_decode / (fixed + per_token * full)
    even = _break_even(fixed, per_token, t_decode)
    terms = _terms(profiles, n_steps, fixed, per_token, usable, notes)
    measured = [point for point in usable if not point["simulated"]]
    here = measured[-1] if measured else None
    levers = _levers(here, terms, t_decode, full, ceiling)
    return {
        "concurrency": concurrency,
        "n_steps": n_steps,
        "baseline_throughput": round(throughput_of(baseline), 3),
        "t_decode_ms": round(t_decode, 4),
        "points": usable,
        "cycle": {
            key: round(value, 4) if isinstance(value, float) else value for key, value in model.items()
        },
        "break_even": {
            "accept_length": round(even, 4) if math.isfinite(even) else None,
            "ci95": _interval(baseline, points, concurrency, notes),
            "reachable": even <= full,
        },
        "ceiling": {
            "accept_length": full,
            "throughput": round(1e3 * concurrency * full / (fixed + per_token * full), 3),
            "speedup": round(ceiling, 4),
        },
        "measured": here,
        "terms": terms,
        "levers": levers,
        "attack": levers[0]["term"] if levers else None,
        "sentence": _sentence(even, full, ceiling, here, levers),
        "notes": notes,
    }


def _checked(point: dict[str, Any], concurrency: int, notes: list[str]) -> dict[str, Any]:
    name = str(point.get("name", "speculation"))
    own = int(point.get("concurrency", 1))
    if own != concurrency:
        raise UserError(
            f"measured at concurrency {own}, the baseline at {concurrency}",
            key=name,
            remedy="compare at one concurrency: the cost of a verify depends on the batch",
        )
    accept = point.get("accept_length")
    if not isinstance(accept, int | float) or not accept >= 1:
        raise UserError(
            f"accept length {accept!r}: it counts the bonus token and is at least 1",
            key=name,
            remedy="use avg_spec_accept_length of /server_info, or the client's accept_length",
        )
    rate = throughput_of(point)
    tpot = point.get("mean_tpot_ms")
    took = 1e3 * concurrency / rate
    if tpot is not None and abs(tpot - took) > _TPOT_TOLERANCE * took:
        notes.append(
            f"{name}: the client's mean TPOT of {tpot:g} ms contradicts {rate:.1f} tok/s ({took:.2f} ms a token); "
            "it is not used"
        )
    return {
        "name": name,
        "accept_length": float(accept),
        "simulated": bool(point.get("simulated", False)),
        "throughput": round(rate, 3),
        "cycle_ms": float(accept) * took,
    }


def _cycle_model(points: list[tuple[float, float]], notes: list[str]) -> dict[str, Any]:
    """Cycle time over accept length: constant, or (with two accept lengths or more) a line with slope >= 0."""
    accepts, cycles = (np.array(column) for column in zip(*points, strict=True))
    constant = {"model": "constant", "fixed_ms": float(cycles.mean()), "per_token_ms": 0.0}
    if len(set(accepts.tolist())) < 2:
        return constant
    per_token, fixed = (float(value) for value in np.polyfit(accepts, cycles, 1))
    if per_token < 0 or fixed <= 0:
        return constant
    if per_token * (accepts.max() - accepts.min()) > 0.1 * cycles.mean():
        notes.append(
            f"the cycle is not constant: {cycles[accepts.argmin()]:.2f} ms at accept length {accepts.min():g}, "
            f"{cycles[accepts.argmax()]:.2f} ms at {accepts.max():g}; what grows with accepted tokens is outside of "
            "verify and draft (prefill shared by fewer cycles, streaming, scheduling)"
        )
    return {"model": "fixed part + part per accepted token", "fixed_ms": fixed, "per_token_ms": per_token}


def _break_even(fixed: float, per_token: float, t_decode: float) -> float:
    """Accept length at which a cycle yields as many tokens as plain decoding would in its time; inf if none."""
    return fixed / (t_decode - per_token) if t_decode > per_token else math.inf


def _interval(
    baseline: dict[str, Any], points: Sequence[dict[str, Any]], concurrency: int, notes: list[str]
) -> list[float] | None:
    """A paired t interval on the log of the break-even of each block, as verdicts take ratios."""
    blocks = min([len(arm.get("blocks") or []) for arm in (baseline, *points)])
    if blocks < 2:
        notes.append("fewer than two blocks: no interval for the break-even")
        return None
    found = []
    for number in range(blocks):
        t_decode = 1e3 * concurrency / throughput_of(baseline["blocks"][number])
        pairs = []
        for point in points:
            block = point["blocks"][number]
            accept = float(block.get("accept_length", point["accept_length"]))
            pairs.append((accept, 1e3 * concurrency * accept / throughput_of(block)))
        model = _cycle_model(pairs, [])
        found.append(_break_even(model["fixed_ms"], model["per_token_ms"], t_decode))
    if not all(map(math.isfinite, found)):
        notes.append("in some blocks no accept length breaks even: the interval has no upper end")
        return None
    logs = np.log(found)
    half = stats.t.ppf(0.975, blocks - 1) * logs.std(ddof=1) / math.sqrt(blocks)
    return [round(float(np.exp(logs.mean() - half)), 4), round(float(np.exp(logs.mean() + half)), 4)]


def _terms(
    profiles: dict[str, Any] | None,
    n_steps: int,
    fixed: float,
    per_token: float,
    points: list[dict[str, Any]],
    notes: list[str],
) -> dict[str, Any] | None:
    """T_verify and T_draft from the variant's profile; overhead is the rest of the measured cycle."""
    variant = decode_part((profiles or {}).get("variant") or {})
    phases = {phase["kind"]: phase for phase in variant["cycle"].get("phases", [])}
    if "TARGET_VERIFY" not in phases:
        notes.append("no profile of a verify: T_verify and T_draft cannot be told apart (profile: true)")
        return None
    verify = phases["TARGET_VERIFY"]["busy_ms"]
    draft = sum(phase["busy_ms"] for kind, phase in phases.items() if kind in ("draft", "draft_extend"))
    accept = next((p["accept_length"] for p in reversed(points) if not p["simulated"]), 1.0)
    cycle = fixed + per_token * accept
    return {
        "t_verify_ms": round(verify, 4),
        "t_draft_ms": round(draft / max(n_steps, 1), 4),
        "draft_total_ms": round(draft, 4),
        "overhead_ms": round(max(cycle - verify - draft, 0.0), 4),
        "cycle_ms": round(cycle, 4),
        "at_accept_length": accept,
        # spans of a profiled server hold the profiler's own cost; the time kernels run does not
        "source": "GPU busy time per phase; overhead is the measured cycle less both",
    }


def _levers(
    here: dict[str, Any] | None, terms: dict[str, Any] | None, t_decode: float, full: int, ceiling: float
) -> list[dict[str, Any]]:
    """What the speedup would be with one term at its ideal and the others as they are, best first."""
    if here is None:
        return []
    accept, cycle = here["accept_length"], here["cycle_ms"]
    levers = [{"term": "acceptance", "now": accept, "ideal": full, "speedup": round(ceiling, 4)}]
    if terms is None:
        ideal = ("cycle", cycle, t_decode, accept)
        levers.append(
            {"term": ideal[0], "now": cycle, "ideal": round(t_decode, 4), "speedup": round(accept, 4)}
        )
    else:
        verify, draft, rest = terms["t_verify_ms"], terms["draft_total_ms"], terms["overhead_ms"]
        for term, now, ideal_ms in (
            # a verify is a decode with more tokens: it cannot be cheaper than one
            ("verify", verify, min(verify, t_decode)),
            ("draft", draft, 0.0),
            ("overhead", rest, 0.0),
        ):
            left = max(cycle - now + ideal_ms, 1e-9)
            levers.append(
                {
                    "term": term,
                    "now": now,
                    "ideal": round(ideal_ms, 4),
                    "speedup": round(accept * t_decode / left, 4),
                }
            )
    return sorted(levers, key=lambda lever: -float(lever["speedup"]))


def _sentence(
    even: float,
    full: int,
    ceiling: float,
    here: dict[str, Any] | None,
    levers: list[dict[str, Any]],
) -> str:
    if even > full:
        return (
            f"No draft of this length can pay: even at full acceptance ({full}) it would run at "
            f"{ceiling:.2f} of the baseline; the cycle must become cheaper first."
        )
    text = (
        f"Speculation pays above an accept length of {even:.2f}; "
        f"at full acceptance ({full}) the ratio is {ceiling:.2f}."
    )
    if here is None:
        return text
    now = f" The draft reaches {here['accept_length']:.2f}, ratio {here['speedup']:.2f}"
    best = f"; the term to attack is {levers[0]['term']}" if levers else ""
    return text + now + best + "."
