"""Examines all launches of a campaign: the session's noise, and for each variant its facts and verdict."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sglang_sweep.statistics.arms import Tested, baselines_of, compare_arms, launch_noise
from sglang_sweep.statistics.design import MIN_BLOCKS, Design, design_from
from sglang_sweep.statistics.holm import holm
from sglang_sweep.statistics.launches import Arms, Key, Measured, by_arm
from sglang_sweep.statistics.metrics import oriented
from sglang_sweep.statistics.spread import Noise, outlying
from sglang_sweep.verdict.decision import Decision, VariantFacts, Verdict, before_the_numbers, decide
from sglang_sweep.verdict.outcomes import COLD, DOES, Outcome, more_often, outcomes

Evidence = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Spread:
    """An arm's launches beside the others': variances of a launch, and which blocks lie apart, by log distance."""

    own: Noise
    others: Noise
    apart: Mapping[int, float]
    of: int
    baseline_apart: int
    baseline_of: int

    def doubt(self, ratios: Mapping[int, float], margin: float) -> str | None:
        """What speaks against the mean, in words: launches that lie apart more often than the baseline's, where these
        and the others are on different sides of the smallest effect. Half of all launches apart is noise, not a mode.
        """
        few = more_often(len(self.apart), self.of, self.baseline_apart, self.baseline_of, 0.05, by_sight=True)
        modes = [[x for b, x in ratios.items() if (b in self.apart) == apart] for apart in (True, False)]
        if not few or 2 * len(self.apart) >= self.of or not all(modes):
            return None
        if len({_side(sum(mode) / len(mode), margin) for mode in modes}) == 1:
            return None
        size = math.expm1(sum(self.apart.values()) / len(self.apart))
        return (
            f"{len(self.apart)} of {self.of} launches {'is' if len(self.apart) == 1 else 'are'} {abs(size):.0%} "
            f"{'slower' if size < 0 else 'faster'} than its others, {self.baseline_apart} of {self.baseline_of} of the "
            "baseline: the mean is no answer"
        )


def _side(log_ratio: float, margin: float) -> int:
    return int(log_ratio >= margin) - int(log_ratio <= -margin)


@dataclass(frozen=True)
class Examination:
    """All that is concluded from a campaign's launches; ``rows`` turns it into verdicts.json.

    ``family`` are the variants Holm corrects for, ``names`` every variant in order and A' last.
    """

    design: Design
    baseline: str
    primary: Key
    arms: Arms
    names: tuple[str, ...]
    family: tuple[str, ...]
    void: tuple[str, ...]
    tested: Mapping[str, Tested]
    outcomes: Mapping[str, Sequence[Outcome]]
    spreads: Mapping[str, Spread]
    facts: Mapping[str, VariantFacts]
    decisions: Mapping[str, Decision]

    @property
    def undecided(self) -> int:
        """How many variants Holm still has to share alpha among; at least 1."""
        return max(1, sum((self.facts[name].p_holm or 0) > self.design.alpha for name in self.family))


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
    twins = (baseline, *(a for a in arms if a.startswith(prime)))
    names = (*dict.fromkeys([*variants, *(arm for arm in arms if arm not in twins)]), prime)
    tested = compare_arms(arms, names, primary, design, baseline)
    void = void_reasons(tested[prime], design)
    beside = {n: [m for b in baselines_of(n, baseline, arms) for m in arms.get(b, ())] for n in names}
    seen = {n: outcomes(arms.get(n, ()), beside[n], design.alpha) for n in names}
    spreads = _spreads(arms, names, twins, tested, primary, design)
    facts = {
        name: facts_of(
            arms.get(name, ()), evidence.get(name, {}), tested[name], design, seen[name], spreads[name],
            is_prime=name == prime, void=void, baseline=beside[name],
        )
        for name in names
    }  # fmt: skip
    family = tuple(name for name in names if name != prime and _may_be_tested(facts[name], design))
    for name, p in holm({name: _p(tested[name]) for name in family}).items():
        # Shared noise earns an arm its place in the family; by its own noise alone it must convince too.
        facts[name] = replace(facts[name], p_holm=max(p, tested[name].own_p))
    decisions = {name: decide(facts[name], design) for name in names}
    return Examination(
        design, baseline, primary, arms, names, family, void, tested, seen, spreads, facts, decisions
    )


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


def _spreads(
    arms: Arms,
    names: Sequence[str],
    twins: Sequence[str],
    tested: Mapping[str, Tested],
    primary: Key,
    design: Design,
) -> dict[str, Spread]:
    logs = {
        name: {m.block: math.log(oriented(primary[1], m.raw[primary])) for m in of if m.raw.get(primary)}
        for name, of in arms.items()
    }
    everyone = launch_noise(tested)
    apart = {t: len(outlying(logs, t, everyone, design.margin)) for t in twins if t in logs}
    found = {}
    for name in names:
        others, beside = launch_noise(tested, without=name), [t for t in apart if t != name]
        found[name] = Spread(
            tested[name].noise,
            others,
            outlying(logs, name, others, design.margin) if name in logs else {},
            len(logs.get(name, ())),
            sum(apart[t] for t in beside),
            sum(len(logs[t]) for t in beside),
        )
    return found


def facts_of(
    launches: Sequence[Measured],
    evidence: Mapping[str, Any],
    tested: Tested,
    design: Design,
    seen: Sequence[Outcome],
    spread: Spread,
    *,
    is_prime: bool = False,
    void: tuple[str, ...] = (),
    baseline: Sequence[Measured] = (),
) -> VariantFacts:
    """Gather what decides a variant's verdict, all but the p-value that Holm adjusts over the family."""
    often = [o for o in seen if o.more_often]
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
        failed_serving=all(m.served for m in tried if m.outcome == "failed"),
        cause=evidence.get("cause") or cause or (None if tried else not_run),
        baseline_causes=frozenset(m.cause for m in baseline if m.outcome == "failed")
        if not any(m.outcome == "completed" for m in baseline)
        else frozenset(),
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
        misbehaves=tuple(o.sentence for o in often if o.what in DOES),
        doubts=(
            *(f"{o.sentence}: that can flatter it" for o in often if o.what not in DOES and o.what != COLD),
            *filter(None, [spread.doubt(tested.ratios, design.margin)]),
        ),
        notes=tuple(
            f"starts cold: its first window is left out in {o.launches} of {o.of} launches, the baseline's in "
            f"{o.baseline_launches} of {o.baseline_of}"
            for o in often
            if o.what == COLD
        ),
        blocks=c.blocks if c else 0,
        log_ratio=c.log_ratio if c else None,
        p_value=c.p_value if c else None,
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
