"""The verdicts, in one table, and the way to one: from what is known about a variant, in a fixed order."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum

from sglang_sweep.statistics.design import MIN_BLOCKS, Design


class Verdict(StrEnum):
    """What can be concluded about a variant; `VERDICTS` says the rest."""

    WIN = "WIN"
    LOSS = "LOSS"
    NO_DIFFERENCE = "NO_DIFFERENCE"
    INCONCLUSIVE = "INCONCLUSIVE"
    UNSTABLE = "UNSTABLE"
    OUTRUN = "OUTRUN"
    CONFOUNDED = "CONFOUNDED"
    STALE = "STALE"
    WRONG_OUTPUT = "WRONG_OUTPUT"
    NO_OP = "NO_OP"
    DEAD_END = "DEAD_END"
    PLANNED = "PLANNED"


@dataclass(frozen=True)
class About:
    """How one variant and how many of a verdict are called, what it means, its sign, and its class of colour.

    Of a ``believed`` verdict the number counts. An arm is launched again after it ``always``, in ``fixed`` mode
    only, or ``never``.
    """

    one: str
    many: str
    meaning: str
    glyph: str
    colour: str
    marker: str
    believed: bool = False
    goes_on: str = "never"


V = Verdict

# fmt: off
VERDICTS: dict[Verdict, About] = {
    V.WIN: About("win", "wins", "better; the estimate is at least the smallest effect", "▲", "win", "^", True, "fixed"),
    V.LOSS: About(
        "loss", "losses", "worse; the estimate is at least the smallest effect", "▼", "loss", "v", True, "fixed"
    ),
    V.NO_DIFFERENCE: About(
        "shown to make no difference", "shown to make no difference",
        "shown to lie within the smallest effect, not merely not significant", "=", "same", "s",
        True, "fixed",
    ),
    V.INCONCLUSIVE: About(
        "still inconclusive", "still inconclusive", "none of these is shown, or something speaks against the mean",
        "?", "open", "o", True, "always",
    ),
    V.UNSTABLE: About(
        "unstable", "unstable",
        "crashes, fails requests or retracts them in some launches, more often than the baseline",
        "~", "doubt", "*", False, "fixed",
    ),
    V.OUTRUN: About("outrun", "outrun", "left behind in a race; nothing is claimed", "»", "open", ">"),
    V.CONFOUNDED: About(
        "confounded", "confounded", "an undeclared setting differs that can move performance", "≠", "doubt", "X"
    ),
    V.STALE: About("stale", "stale", "its baseline is not contemporary", "◷", "old", "D", False, "always"),
    V.WRONG_OUTPUT: About(
        "with wrong output", "with wrong output",
        "its answers differ from the baseline's beyond the tolerance", "!", "doubt", "P"
    ),
    V.NO_OP: About("no-op", "no-ops", "ran, but the change was never active", "∅", "open", "d"),
    V.DEAD_END: About("dead end", "dead ends", "cannot run here, with the cause", "×", "open", "x"),
    V.PLANNED: About("planned", "planned", "not measured yet", "·", "open", ".", False, "always"),
}
# fmt: on
"""In the order of reading: decided, open, not believed, cannot run, still to come."""

CONFIRMING_LAUNCHES = 2
"""A failure, or a change that never engaged, is believed after this many launches that agree."""


SOMETIMES = frozenset({"crashed", "client_hang", "collective_hang", "unknown"})
"""Causes that a server which became ready may meet in one launch and not in the next: no proof that it cannot run."""


@dataclass(frozen=True)
class VariantFacts:
    """All that a verdict rests on. p-values are None where nothing could be tested.

    ``p_holm`` is the difference test, adjusted for all variants (and in adaptive mode for all looks);
    ``exact_reachable`` says whether so few blocks can give an exact p as small as alpha at all. ``baseline_causes``
    are those of a baseline of which no launch completed. With ``failed_serving`` every failure came after the server
    was ready. ``misbehaves`` says what it does to requests more often than the baseline, ``doubts`` what else makes
    its mean no fair comparison, ``notes`` what must be known beside any verdict: sentences all.
    """

    is_prime: bool = False
    launches: int = 0
    completed: int = 0
    same_cause_failures: int = 0
    failures: int = 0
    failed_serving: bool = False
    cause: str | None = None
    baseline_causes: frozenset[str | None] = frozenset()
    predicted_impossible: str | None = None
    wrong_output: str | None = None
    engagement: str = "unproven"
    confounds: tuple[str, ...] = ()
    stale_pairs: int = 0
    removed: tuple[str, ...] = ()
    misbehaves: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    blocks: int = 0
    log_ratio: float | None = None
    p_holm: float | None = None
    p_value: float | None = None
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
    early = before_the_numbers(facts, design)
    if early:
        return early
    shown = _withheld(_by_the_numbers(facts, design), facts)
    return replace(shown, reasons=(*shown.reasons, *facts.notes))


def before_the_numbers(f: VariantFacts, design: Design) -> Decision | None:
    """Return the verdict that no measured speed can change, or None where the numbers decide.

    Only variants for which this is None belong to the family that Holm corrects for: leaving the others out
    does not look at any ratio.
    """
    if f.predicted_impossible and not f.launches:
        return Decision(V.DEAD_END, (f"predicted, not tried: {f.predicted_impossible}",))
    if f.launches == 0:
        return Decision(V.PLANNED, ("not launched yet",))
    if not f.completed:
        if f.cause in f.baseline_causes:
            why = f"failed with {f.cause}, and no baseline ran either: that is the host's or the baseline's, not this"
            return Decision(V.INCONCLUSIVE, (f"{why} change's",))
        if f.same_cause_failures >= CONFIRMING_LAUNCHES:
            verdict = V.UNSTABLE if f.failed_serving and f.cause in SOMETIMES else V.DEAD_END
            return Decision(verdict, (f"{f.same_cause_failures} launches failed with {f.cause}",))
        return Decision(V.INCONCLUSIVE, (f"failed with {f.cause}; a second launch must confirm it",))
    if f.wrong_output:
        return Decision(V.WRONG_OUTPUT, (f.wrong_output,))
    if f.engagement == "not_engaged":
        if f.completed >= CONFIRMING_LAUNCHES:
            return Decision(V.NO_OP, (f"ran {f.completed} times, never engaged",))
        return Decision(V.INCONCLUSIVE, ("did not engage; a second launch must confirm it",))
    if f.confounds:
        return Decision(V.CONFOUNDED, (f"also differs in {', '.join(f.confounds)}: pin or declare it",))
    if f.failures and not f.is_prime:
        share = f"{f.failures} of {f.failures + f.completed} launches failed"
        return Decision(V.UNSTABLE, (f"{share} with {f.cause}", *f.misbehaves))
    if f.blocks == 0 and f.stale_pairs:
        return Decision(V.STALE, (f"no baseline within {design.contemporary_hours:g} hours on these GPUs",))
    return None


def _by_the_numbers(f: VariantFacts, design: Design) -> Decision:
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
    alone = f.p_value is not None and f.p_value <= design.alpha and not f.is_prime and not notes
    if alone:
        return Decision(V.INCONCLUSIVE, ("a difference only if no other variant had been tested",))
    return Decision(V.INCONCLUSIVE, (*notes, "neither a difference nor equivalence is shown"))


def _withheld(shown: Decision, f: VariantFacts) -> Decision:
    """No WIN and no NO_DIFFERENCE of a variant that does worse to requests, or whose mean is no fair comparison."""
    if f.is_prime:
        return shown
    if f.misbehaves:
        if shown.verdict is Verdict.LOSS:
            return Decision(Verdict.LOSS, (*shown.reasons, *f.misbehaves))
        return Decision(Verdict.UNSTABLE, f.misbehaves)
    if f.doubts and shown.verdict in (Verdict.WIN, Verdict.NO_DIFFERENCE):
        return Decision(Verdict.INCONCLUSIVE, f.doubts)
    return Decision(shown.verdict, (*shown.reasons, *f.doubts))
