"""Analyses all launches of a campaign: the session's noise, and for each variant its numbers and verdict."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sglang_sweep.statistics import power
from sglang_sweep.statistics.arms import Tested, try_arm
from sglang_sweep.statistics.invalidation import RULES
from sglang_sweep.statistics.launches import Arms, Measured, by_arm
from sglang_sweep.statistics.ratios import holm
from sglang_sweep.statistics.rows import launch_row, metric_rows, removal_rows
from sglang_sweep.statistics.sequential import levels
from sglang_sweep.statistics.verdict import (
    MIN_BLOCKS,
    Decision,
    Design,
    VariantFacts,
    Verdict,
    before_the_numbers,
    decide,
)


def design_from(campaign_design: Mapping[str, Any]) -> Design:
    """Read what verdicts need from a campaign's ``design``; absent keys take the defaults of the schema."""
    known = Design.__dataclass_fields__
    return Design(**{key: value for key, value in campaign_design.items() if key in known})


def analyse(
    launches: Sequence[Mapping[str, Any]],
    evidence: Mapping[str, Mapping[str, Any]],
    campaign_design: Mapping[str, Any],
    *,
    variants: Sequence[str] = (),
    baseline: str = "baseline",
) -> dict[str, Any]:
    """Return ``{"session": ..., "variants": [...]}``, the numeric part of verdicts.json.

    ``launches`` are launch.json records (``file``, if present, is where each lies); ``evidence`` is by
    variant name: engagement, confounds, correctness and, where known, cause and predicted; ``variants`` are
    the declared names in their order, so that one never launched appears as PLANNED. The arm
    "<baseline>-prime" gets a row too.
    """
    design, prime = design_from(campaign_design), f"{baseline}-prime"
    primary = (campaign_design["primary"]["workload"], campaign_design["primary"]["metric"])
    arms = by_arm(launches)
    names = [*dict.fromkeys([*variants, *(arm for arm in arms if arm not in (baseline, prime))]), prime]
    tested = {name: try_arm(arms, name, primary, design, baseline) for name in names}
    void = void_reasons(tested[prime], design)
    facts = {
        name: replace(
            facts_of(arms.get(name, ()), evidence.get(name, {}), tested[name], design),
            is_prime=name == prime,
            session_void=tuple(void),
        )
        for name in names
    }
    family = [name for name in names if name != prime and _may_be_tested(facts[name], design)]
    p_holm = holm({name: _p(tested[name]) for name in family})
    undecided = max(1, sum(p_holm[name] > design.alpha for name in family))
    rows = []
    for name in names:
        known = replace(facts[name], p_holm=p_holm.get(name))
        decision = decide(known, design)
        rows.append(
            {
                "name": name,
                "verdict": str(decision.verdict),
                "reasons": list(decision.reasons),
                **_numbers(tested[name]),
                "p_holm": p_holm.get(name),
                "more_blocks": more_blocks(decision, known, tested[name], design, undecided),
                "outcome": outcome_of(arms.get(name, ())),
                "cause": known.cause,
                "metrics": metric_rows(arms, name, primary, design, baseline),
                "launches": [
                    launch_row(launch, primary, tested[name].stale) for launch in arms.get(name, ())
                ],
            }
        )
    return {"session": _session(tested[prime], void, arms, design, family), "variants": rows}


def void_reasons(prime: Tested, design: Design) -> list[str]:
    """Return why the A/A' pair voids the session, if it does.

    It must show a difference that cannot be there: p below `aa_alpha`, or a 95 % interval wholly beyond the
    smallest effect. An interval that is merely wide is noise, not a fault; the equivalence test already
    answers for it.
    """
    c, reasons = prime.comparison, []
    if c is None or c.p_value is None or c.blocks < MIN_BLOCKS:
        return []
    if c.p_value < design.aa_alpha:
        reasons.append(f"A' against A differs with p = {c.p_value:.2g}, below {design.aa_alpha:g}")
    if c.ci95 and (math.log(c.ci95[0]) > design.margin or math.log(c.ci95[1]) < -design.margin):
        reasons.append(
            f"A'/A lies beyond {design.smallest_effect:.1%}: 95 % interval {c.ci95[0]:.4f} to {c.ci95[1]:.4f}"
        )
    return reasons


def facts_of(
    launches: Sequence[Measured], evidence: Mapping[str, Any], tested: Tested, design: Design
) -> VariantFacts:
    """Gather what decides a variant's verdict, all but what the session as a whole adds."""
    tried = [m for m in launches if m.outcome != "not_run"]
    causes = Counter(m.cause for m in tried if m.outcome == "failed")
    commonest = causes.most_common(1)[0] if causes else (None, 0)
    predicted = evidence.get("predicted") or next(
        (m.cause for m in launches if m.outcome == "not_run" and m.cause), None
    )
    c = tested.comparison
    return VariantFacts(
        launches=len(tried),
        completed=sum(m.outcome == "completed" for m in tried),
        failures=sum(causes.values()),
        same_cause_failures=commonest[1],
        cause=evidence.get("cause") or commonest[0] or (str(predicted) if predicted and not tried else None),
        predicted_impossible=_text(predicted),
        wrong_output=_wrong(evidence.get("correctness") or {}),
        engagement=(evidence.get("engagement") or {}).get("state") or "unproven",
        confounds=tuple(
            item["setting"]
            for item in evidence.get("confounds") or ()
            if item.get("moves_performance") and not item.get("declared")
        ),
        stale_pairs=len(tested.stale),
        removed=tuple(m.lost for m in tried if m.lost),
        blocks=c.blocks if c else 0,
        log_ratio=c.log_ratio if c else None,
        p_exact=c.p_exact if c else None,
        exact_reachable=bool(c) and tested.exact_can_reach <= design.alpha,
        equivalence_p=c.equivalence_p if c else None,
    )


def more_blocks(
    decision: Decision, f: VariantFacts, tested: Tested, design: Design, undecided: int
) -> int | None:
    """Return how many further blocks would settle an INCONCLUSIVE verdict; None if it is not, or none
    would."""
    c = tested.comparison
    if decision.verdict is not Verdict.INCONCLUSIVE or f.session_void:
        return None
    if not f.completed or f.engagement == "not_engaged":
        return 1
    if c is None or c.sd is None or c.blocks < MIN_BLOCKS:
        return MIN_BLOCKS - f.blocks
    return power.more_blocks(
        c.log_ratio,
        c.sd,
        c.blocks,
        design.margin,
        lambda n: levels(n, design, 1 if f.is_prime else undecided),
    )


def outcome_of(launches: Sequence[Measured]) -> str | None:
    """Return 'completed' if any launch did, else 'failed' if any did, else 'not_run'; None without a
    launch."""
    seen = {m.outcome for m in launches}
    return next((outcome for outcome in ("completed", "failed", "not_run") if outcome in seen), None)


def _may_be_tested(facts: VariantFacts, design: Design) -> bool:
    early = before_the_numbers(facts, design)
    return early is None or early.verdict in (Verdict.PLANNED, Verdict.INCONCLUSIVE)


def _p(tested: Tested) -> float | None:
    c = tested.comparison
    return c.p_value if c and c.blocks >= MIN_BLOCKS else None


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


def _session(
    prime: Tested, void: list[str], arms: Arms, design: Design, family: Sequence[str]
) -> dict[str, Any]:
    c = prime.comparison
    launch_sd = c.sd / math.sqrt(2) if c and c.sd is not None else None
    detectable = None
    if c and launch_sd:
        level = levels(c.blocks, design, max(1, len(family)))[0]
        detectable = (
            power.detectable_effect(power.ratio_sd(launch_sd), c.blocks, level) if level > 0 else None
        )
    return {
        "aa": {**_numbers(prime), "launch_sd": launch_sd, "detectable_effect": detectable},
        "void": bool(void),
        "reasons": void,
        "family": list(family),
        "rules": [{"id": r.id, "scope": r.scope, "description": r.description} for r in RULES],
        "removed": removal_rows(arms),
    }


def _text(predicted: Any) -> str | None:
    if not predicted:
        return None
    return (
        str(predicted.get("text") or predicted.get("cause") or predicted)
        if isinstance(predicted, Mapping)
        else str(predicted)
    )


def _wrong(correctness: Mapping[str, Any]) -> str | None:
    if correctness.get("ok") is False or correctness.get("state") in ("wrong", "wrong_output"):
        return str(
            correctness.get("reason") or "greedy outputs differ from the baseline's beyond the tolerance"
        )
    return None
