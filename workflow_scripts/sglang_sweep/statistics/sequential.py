"""p-values and intervals that stay right when one looks after every block, sharing the noise between arms.

Error over looks: `boundary`. Error over arms: each arm's p-value counts its looks, and Holm asks nothing of
its p-values but that each is valid (Maurer and Bretz 2013, "Multiple testing in group sequential trials").

Spread: after three blocks an arm has two degrees of freedom, and a t-test with two wastes most of what was
measured. The noise of a launch is largely that of the host, so every other arm and the A/A' pair say
something about it. Their variance s0^2 enters as d0 more degrees of freedom, the moderated t of Smyth (2004,
doi:10.2202/1544-6115.1027):

s^2 = (d0 s0^2 + (n - 1) s_own^2) / (d0 + n - 1),  t with d0 + n - 1 degrees of freedom

d0 is estimated from how much the arms' variances scatter (`spread.prior`), at most 8; arms far noisier than the
others are left out of s0, so that one bad arm does not blur quiet ones. A noisy arm is judged alone as well: it never
gets less than its own spread; a difference must also convince by the sequential t-test of its own spread, at alpha
without Holm; equivalence also by its own plain TOST; and the interval is never narrower than its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from sglang_sweep.statistics import boundary
from sglang_sweep.statistics.design import Design
from sglang_sweep.statistics.spread import Noise, Ratios, prior, variance_of


@dataclass(frozen=True)
class Look:
    """What was known of an arm after its n-th block: mean log ratio, its standard error, degrees of
    freedom."""

    blocks: int
    mean: float
    error: float
    prior_df: int

    @property
    def df(self) -> int:
        """Degrees of freedom of the t-test at this look."""
        return self.blocks - 1 + self.prior_df

    def p_above(self, bound: float) -> float:
        """Return the one-sided p of 'the true mean log ratio is at most `bound`'."""
        distance = self.mean - bound
        if self.error <= 1e-12 * max(1.0, abs(self.mean)):
            return 0.5 if abs(distance) < 1e-12 else float(distance < 0)
        return float(special.stdtr(self.df, -distance / self.error))

    def p_below(self, bound: float) -> float:
        """Return the one-sided p of 'the true mean log ratio is at least `bound`'."""
        return Look(self.blocks, -self.mean, self.error, self.prior_df).p_above(-bound)


def looks(ratios: Ratios, others: Sequence[Ratios] = ()) -> list[Look]:
    """Return the looks at an arm in the order of its blocks, from the third on.

    ``others`` are the log ratios of the other arms and of A' to A, scaled to the variance of this arm's;
    each look uses what they had shown by the end of its block.
    """
    found = []
    blocks = sorted(ratios)
    for n in range(boundary.FIRST_LOOK, min(len(blocks), boundary.LAST_LOOK) + 1):
        own = np.array([ratios[block] for block in blocks[:n]])
        variance = float(own.var(ddof=1))
        beside = [variance_of(other, blocks[n - 1]) for other in others]
        shared, prior_df = prior(Noise(variance, n - 1), beside)
        if prior_df:
            moderated = (prior_df * shared + (n - 1) * variance) / (prior_df + n - 1)
            variance = max(variance, moderated)
        found.append(Look(n, float(own.mean()), math.sqrt(variance / n), prior_df))
    return found


def sequential_p(history: Sequence[Look]) -> float:
    """Return the two-sided p of 'the true log ratio is zero' over all looks so far; 1 before the first.

    Twice the smaller one-sided p; it never rises as blocks are added.
    """
    up = _crossing(history, [look.p_above(0) for look in history])
    down = _crossing(history, [look.p_below(0) for look in history])
    return min(1.0, 2.0 * min(up, down))


def sequential_tost_p(history: Sequence[Look], margin: float) -> float:
    """Return the p of 'the true log ratio is not within +-margin' over all looks so far.

    A wrong claim needs the one test whose null is true to reject at some look, so there being two asks no
    correction.
    """
    above = _crossing(history, [look.p_above(-margin) for look in history])
    below = _crossing(history, [look.p_below(margin) for look in history])
    return max(above, below)


def repeated_interval(history: Sequence[Look], confidence: float = 0.95) -> tuple[float, float] | None:
    """Return the interval of the log ratio that holds over all looks at once (Jennison and Turnbull 1989).

    Wider than the fixed interval, and right whenever one stops. None before the first look.
    """
    if not history:
        return None
    last = history[-1]
    level = boundary.look_level(last.blocks, (1 - confidence) / 2, _prior_df(history))
    half = -float(special.stdtrit(last.df, level)) * last.error
    return last.mean - half, last.mean + half


def levels(n: int, design: Design, undecided: int) -> tuple[float, float]:
    """Return at n blocks the two-sided level of one difference test and the one-sided level of equivalence.

    Holm lets the strongest of the undecided variants use at least alpha divided by their number.
    """
    if not design.adaptive:
        return design.alpha / undecided, design.alpha
    prior = boundary.PRIOR_DF
    return 2 * boundary.look_level(n, design.alpha / undecided / 2, prior), boundary.look_level(
        n, design.alpha, prior
    )


def _crossing(history: Sequence[Look], p_values: Sequence[float]) -> float:
    ratios = [p / boundary.weight(look.blocks) for look, p in zip(history, p_values, strict=True)]
    return boundary.crossing(min(ratios), _prior_df(history)) if ratios else 1.0


def _prior_df(history: Sequence[Look]) -> int:
    """The fewest any look had: the table for it is the larger, so a mixture errs on the safe side."""
    return min(look.prior_df for look in history)
