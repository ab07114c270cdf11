"""Exact within-block permutation p: no normal distribution needed, only that the order was random.

If a variant changes nothing, any launch of a block might have been called the variant, whatever drift or
outlier hit the block, because the order within it was drawn at random (Fisher 1935, Pitman 1937; Edgington
and Onghena, Randomization Tests, 2007). With one baseline launch in a block that is the sign-flip test, 2^n
labellings. With A and A' it is 3^n, so four blocks instead of six can reach 0.05, and unlike a sign flip of
'variant minus mean of two' it stays exact when the noise is skewed (a rare slow launch).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

MOST_LABELLINGS = 1 << 40
"""Above this many labellings (40 blocks of two launches, 25 of three) a seeded random sample of them is
used."""

Array = NDArray[np.float64]


def exact_p(blocks: Sequence[Sequence[float]]) -> float:
    """Return the two-sided p of the sum over blocks of 'first launch minus mean of the others'.

    ``blocks`` holds log values; the first of each block is the arm under test, the one or more others are
    baseline launches. Two-sided is twice the smaller tail: with |sum| instead, one slow baseline launch
    would make labellings on the other side count against a variant that was best in every block.
    """
    choices = [_contrasts(block) for block in blocks]
    observed = sum(float(choice[0]) for choice in choices)
    tolerance = 1e-9 * (1.0 + abs(observed))
    if labellings(blocks) > MOST_LABELLINGS:
        rng = np.random.default_rng(0)  # the same data always give the same p
        sums = np.sum([rng.choice(choice, size=200_000) for choice in choices], axis=0)
        above, below = int((sums >= observed - tolerance).sum()), int((sums <= observed + tolerance).sum())
        return min(1.0, 2.0 * (1 + min(above, below)) / (1 + sums.size))
    # All sums are those of one half of the blocks plus those of the other: count pairs without listing them.
    left, right = _all_sums(choices[::2]), np.sort(_all_sums(choices[1::2]))
    above = int((right.size - np.searchsorted(right, observed - tolerance - left, side="left")).sum())
    below = int(np.searchsorted(right, observed + tolerance - left, side="right").sum())
    return min(1.0, 2.0 * min(above, below) / (left.size * right.size))


def smallest_p(blocks: Sequence[Sequence[float]]) -> float:
    """Return the least p that so many launches in so many blocks can give: 2/2^n for pairs, 2/3^n with A'."""
    return min(1.0, 2.0 / labellings(blocks))


def labellings(blocks: Sequence[Sequence[float]]) -> int:
    """Return in how many ways one launch per block can be called the variant."""
    return math.prod(len(block) for block in blocks)


def _contrasts(block: Sequence[float]) -> Array:
    x = np.asarray(block, dtype=float)
    return np.asarray(x - (x.sum() - x) / (x.size - 1), dtype=float)


def _all_sums(choices: Sequence[Array]) -> Array:
    sums = np.zeros(1)
    for choice in choices:
        sums = (sums[:, None] + choice[None, :]).ravel()
    return sums
