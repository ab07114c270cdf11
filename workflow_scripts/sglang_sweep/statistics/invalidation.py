"""Rules, fixed beforehand, about a launch or a window: equal for all arms and blind to the result.

A rule sees one `launch.json` record, never another arm and never a ratio, so it cannot prefer an arm. It
answers with what it saw, or None. Thresholds are constants here, not configuration: a rule tuned after the
numbers are known is no rule.

What a rule removes from one launch is removed from those it is compared with (`launches.paired_values`), and
how often a rule spoke is compared between arms (`verdict.outcomes`): a rule that speaks of what the variant does
to requests can withhold a WIN.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Launch = Mapping[str, Any]
Window = Mapping[str, Any]

HARMFUL_THROTTLING = {"hw_slowdown", "hw_thermal_slowdown", "sw_thermal_slowdown", "hw_power_brake_slowdown"}
"""Clocks held down by heat or a power fault. A power cap and idling are normal and hit all arms alike."""

LATENCY_TOLERANCE = 0.25
"""Share by which mean TTFT + TPOT x (n - 1) may miss mean end-to-end latency: unequal output lengths move
the mean of a product by some per cent, a client that missed its tokens by 90 % or more (recorded: 0.0006 ms
a token)."""

COLD_TOLERANCE = 0.10
"""Share by which a first window may lie below the slowest later one; launch noise is 0.5 to 3 %."""


@dataclass(frozen=True)
class Rule:
    """``check(launch, window)`` says what it saw, or None; rules of scope 'launch' get an empty window.

    A rule ``needs`` a key of the windows that older records and hosts without GPUs lack. Where it does not
    ``remove``, what it saw stays in the numbers as the loss it is. An ``outcome`` is what the variant did to
    requests, in these words.
    """

    id: str
    scope: str
    description: str
    check: Callable[[Launch, Window], str | None]
    needs: str | None = None
    removes: bool = True
    outcome: str | None = None


@dataclass(frozen=True)
class Removal:
    """What a rule saw in a window (its index in the launch) or, where ``window`` is None, in the whole launch,
    and whether that is thereby removed."""

    rule: str
    window: int | None
    saw: str
    removes: bool = True


def _throttled(launch: Launch, _: Window) -> str | None:
    for moment, sample in (launch.get("host_samples") or {}).items():
        for gpu in (sample or {}).get("gpus") or []:
            if slowed := _slowed(gpu):
                return f"{slowed} {moment} the windows"
    return None


def _throttled_window(_: Launch, window: Window) -> str | None:
    for gpu in window.get("gpus") or []:
        if slowed := _slowed(gpu):
            return f"{slowed}, down to {gpu.get('sm_mhz_min')} MHz"
    return None


def _slowed(gpu: Mapping[str, Any]) -> str | None:
    harmful = HARMFUL_THROTTLING.intersection(_plain(r) for r in gpu.get("throttle_reasons") or [])
    return f"GPU {gpu.get('index', '?')} {', '.join(sorted(harmful))}" if harmful else None


def _foreign_process(launch: Launch, _: Window) -> str | None:
    before = (launch.get("clean_room") or {}).get("before") or {}
    gpus = ((launch.get("host_samples") or {}).get("before") or {}).get("gpus") or []
    for process in [
        *(before.get("processes") or []),
        *(p for gpu in gpus for p in gpu.get("processes") or []),
    ]:
        return f"not ours and there before the launch: {process}"
    return None


def _retracted(launch: Launch, window: Window) -> str | None:
    count = window.get("retracted_requests") or (window.get("metrics") or {}).get("retracted_requests")
    return f"{count:g} requests were evicted from the KV cache and done again" if count else None


def _latency_inconsistent(launch: Launch, window: Window) -> str | None:
    m = window.get("metrics") or {}
    ttft, tpot, e2e, done, tokens = _numbers(
        m, "mean_ttft_ms", "mean_tpot_ms", "mean_e2e_latency_ms", "completed", "total_output_tokens"
    )
    if not (done > 0 and e2e > 0):
        return None
    implied = ttft + tpot * max(tokens / done - 1, 0)
    if math.isnan(implied):
        return None
    if abs(implied - e2e) <= LATENCY_TOLERANCE * e2e:
        return None
    return f"TTFT + TPOT x (n - 1) is {implied:.1f} ms, end-to-end latency {e2e:.1f} ms"


def _incomplete(launch: Launch, window: Window) -> str | None:
    m = window.get("metrics") or {}
    done, failed = m.get("completed"), m.get("failed") or 0
    if done is None or (done and not failed):
        return None
    return f"{done} of {done + failed} requests completed"


TOKEN_TOLERANCE = 0.1
"""Each window has prompts of its own seed, whose text is a few tokens more or less; another tokenizer is multiples."""


def _token_mismatch(launch: Launch, window: Window) -> str | None:
    same = [w for w in launch.get("windows") or [] if w.get("workload") == window.get("workload")]
    counts = [(w.get("metrics") or {}).get("total_input_tokens") for w in same]
    first, mine = counts[0], (window.get("metrics") or {}).get("total_input_tokens")
    if first is None or mine is None or abs(mine - first) <= TOKEN_TOLERANCE * first:
        return None
    return f"{mine} input tokens, {first} in the launch's first window"


def _cold(launch: Launch, window: Window) -> str | None:
    same = [w for w in launch.get("windows") or [] if w.get("workload") == window.get("workload")]
    rates = [_numbers(w.get("metrics") or {}, "output_throughput")[0] for w in same]
    if window is not same[0] or len(same) < 3 or any(math.isnan(rate) for rate in rates):
        return None
    slowest_later = min(rates[1:])
    if rates[0] >= (1 - COLD_TOLERANCE) * slowest_later:
        return None
    return f"first window {rates[0]:.1f} tok/s, every later one {slowest_later:.1f} or more"


RULES: tuple[Rule, ...] = (
    Rule("throttling", "launch", "a GPU was slowed by heat or a power fault beside the windows", _throttled),
    Rule(
        "foreign_process",
        "launch",
        "a process that is not ours was on the GPU before the launch",
        _foreign_process,
    ),
    Rule(
        "throttled_window",
        "window",
        "a GPU was slowed by heat or a power fault meanwhile",
        _throttled_window,
        needs="gpus",
    ),
    Rule(
        "kv_retraction",
        "window",
        "requests were retracted; the window counts, with what that cost",
        _retracted,
        removes=False,
        outcome="retracts requests",
    ),
    Rule(
        "latency_inconsistent", "window", "TPOT, TTFT and end-to-end latency disagree", _latency_inconsistent
    ),
    Rule(
        "incomplete_requests",
        "window",
        "fewer requests completed than were asked; goodput and completion count all the same",
        _incomplete,
        outcome="fails requests",
    ),
    Rule(
        "token_mismatch",
        "window",
        "prompts of the same declared length were counted as another number of tokens",
        _token_mismatch,
    ),
    Rule("cold_window", "window", "the first window was far below all later ones: no warm-up", _cold),
)


RULE = {rule.id: rule for rule in RULES}

UNSURVIVED = {"goodput", "completion"}
"""What counts in a window in which requests failed; the speed of the survivors could flatter."""


def removals(launch: Launch) -> list[Removal]:
    """Return what the rules saw in one launch; windows that it had marked itself come first."""
    found: list[Removal] = []
    for index, window in enumerate(launch.get("windows") or []):
        if window.get("valid") is False:
            marked = window.get("invalid") or ["marked_invalid"]
            found += [Removal(rule, index, "marked when it was measured") for rule in marked]
    for rule in RULES:
        if rule.scope == "launch":
            saw = rule.check(launch, {})
            found += [Removal(rule.id, None, saw, rule.removes)] if saw else []
            continue
        for index, window in enumerate(launch.get("windows") or []):
            saw = rule.check(launch, window)
            if saw and not any(r.window == index and r.rule == rule.id for r in found):
                found.append(Removal(rule.id, index, saw, rule.removes))
    return found


def rules_in_force(launches: Iterable[Launch]) -> list[Rule]:
    """Return the rules that could see what they look for in these launches."""
    windows = [window for launch in launches for window in launch.get("windows") or []]
    return [rule for rule in RULES if rule.needs is None or any(rule.needs in window for window in windows)]


def _numbers(record: Mapping[str, Any], *names: str) -> list[float]:
    """Return the named values as floats, NaN where one is absent, so that a rule cannot fire on a gap."""
    return [math.nan if record.get(name) is None else float(record[name]) for name in names]


def _plain(reason: Any) -> str:
    return str(reason).lower().replace(" ", "_").replace("-", "_")
