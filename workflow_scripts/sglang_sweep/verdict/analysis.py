"""Writes down an examination as the numeric part of verdicts.json."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from sglang_sweep.statistics import power
from sglang_sweep.statistics.arms import Tested
from sglang_sweep.statistics.boundary import LAST_LOOK, PRIOR_DF
from sglang_sweep.statistics.invalidation import Rule, rules_in_force
from sglang_sweep.statistics.launches import Measured, blocks_by_gpus
from sglang_sweep.statistics.rows import launch_row, metric_rows, removal_rows
from sglang_sweep.statistics.sequential import levels
from sglang_sweep.verdict.decision import MIN_BLOCKS, Verdict
from sglang_sweep.verdict.session import Evidence, Examination, examine


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
    """Return what A' against A says about the noise, whether it voids the session, and what rules removed.

    ``launch_sd`` is taken about zero: both arms are one command, so their mean difference is noise too.
    ``detectable_effect`` is the relative effect that the declared blocks find with 80 % chance.
    """
    prime = e.tested[f"{e.baseline}-prime"]
    apart = list(prime.ratios.values())
    launch_sd = math.sqrt(sum(d * d for d in apart) / len(apart) / 2) if len(apart) > 1 else None
    detectable = None
    if launch_sd:
        adaptive = e.design.mode == "adaptive"
        planned = min(e.design.max_blocks, LAST_LOOK) if adaptive else e.design.blocks
        level, _ = levels(planned, e.design, e.undecided)
        prior_df = PRIOR_DF if adaptive else 0
        detectable = power.detectable_effect(power.ratio_sd(launch_sd), planned, level, prior_df=prior_df)
    return {
        "aa": {**_numbers(prime), "launch_sd": launch_sd, "detectable_effect": detectable},
        "void": bool(e.void),
        "reasons": list(e.void),
        "family": list(e.family),
        "gpus": blocks_by_gpus(e.arms),
        "rules": [{"id": r.id, "scope": r.scope, "description": r.description} for r in rules],
        "removed": removal_rows(e.arms),
    }


def variant_record(e: Examination, name: str) -> dict[str, Any]:
    """Return a variant's verdict with its reasons and all its numbers."""
    launches, decision = e.arms.get(name, ()), e.decisions[name]
    return {
        "name": name,
        "verdict": str(decision.verdict),
        "reasons": list(decision.reasons),
        **_numbers(e.tested[name]),
        "p_holm": e.facts[name].p_holm,
        "more_blocks": more_blocks(e, name),
        "outcome": outcome_of(launches),
        "cause": e.facts[name].cause,
        "metrics": metric_rows(e.arms, name, e.tested[name], e.primary, e.design, e.baseline),
        "launches": [launch_row(launch, e.primary, e.tested[name].stale) for launch in launches],
    }


def more_blocks(e: Examination, name: str) -> int | None:
    """Return how many further blocks would settle an INCONCLUSIVE verdict; None if it is not, or none
    would.

    The chance is 80 % if estimate and spread are the truth.
    """
    f, c = e.facts[name], e.tested[name].comparison
    if e.decisions[name].verdict is not Verdict.INCONCLUSIVE or e.void:
        return None
    if not f.completed or f.engagement == "not_engaged":
        return 1
    if c is None or c.sd is None or c.blocks < MIN_BLOCKS:
        return MIN_BLOCKS - f.blocks
    history = e.tested[name].history
    sd = history[-1].error * math.sqrt(c.blocks) if history else c.sd
    most = LAST_LOOK if e.design.mode == "adaptive" else power.MOST_BLOCKS
    return power.more_blocks(
        c.log_ratio, sd, c.blocks, e.design.margin, lambda n: levels(n, e.design, e.undecided), most=most
    )


def outcome_of(launches: Sequence[Measured]) -> str | None:
    """Return 'completed' if any launch did, else 'failed' if any did, else 'not_run'; None without a
    launch."""
    seen = {m.outcome for m in launches}
    return next((outcome for outcome in ("completed", "failed", "not_run") if outcome in seen), None)


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
