"""From what is known about a variant to one verdict, in a fixed order of precedence."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum


class Verdict(StrEnum):
    """The design's verdicts."""

    WIN = "WIN"
    LOSS = "LOSS"
    NO_DIFFERENCE = "NO_DIFFERENCE"
    INCONCLUSIVE = "INCONCLUSIVE"
    DEAD_END = "DEAD_END"
    NO_OP = "NO_OP"
    CONFOUNDED = "CONFOUNDED"
    WRONG_OUTPUT = "WRONG_OUTPUT"
    STALE = "STALE"
    PLANNED = "PLANNED"


CONFIRMING_LAUNCHES = 2
"""A failure, or a change that never engaged, is believed after this many launches that agree."""

MIN_BLOCKS = 3
"""WIN, LOSS and NO_DIFFERENCE need this many: with two, the spread rests on one difference."""


@dataclass(frozen=True)
class Design:
    """What decides verdicts in a campaign's design; ``smallest_effect`` is relative (0.02 is 2 %)."""

    smallest_effect: float = 0.02
    alpha: float = 0.05
    mode: str = "fixed"
    blocks: int = 6
    max_blocks: int = 10
    aa_alpha: float = 0.01
    contemporary_hours: float = 24.0

    @property
    def margin(self) -> float:
        """The smallest effect on the log scale: ratios between 1/(1+s) and 1+s are 'no difference'."""
        return math.log1p(self.smallest_effect)


@dataclass(frozen=True)
class VariantFacts:
    """All that a verdict rests on. p-values are None where nothing could be tested.

    ``p_holm`` is the difference test, adjusted for all variants (and in adaptive mode for all looks);
    ``exact_reachable`` says whether so few blocks can give an exact p as small as alpha at all.
    """

    is_prime: bool = False
    launches: int = 0
    completed: int = 0
    same_cause_failures: int = 0
    failures: int = 0
    cause: str | None = None
    predicted_impossible: str | None = None
    wrong_output: str | None = None
    engagement: str = "unproven"
    confounds: tuple[str, ...] = ()
    stale_pairs: int = 0
    removed: tuple[str, ...] = ()
    blocks: int = 0
    log_ratio: float | None = None
    p_holm: float | None = None
    p_exact: float | None = None
    exact_reachable: bool = False
    equivalence_p: float | None = None
    session_void: tuple[str, ...] = ()


@dataclass(frozen=True)
class Decision:
    """A verdict and why, in sentences for the report."""

    verdict: Verdict
    reasons: tuple[str, ...] = field(default=())


def decide(facts: VariantFacts, design: Design) -> Decision:
    """Return the first verdict that applies; the order is the table in docs/statistics.md."""
    return before_the_numbers(facts, design) or _by_the_numbers(facts, design)


def before_the_numbers(f: VariantFacts, design: Design) -> Decision | None:
    """Return the verdict that no measured speed can change, or None where the numbers decide.

    Only variants for which this is None belong to the family that Holm corrects for: leaving the others out
    does not look at any ratio.
    """
    V = Verdict
    if f.predicted_impossible and not f.launches:
        return Decision(V.DEAD_END, (f"predicted, not tried: {f.predicted_impossible}",))
    if f.launches == 0:
        return Decision(V.PLANNED, ("not launched yet",))
    if f.same_cause_failures >= CONFIRMING_LAUNCHES and f.failures >= f.completed:
        return Decision(V.DEAD_END, (f"{f.same_cause_failures} launches failed with {f.cause}",))
    if not f.completed:
        return Decision(V.INCONCLUSIVE, (f"failed with {f.cause}; a second launch must confirm it",))
    if f.wrong_output:
        return Decision(V.WRONG_OUTPUT, (f.wrong_output,))
    if f.engagement == "not_engaged":
        if f.completed >= CONFIRMING_LAUNCHES:
            return Decision(V.NO_OP, (f"ran {f.completed} times, never engaged",))
        return Decision(V.INCONCLUSIVE, ("did not engage; a second launch must confirm it",))
    if f.confounds:
        return Decision(V.CONFOUNDED, (f"also differs in {', '.join(f.confounds)}: pin or declare it",))
    if f.blocks == 0 and f.stale_pairs:
        return Decision(V.STALE, (f"no baseline within {design.contemporary_hours:g} hours on these GPUs",))
    return None


def _by_the_numbers(f: VariantFacts, design: Design) -> Decision:
    V = Verdict
    if f.session_void:
        return Decision(V.INCONCLUSIVE, f.session_void)
    if f.log_ratio is None or f.blocks < MIN_BLOCKS:
        why = f"; removed: {', '.join(f.removed)}" if f.removed else ""
        usable = f"{f.blocks} usable {'block' if f.blocks == 1 else 'blocks'}"
        return Decision(V.INCONCLUSIVE, (f"{usable}, at least {MIN_BLOCKS} are needed{why}",))
    notes: tuple[str, ...] = ()
    different = f.p_holm is not None and f.p_holm <= design.alpha and not f.is_prime
    if different and f.exact_reachable and (f.p_exact is None or f.p_exact > design.alpha):
        different, notes = False, (*notes, "the exact p does not agree with the t-test")
    if different and abs(f.log_ratio) >= design.margin:
        return Decision(V.WIN if f.log_ratio > 0 else V.LOSS, notes)
    if f.equivalence_p is not None and f.equivalence_p <= design.alpha:
        if f.engagement == "unproven" and not f.is_prime:
            notes = (*notes, "whether the change was active at all is not proven")
        return Decision(V.NO_DIFFERENCE, notes)
    if different:
        return Decision(
            V.INCONCLUSIVE,
            (*notes, "a difference, but not shown to reach or to miss the smallest effect of interest"),
        )
    return Decision(V.INCONCLUSIVE, (*notes, "neither a difference nor equivalence is shown"))
