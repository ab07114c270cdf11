"""After each block: which arms go on, and why the others stop."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scipy import stats

from sglang_sweep.statistics import power
from sglang_sweep.statistics.boundary import LAST_LOOK, PRIOR_DF
from sglang_sweep.statistics.design import MIN_BLOCKS, Design
from sglang_sweep.statistics.sequential import Look, levels
from sglang_sweep.verdict.decision import VERDICTS, Verdict
from sglang_sweep.verdict.session import Evidence, Examination, examine

HOPELESS = 0.1
"""An arm is not launched while its chance of being settled by `max_blocks` is below this ..."""

OPTIMISM = 0.9
"""... even if the noise is as small as the data allow: at the lower 90 % confidence limit of its spread."""

STEADY = 9
"""In adaptive mode a WIN goes on, alone, until so many of its launches were made: what fails in three launches of
ten is then missed once in 25. Whoever deploys it would find out."""


@dataclass(frozen=True)
class ArmDecision:
    """Whether an arm is launched in the next block, and why (not); ``alone`` where no baseline is needed beside it."""

    go_on: bool
    reason: str
    alone: bool = False


def decide_arms(
    launches: Sequence[Mapping[str, Any]],
    evidence: Evidence,
    campaign_design: Mapping[str, Any],
    *,
    variants: Sequence[str] = (),
    baseline: str = "baseline",
) -> dict[str, ArmDecision]:
    """Decide for every variant, the baseline and A' after the launches so far (arguments as
    `session.examine`).

    Depends on nothing but what was measured, so an interrupted campaign resumes with the same decisions. In
    fixed mode only what no further speed could change stops an arm early.
    """
    e = examine(launches, evidence, campaign_design, variants=variants, baseline=baseline)
    prime = f"{baseline}-prime"
    decisions = {name: _decide(e, name) for name in e.names if name != prime}
    live = [name for name, decision in decisions.items() if decision.go_on and not decision.alone]
    shared = ArmDecision(bool(live), f"baseline of {', '.join(live)}" if live else "no variant is left")
    return {baseline: shared, prime: shared, **decisions}


def _decide(e: Examination, name: str) -> ArmDecision:
    verdict, f, design = e.decisions[name].verdict, e.facts[name], e.design
    most = design.max_blocks if design.adaptive else design.blocks
    enough = f.launches >= MIN_BLOCKS or not f.completed
    if verdict is Verdict.UNSTABLE and design.adaptive and not enough:
        return ArmDecision(True, "unstable so far")
    if verdict is Verdict.UNSTABLE and not f.completed:
        return ArmDecision(False, f"settled: {verdict}")
    if verdict is Verdict.WIN and design.adaptive and f.launches < min(STEADY, most):
        return ArmDecision(True, "wins; is it steady?", alone=True)
    if VERDICTS[verdict].goes_on not in (("always",) if design.adaptive else ("always", "fixed")):
        return ArmDecision(False, f"settled: {verdict}")
    if e.void and design.adaptive:
        return ArmDecision(False, f"the session is void: {e.void[0]}")
    if f.blocks >= most:
        return ArmDecision(False, f"{f.blocks} of {most} blocks are done")
    if design.adaptive and e.tested[name].history:
        chance = settling_chance(e.tested[name].history[-1], design, e.undecided)
        if chance < HOPELESS:
            return ArmDecision(
                False, f"{chance:.0%} chance to settle within {most} blocks on a host this noisy"
            )
    return ArmDecision(True, "not settled yet" if f.launches else "not launched yet")


def settling_chance(look: Look, design: Design, undecided: int) -> float:
    """Return the chance that an arm settles by `max_blocks`, with the spread at its lower confidence limit."""
    sd = look.error * math.sqrt(look.blocks) * math.sqrt(look.df / float(stats.chi2.ppf(OPTIMISM, look.df)))
    total = min(design.max_blocks, LAST_LOOK)
    if look.blocks >= total:
        return 0.0
    at_the_end = levels(total, design, undecided)
    df = total - 1 + PRIOR_DF
    return power.remaining_chance(look.mean, sd, look.blocks, total, design.margin, at_the_end, df)
