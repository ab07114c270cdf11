"""p-values and intervals that stay right when one looks after every block, and which arms may stop.

See `boundary` for the theory. Each arm gets one p-value that counts its looks; Holm across arms then counts
the arms, because Holm asks nothing of its p-values but that each is valid (Liu and Anderson 2008; Maurer
and Bretz 2013).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from scipy import stats

from sglang_sweep.statistics import boundary
from sglang_sweep.statistics.ratios import one_sided_p
from sglang_sweep.statistics.verdict import Design


def sequential_p(log_ratios: Sequence[float]) -> float:
    """Return the two-sided p of 'the mean log ratio is zero' over all looks so far; 1 below three blocks.

    The smaller of the two one-sided p-values, doubled: it never rises as blocks are added.
    """
    up = min((one_sided_p(m, s, n) / boundary.weight(n) for n, m, s in _looks(log_ratios)), default=1.0)
    down = min((one_sided_p(-m, s, n) / boundary.weight(n) for n, m, s in _looks(log_ratios)), default=1.0)
    return min(1.0, 2.0 * boundary.crossing(min(up, down)))


def sequential_tost_p(log_ratios: Sequence[float], margin: float) -> float:
    """Return the p of 'the true log ratio is not within +-margin' over all looks so far.

    A wrong claim needs the one test whose null is true to reject at some look, so no further correction
    is due for there being two.
    """
    above = min(
        (one_sided_p(margin + m, s, n) / boundary.weight(n) for n, m, s in _looks(log_ratios)), default=1.0
    )
    below = min(
        (one_sided_p(margin - m, s, n) / boundary.weight(n) for n, m, s in _looks(log_ratios)), default=1.0
    )
    return boundary.crossing(min(1.0, max(above, below)))


def repeated_interval(log_ratios: Sequence[float], confidence: float = 0.95) -> tuple[float, float] | None:
    """Return the interval of the mean log ratio that holds over all looks at once (Jennison and Turnbull
    1989).

    Wider than the fixed interval, and right whenever one stops. None before the first look.
    """
    looks = list(_looks(log_ratios))
    if not looks:
        return None
    n, mean, sd = looks[-1]
    half = float(stats.t.isf(boundary.look_level(n, (1 - confidence) / 2), n - 1)) * sd / math.sqrt(n)
    return mean - half, mean + half


def _looks(log_ratios: Sequence[float]) -> Iterator[tuple[int, float, float]]:
    """Yield blocks, mean and sd at each look, in the order in which the blocks were measured."""
    d = np.asarray(log_ratios, dtype=float)
    for n in range(boundary.FIRST_LOOK, min(d.size, boundary.LAST_LOOK) + 1):
        yield n, float(d[:n].mean()), float(d[:n].std(ddof=1))


def levels(n: int, design: Design, undecided: int) -> tuple[float, float]:
    """Return at n blocks the two-sided level of one difference test and the one-sided level of equivalence.

    Holm lets the strongest of the undecided variants use at least alpha divided by their number.
    """
    if design.mode != "adaptive":
        return design.alpha / undecided, design.alpha
    return 2 * boundary.look_level(n, design.alpha / undecided / 2), boundary.look_level(n, design.alpha)
