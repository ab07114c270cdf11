"""Writes down an examination as the numeric part of verdicts.json (`records` says what each key means)."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from sglang_sweep.statistics import power
from sglang_sweep.statistics.arms import Tested, baselines_of, compare_arm, launch_noise
from sglang_sweep.statistics.bootstrap import block_bootstrap
from sglang_sweep.statistics.boundary import LAST_LOOK, PRIOR_DF
from sglang_sweep.statistics.design import MIN_BLOCKS, Design
from sglang_sweep.statistics.holm import holm
from sglang_sweep.statistics.invalidation import Rule, rules_in_force
from sglang_sweep.statistics.launches import Arms, Key, Measured, blocks_by_gpus
from sglang_sweep.statistics.metrics import METRICS
from sglang_sweep.statistics.sequential import levels
from sglang_sweep.verdict.decision import Verdict
from sglang_sweep.verdict.outcomes import elsewhere, unseen_share
from sglang_sweep.verdict.session import Evidence, Examination, examine

Rows = list[dict[str, Any]]


def analyse(
    launches: Sequence[Mapping[str, Any]],
    evidence: Evidence,
    campaign_design: Mapping[str, Any],
    *,
    variants: Sequence[str] = (),
    baseline: str = "baseline",
) -> dict[str, Any]:
    """Return ``{"session": ..., "variants": [...]}`` from launch.json records (see `session.examine`).

    A record's ``file``, if present, says where it lies. Ratios are variant to baseline, above 1 is better.
    """
    e = examine(launches, evidence, campaign_design, variants=variants, baseline=baseline)
    return {
        "session": session_record(e, rules_in_force(launches)),
        "variants": [variant_record(e, name) for name in e.names],
    }


def session_record(e: Examination, rules: Sequence[Rule]) -> dict[str, Any]:
    """Return what A' against A says about the noise, whether it voids the session, and what rules saw.

    ``launch_sd`` of A and A' is taken about zero: both arms are one command, so their mean difference is noise too.
    """
    prime = e.tested[f"{e.baseline}-prime"]
    apart = list(prime.ratios.values())
    noise = launch_noise(e.tested)
    return {
        "aa": {
            **_numbers(prime),
            "launch_sd": math.sqrt(sum(d * d for d in apart) / len(apart) / 2) if len(apart) > 1 else None,
            "detectable_effect": detectable_effect(noise.sd, e.design, e.undecided) if noise.df else None,
        },
        "noise": {"launch_sd": noise.sd, "df": noise.df} if noise.df else None,
        "void": bool(e.void),
        "reasons": list(e.void),
        "family": list(e.family),
        "gpus": blocks_by_gpus(e.arms),
        "rules": [{"id": r.id, "scope": r.scope, "description": r.description} for r in rules],
        "removed": removal_rows(e.arms),
    }


def detectable_effect(launch_sd: float, design: Design, variants: int) -> float | None:
    """Return the relative effect that the declared blocks find with 80 % chance."""
    planned = min(design.max_blocks, LAST_LOOK) if design.adaptive else design.blocks
    level, _ = levels(planned, design, max(variants, 1))
    prior_df = PRIOR_DF if design.adaptive else 0
    sd = power.ratio_sd(launch_sd, design.baselines)
    return power.detectable_effect(sd, planned, level, prior_df=prior_df)


def variant_record(e: Examination, name: str) -> dict[str, Any]:
    """Return a variant's verdict with its reasons and all its numbers."""
    launches, decision, tested = e.arms.get(name, ()), e.decisions[name], e.tested[name]
    to_settle, spread = blocks_to_settle(e, name), e.spreads[name]
    fresh = e.design.mode == "fixed" and e.facts[name].blocks >= MIN_BLOCKS
    metrics = metric_rows(e, name)
    return {
        "name": name,
        "verdict": str(decision.verdict),
        "reasons": list(decision.reasons),
        **_numbers(tested),
        "ci_holm": _holm_interval(e, name),
        "p_holm": e.facts[name].p_holm,
        "more_blocks": None if fresh else to_settle,
        "fresh_blocks": to_settle if fresh else None,
        "outcome": outcome_of(launches),
        "cause": e.facts[name].cause,
        "metrics": metrics,
        "elsewhere": elsewhere(metrics, e.primary, e.design.smallest_effect) if tested.comparison else [],
        "outcomes": [{**asdict(o), "sentence": o.sentence} for o in e.outcomes[name]],
        "spread": {
            "launch_sd": spread.own.sd if spread.own.df else None,
            "others_sd": spread.others.sd if spread.others.df else None,
            "apart": len(spread.apart),
            "launches": spread.of,
            "unseen_share": unseen_share(spread.of),
        }
        if spread.of
        else None,
        "launches": [launch_row(launch, e.primary, tested) for launch in launches],
    }


def blocks_to_settle(e: Examination, name: str) -> int | None:
    """Return how many blocks would settle an INCONCLUSIVE verdict; None if it is not, or none would.

    The chance is 80 % if the estimate is the truth and a launch as noisy as in the session (or as this arm's, where
    that is more). In adaptive mode they are added to those made. A fixed design is tested once, so there they are
    those of a new campaign; before its test, those it still lacks.
    """
    f, c = e.facts[name], e.tested[name].comparison
    if e.decisions[name].verdict is not Verdict.INCONCLUSIVE or e.void or f.doubts:
        return None
    if not f.completed or f.engagement == "not_engaged":
        return 1
    if c is None or c.sd is None or c.blocks < MIN_BLOCKS:
        return MIN_BLOCKS - f.blocks
    tested = e.tested[name]
    variance = max(tested.noise.variance, launch_noise(e.tested, without=name).variance)
    made, most = (c.blocks, LAST_LOOK) if e.design.adaptive else (0, power.MOST_BLOCKS)
    sd = math.sqrt(variance * tested.factor)
    return power.more_blocks(
        c.log_ratio, sd, made, e.design.margin, lambda n: levels(n, e.design, e.undecided), most=most
    )


def outcome_of(launches: Sequence[Measured]) -> str | None:
    """Return 'completed' if any launch did, else 'failed' if any did, else 'not_run'; None without a
    launch."""
    seen = {m.outcome for m in launches}
    return next((outcome for outcome in ("completed", "failed", "not_run") if outcome in seen), None)


def metric_rows(e: Examination, arm: str) -> Rows:
    """Return ratio and 95 % interval of every workload and metric; only the primary one is tested.

    Tail latencies and accept length get a block bootstrap interval. Means are of what the ratio is of. Completion is
    shown where a request failed.
    """
    others = baselines_of(arm, e.baseline, e.arms)
    launches = [launch for name in (arm, *others) for launch in e.arms.get(name, ())]
    workloads = dict.fromkeys(workload for launch in launches for workload, _ in launch.raw)
    keys = [(w, m) for w in workloads for m in METRICS if any((w, m) in x.raw for x in e.arms.get(arm, ()))]
    rows = []
    for key in sorted(keys, key=lambda k: k != e.primary):
        if key[1] == "completion" and all(launch.raw.get(key, 1.0) == 1.0 for launch in launches):
            continue
        shown = e.tested[arm] if key == e.primary else compare_arm(e.arms, arm, key, e.design, e.baseline)
        c = shown.comparison
        ci95 = c.ci95 if c else None
        if METRICS[key[1]].tail and key != e.primary:
            ci95 = block_bootstrap(list(shown.ratios.values()))
        mine, base = (_means(e.arms, shown, names, key) for names in ([arm], others))
        rows.append(
            {
                "workload": key[0],
                "metric": key[1],
                "unit": METRICS[key[1]].unit,
                "ratio": c.ratio if c else None,
                "ci95": list(ci95) if ci95 else None,
                "primary": key == e.primary,
                "baseline_mean": base,
                "variant_mean": mine,
            }
        )
    return rows


def launch_row(launch: Measured, primary: Key, tested: Tested) -> dict[str, Any]:
    """Return one launch with its primary value, or with the rule that removed it."""
    value = launch.raw.get(primary)
    unpaired = value is not None and launch.block not in tested.logs
    return {
        "block": launch.block,
        "file": launch.file,
        "outcome": launch.outcome,
        "value": value,
        "removed": "stale"
        if launch.block in tested.stale
        else launch.lost or ("no_baseline_beside_it" if unpaired else None),
    }


def removal_rows(arms: Arms) -> Rows:
    """Return everything that a rule saw, what it removed or not."""
    return [
        {
            "arm": name,
            "block": launch.block,
            "file": launch.file,
            "window": r.window,
            "rule": r.rule,
            "saw": r.saw,
            "counts": not r.removes,
        }
        for name, launches in arms.items()
        for launch in launches
        for r in launch.removed
    ]


def _holm_interval(e: Examination, name: str) -> list[float] | None:
    """The interval at the level that Holm leaves this arm: in a fixed design it excludes 1 exactly where p_holm is at
    most alpha."""
    c = e.tested[name].comparison
    if name not in e.family or c is None or not c.p_value:
        return None
    p = holm({n: e.facts[n].p_value for n in e.family})[name]
    share = max(1.0, p / c.p_value) if p < 1 else float(len(e.family))
    interval = e.tested[name].interval(1 - e.design.alpha / share) if share > 1 else None
    return list(interval) if interval else None


def _means(arms: Arms, shown: Tested, names: Collection[str], key: Key) -> float | None:
    paired = [x for name in names for x in shown.paired.values.get(name, {}).values()]
    return _mean(paired or [m.raw[key] for name in names for m in arms.get(name, ()) if key in m.raw])


def _mean(values: Iterable[float]) -> float | None:
    listed = list(values)
    return sum(listed) / len(listed) if listed else None


def _numbers(tested: Tested) -> dict[str, Any]:
    c = tested.comparison
    return {
        "ratio": c.ratio if c else None,
        "ci95": list(c.ci95) if c and c.ci95 else None,
        "p_value": c.p_value if c else None,
        "p_exact": c.p_exact if c else None,
        "equivalence_p": c.equivalence_p if c else None,
        "blocks": c.blocks if c else 0,
    }
