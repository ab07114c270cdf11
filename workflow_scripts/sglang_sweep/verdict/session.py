"""Examines all launches of a campaign: the session's noise, and for each variant its facts and verdict."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sglang_sweep.statistics.arms import Tested, compare_arms
from sglang_sweep.statistics.holm import holm
from sglang_sweep.statistics.launches import Arms, Measured, by_arm
from sglang_sweep.verdict.decision import (
    MIN_BLOCKS,
    Decision,
    Design,
    VariantFacts,
    Verdict,
    before_the_numbers,
    decide,
)

Evidence = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Examination:
    """All that is concluded from a campaign's launches; ``rows`` turns it into verdicts.json.

    ``family`` are the variants Holm corrects for, ``names`` every variant in order and A' last.
    """

    design: Design
    baseline: str
    primary: tuple[str, str]
    arms: Arms
    names: tuple[str, ...]
    family: tuple[str, ...]
    void: tuple[str, ...]
    tested: Mapping[str, Tested]
    facts: Mapping[str, VariantFacts]
    decisions: Mapping[str, Decision]

    @property
    def undecided(self) -> int:
        """How many variants Holm still has to share alpha among; at least 1."""
        return max(1, sum((self.facts[name].p_holm or 0) > self.design.alpha for name in self.family))


def design_from(campaign_design: Mapping[str, Any]) -> Design:
    """Read what verdicts need from a campaign's ``design``; absent keys take the defaults of the schema."""
    known = Design.__dataclass_fields__
    return Design(**{key: value for key, value in campaign_design.items() if key in known})


def examine(
    launches: Sequence[Mapping[str, Any]],
    evidence: Evidence,
    campaign_design: Mapping[str, Any],
    *,
    variants: Sequence[str] = (),
    baseline: str = "baseline",
) -> Examination:
    """Examine launch.json records.

    ``evidence`` is by variant name: engagement, confounds, correctness and, where known, cause and
    predicted. ``variants`` are the declared names in their order, so that one never launched is PLANNED.
    """
    design, prime = design_from(campaign_design), f"{baseline}-prime"
    primary = (campaign_design["primary"]["workload"], campaign_design["primary"]["metric"])
    arms = by_arm(launches)
    names = (*dict.fromkeys([*variants, *(arm for arm in arms if arm not in (baseline, prime))]), prime)
    tested = compare_arms(arms, names, primary, design, baseline)
    void = void_reasons(tested[prime], design)
    facts = {
        name: facts_of(arms.get(name, ()), evidence.get(name, {}), tested[name], design, name == prime, void)
        for name in names
    }
    family = tuple(name for name in names if name != prime and _may_be_tested(facts[name], design))
    for name, p in holm({name: _p(tested[name]) for name in family}).items():
        # Shared noise earns an arm its place in the family; by its own noise alone it must convince too.
        facts[name] = replace(facts[name], p_holm=max(p, tested[name].own_p))
    decisions = {name: decide(facts[name], design) for name in names}
    return Examination(design, baseline, primary, arms, names, family, void, tested, facts, decisions)


def void_reasons(prime: Tested, design: Design) -> tuple[str, ...]:
    """Return why the A/A' pair voids the session, if it does.

    It must show a difference that cannot be there: p below `aa_alpha`, or a 95 % interval wholly beyond the
    smallest effect. An interval that is merely wide is noise, not a fault; the equivalence test already
    answers for it.
    """
    c, reasons = prime.comparison, []
    if c is None or c.p_value is None or c.blocks < MIN_BLOCKS:
        return ()
    if c.p_value < design.aa_alpha:
        reasons.append(f"A' against A differs with p = {c.p_value:.2g}, below {design.aa_alpha:g}")
    if c.ci95 and (math.log(c.ci95[0]) > design.margin or math.log(c.ci95[1]) < -design.margin):
        low, high = c.ci95
        reasons.append(
            f"A'/A lies beyond {design.smallest_effect:.1%}: 95 % interval {low:.4f} to {high:.4f}"
        )
    return tuple(reasons)


def facts_of(
    launches: Sequence[Measured],
    evidence: Mapping[str, Any],
    tested: Tested,
    design: Design,
    is_prime: bool = False,
    void: tuple[str, ...] = (),
) -> VariantFacts:
    """Gather what decides a variant's verdict, all but the p-value that Holm adjusts over the family."""
    tried = [m for m in launches if m.outcome != "not_run"]
    causes = Counter(m.cause for m in tried if m.outcome == "failed")
    cause, agreeing = causes.most_common(1)[0] if causes else (None, 0)
    not_run = next((m.cause for m in launches if m.outcome == "not_run" and m.cause), None)
    predicted = _text(evidence.get("predicted") or not_run)
    c = tested.comparison
    return VariantFacts(
        is_prime=is_prime,
        launches=len(tried),
        completed=sum(m.outcome == "completed" for m in tried),
        failures=sum(causes.values()),
        same_cause_failures=agreeing,
        cause=evidence.get("cause") or cause or (None if tried else not_run),
        predicted_impossible=predicted,
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
        exact_reachable=c is not None and tested.smallest_exact_p <= design.alpha,
        equivalence_p=c.equivalence_p if c else None,
        session_void=void,
    )


def _may_be_tested(facts: VariantFacts, design: Design) -> bool:
    """Launched, and not ruled out by anything but speed."""
    early = before_the_numbers(facts, design)
    return early is None or early.verdict is Verdict.INCONCLUSIVE


def _p(tested: Tested) -> float | None:
    c = tested.comparison
    return c.p_value if c and c.blocks >= MIN_BLOCKS else None


def _text(predicted: Any) -> str | None:
    if isinstance(predicted, Mapping):
        predicted = predicted.get("text") or predicted.get("cause") or predicted
    return str(predicted) if predicted else None


def _wrong(correctness: Mapping[str, Any]) -> str | None:
    if correctness.get("ok") is False or correctness.get("state") in ("wrong", "wrong_output"):
        return str(
            correctness.get("reason") or "greedy outputs differ from the baseline's beyond the tolerance"
        )
    return None
