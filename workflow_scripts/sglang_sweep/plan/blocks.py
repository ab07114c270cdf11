"""The order of launches within each block: random from the campaign's seed, balanced for position over
blocks.

A Williams design (Williams 1949): over one cycle of blocks every arm stands once in every position and
follows every other arm equally often, so neither the place in a block nor what ran before favours an arm.
Its rows come in mirrored pairs, which are given to neighbouring blocks: after every second block a linear
drift has cancelled already (ABBA). Which arm plays which part, the order of the pairs, and which of a pair
comes first are random; each single block is therefore a uniformly random order.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence


def order(arms: Sequence[str], block: int, seed: int) -> list[str]:
    """Return the arms in the order in which block number `block` (the first is 1) launches them.

    Depends on the set of arms, not on how it is sorted, and on nothing else but block and seed: the same on
    every machine and Python.
    """
    if len(set(arms)) != len(arms):
        raise ValueError(f"an arm is named twice: {sorted(arms)}")
    rows_in_cycle = cycle_length(len(arms))
    cycle, row = divmod(block - 1, rows_in_cycle)
    draw = _generator(seed, cycle, sorted(arms))
    # Sorting by draws of random() is reproducible on every Python; shuffle() promises less.
    parts = sorted(sorted(arms), key=lambda _: draw.random())
    pairs = sorted(mirrored_pairs(len(arms)), key=lambda _: draw.random())
    rows = [r for pair in pairs for r in (pair if draw.random() < 0.5 else pair[::-1])]
    return [parts[part] for part in rows[row]]


def cycle_length(arms: int) -> int:
    """Return after how many blocks position and succession are balanced: m for even m, 2m for odd."""
    return arms if arms % 2 == 0 else 2 * arms


def mirrored_pairs(arms: int) -> list[tuple[list[int], list[int]]]:
    """Return the rows of a Williams design as pairs (row, the same row backwards).

    The first row zigzags 0, 1, m-1, 2, m-2, ..., the others add 1, 2, ... to it. For even m the mirror of a
    row is itself a row of the square, m/2 further; for odd m it is not, and doubles the design.
    """
    zigzag = [0] + [step // 2 + 1 if step % 2 == 0 else arms - step // 2 - 1 for step in range(arms - 1)]
    shifts = arms // 2 if arms % 2 == 0 else arms
    rows = [[(part + shift) % arms for part in zigzag] for shift in range(shifts)]
    return [(row, row[::-1]) for row in rows]


def _generator(seed: int, cycle: int, arms: Sequence[str]) -> random.Random:
    """Seeded by a digest, since hash() differs between processes."""
    digest = hashlib.sha256(repr((seed, cycle, list(arms))).encode()).digest()
    return random.Random(int.from_bytes(digest[:8], "big"))
