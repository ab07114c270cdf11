"""Per-block log ratios to the baseline, and what they say: ratio, interval, p-values, equivalence.

The unit is a launch. A block holds one launch of each variant and two of the baseline, A and A'. A variant
is compared with the mean of log A and log A' of its own block: drift between blocks cancels, and the
variance of a ratio is 1.5 launch variances instead of the 2 of a comparison with A alone, a quarter fewer
blocks for the same power. The contrast log A' - log A is uncorrelated with that mean, so the A/A' check and
the comparisons do not lean on each other, and exchanging A and A' changes only the sign of the A/A' row.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from sglang_sweep.statistics.sign_flip import exact_p

Values = Mapping[str, Mapping[int, float]]
"""Positive value of each arm (outer key) in each block (inner key); a missing launch is a missing key."""


@dataclass(frozen=True)
class Comparison:
    """One arm against the baseline on log ratios, oriented so that a ratio above 1 is better.

    ``ratio`` and ``ci95`` are plain ratios; ``p_value`` (paired t, two-sided), ``p_exact`` and
    ``equivalence_p`` are None below two blocks, where nothing can be tested.
    """

    blocks: int
    log_ratio: float
    sd: float | None
    ratio: float
    ci95: tuple[float, float] | None
    p_value: float | None
    p_exact: float | None
    equivalence_p: float | None


def block_logs(values: Values, arm: str, others: Sequence[str]) -> dict[int, list[float]]:
    """Return, by block, the log of the arm's value followed by those of the baseline launches it is set
    against: ``others`` that are there. Blocks without the arm or without a baseline are left out.
    """
    logs: dict[int, list[float]] = {}
    for block, value in sorted(values.get(arm, {}).items()):
        beside = [values[other][block] for other in others if block in values.get(other, {})]
        if beside:
            logs[block] = [math.log(x) for x in (value, *beside)]
    return logs


def log_ratios(logs: Mapping[int, Sequence[float]]) -> dict[int, float]:
    """Return, by block, the log ratio of the first launch to the geometric mean of the others."""
    return {block: row[0] - sum(row[1:]) / len(row[1:]) for block, row in logs.items()}


def compare(
    logs: Mapping[int, Sequence[float]], margin: float, confidence: float = 0.95
) -> Comparison | None:
    """Compare an arm with its baseline over blocks (see `block_logs`); None without a single block.

    ``margin`` is the smallest effect of interest on the log scale. The order of blocks does not matter.
    """
    d = np.array(list(log_ratios(logs).values()))
    if d.size == 0:
        return None
    mean = float(d.mean())
    if d.size == 1:
        return Comparison(1, mean, None, math.exp(mean), None, None, None, None)
    sd = float(d.std(ddof=1))
    half = float(special.stdtrit(d.size - 1, 0.5 + confidence / 2)) * sd / math.sqrt(d.size)
    return Comparison(
        blocks=int(d.size),
        log_ratio=mean,
        sd=sd,
        ratio=math.exp(mean),
        ci95=(math.exp(mean - half), math.exp(mean + half)),
        p_value=t_p(mean, sd, d.size),
        p_exact=exact_p(list(logs.values())),
        equivalence_p=tost_p(mean, sd, d.size, margin),
    )


def t_p(mean: float, sd: float, n: int) -> float:
    """Return the two-sided p of the one-sample t-test that the mean of n log ratios is zero."""
    return min(1.0, 2.0 * one_sided_p(abs(mean), sd, n))


def one_sided_p(mean: float, sd: float, n: int) -> float:
    """Return the p of the t-test against 'the mean is at most zero'; without any spread, 0, 0.5 or 1."""
    if sd <= 1e-12 * max(1.0, abs(mean)):
        return 0.5 if abs(mean) < 1e-12 else float(mean < 0)
    return float(special.stdtr(n - 1, -mean * math.sqrt(n) / sd))


def tost_p(mean: float, sd: float, n: int, margin: float) -> float:
    """Return the p of two one-sided t-tests (Schuirmann 1987): small means |true log ratio| < margin.

    p <= 0.05 is the same statement as 'the 90 % interval lies within +-margin'.
    """
    return max(one_sided_p(margin + mean, sd, n), one_sided_p(margin - mean, sd, n))
