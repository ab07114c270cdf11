"""Exact within-block permutation p: no normal distribution needed, only that the order was random.

If a variant changes nothing, any launch of a block might have been called the variant, whatever drift or
outlier hit the block, because the order within it was drawn at random (Fisher 1935, Pitman 1937; Edgington
and Onghena, Randomization Tests, 2007). With one baseline launch in a block that is the sign-flip test, 2^n
labellings. With A and A' it is 3^n, so four blocks instead of six can reach 0.05, and unlike a sign flip of
'variant minus mean of two' it stays exact when the noise is skewed (a rare slow launch).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

MOST_LABELLINGS = 1 << 20
"""Above this many labellings (20 blocks of two launches, 12 of three) a seeded random sample of them is
used."""


def exact_p(blocks: Sequence[Sequence[float]]) -> float:
    """Return the two-sided p of the sum over blocks of 'first launch minus mean of the others'.

    ``blocks`` holds log values; the first of each block is the arm under test, the one or more others are
    baseline launches. Two-sided is twice the smaller tail: with |sum| instead, one slow baseline launch
    would make labellings on the other side count against a variant that was best in every block.
    """
    choices = [_contrasts(block) for block in blocks]
    observed = sum(float(c[0]) for c in choices)
    tolerance = 1e-9 * (1.0 + abs(observed))
    if labellings(blocks) <= MOST_LABELLINGS:
        sums: NDArray[np.float64] = np.zeros(1)
        for choice in choices:
            sums = (sums[:, None] + choice[None, :]).ravel()
        above = float(np.mean(sums >= observed - tolerance))
        below = float(np.mean(sums <= observed + tolerance))
        return min(1.0, 2.0 * min(above, below))
    rng = np.random.default_rng(0)  # the same data always give the same p
    draws = 200_000
    sums = np.sum([rng.choice(choice, size=draws) for choice in choices], axis=0)
    above, below = int(np.sum(sums >= observed - tolerance)), int(np.sum(sums <= observed + tolerance))
    return min(1.0, 2.0 * (1 + min(above, below)) / (1 + draws))


def smallest_p(blocks: Sequence[Sequence[float]]) -> float:
    """Return the smallest p that so many launches in so many blocks can give: 2/2^n for pairs, 2/3^n with
    A'."""
    return min(1.0, 2.0 / labellings(blocks))


def labellings(blocks: Sequence[Sequence[float]]) -> int:
    """Return in how many ways one launch per block can be called the variant."""
    count = 1
    for block in blocks:
        count *= len(block)
    return count


def _contrasts(block: Sequence[float]) -> NDArray[np.float64]:
    x = np.asarray(block, dtype=float)
    return (x - (x.sum() - x) / (x.size - 1)).astype(np.float64)
