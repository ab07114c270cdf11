"""What a number of blocks can show, from the noise measured so far, and what it costs to show more.

All effects and spreads are on the log scale; ``sd`` is that of a per-block log ratio. With A and A' in each
block sd = sqrt(1.5) x launch sd. ``level`` is the two-sided level of the difference test: alpha divided by
the variants still in play, a lower bound of what Holm allows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import optimize, stats

MOST_BLOCKS = 200
"""Nobody runs more; a search that passes it answers None."""

Levels = Callable[[int], tuple[float, float]]
"""At n blocks, the two-sided level of the difference test and the one-sided level of the equivalence test."""


def ratio_sd(launch_sd: float, baselines: int = 2) -> float:
    """Return the sd of a per-block log ratio to the mean of so many baseline launches."""
    return launch_sd * math.sqrt(1 + 1 / baselines)


def best_baselines(variants: int) -> int:
    """Return how many launches of the baseline a block should have: about the root of the number of variants makes
    (variants + m) (1 + 1/m), launches times variance, least (Dunnett 1955, doi:10.1080/01621459.1955.10501294)."""
    return max(2, round(math.sqrt(variants)))


def t_power(effect: float, sd: float, n: int, level: float, prior_df: int = 0) -> float:
    """Return the power of the two-sided paired t-test for a true mean log ratio (noncentral t)."""
    if n < 2 or sd <= 0:
        return 0.0 if n < 2 else float(effect != 0)
    df, shift = n - 1 + prior_df, effect * math.sqrt(n) / sd
    critical = stats.t.ppf(1 - level / 2, df)
    upper, lower = stats.nct.sf(critical, df, shift), stats.nct.cdf(-critical, df, shift)
    return float(np.nan_to_num(upper) + np.nan_to_num(lower))


def tost_power(effect: float, sd: float, n: int, margin: float, level: float = 0.05) -> float:
    """Return the chance that the (1 - 2 level) interval lies within +-margin (Phillips 1990), by
    quadrature.

    Given the estimated spread, the mean must fall in an interval of known width; that chance is averaged
    over the chi distribution of the spread.
    """
    if n < 2 or sd <= 0:
        return 0.0 if n < 2 else float(abs(effect) < margin)
    grid = (np.arange(400) + 0.5) / 400
    spread = sd * np.sqrt(stats.chi2.ppf(grid, n - 1) / (n - 1))
    se = sd / math.sqrt(n)
    room = np.maximum(margin - stats.t.ppf(1 - level, n - 1) * spread / math.sqrt(n), 0)
    inside = stats.norm.cdf((room - effect) / se) - stats.norm.cdf((-room - effect) / se)
    return float(inside.mean())


def detectable_effect(sd: float, n: int, level: float, power: float = 0.8, prior_df: int = 0) -> float | None:
    """Return the relative effect (0.02 is 2 %) found with this power at n blocks; None below two blocks."""
    if n < 2 or sd <= 0 or level <= 0:
        return None
    high = sd
    while t_power(high, sd, n, level, prior_df) < power:
        high *= 2
    return math.expm1(optimize.brentq(lambda e: t_power(e, sd, n, level, prior_df) - power, 0.0, high))


def settling_chance(effect: float, sd: float, n: int, margin: float, levels: tuple[float, float]) -> float:
    """Return a lower bound of the chance that n blocks end in WIN, LOSS or NO_DIFFERENCE if `effect` is
    true.

    WIN and LOSS need significance and an estimate of at least the margin; Bonferroni's inequality joins the
    two.
    """
    difference, equivalence = levels
    if sd <= 0:
        return 1.0
    beyond = float(stats.norm.sf((margin - abs(effect)) * math.sqrt(n) / sd))
    decided = max(0.0, t_power(effect, sd, n, difference) + beyond - 1)
    return max(decided, tost_power(effect, sd, n, margin, equivalence))


def remaining_chance(
    mean: float, sd: float, n: int, total: int, margin: float, levels: tuple[float, float], df: int
) -> float:
    """Return the chance that an arm is settled at `total` blocks, given its mean and spread after n.

    Predictive: the final mean scatters about the present one with variance sd^2 (1/n - 1/total). ``levels``
    and the degrees of freedom ``df`` are those of the test at `total`.
    """
    to_come, error = sd * math.sqrt(1 / n - 1 / total), sd / math.sqrt(total)
    if to_come <= 0:
        return 0.0
    room = max(0.0, margin - float(stats.t.isf(levels[1], df)) * error)
    needed = max(margin, float(stats.t.isf(levels[0] / 2, df)) * error)
    inside = stats.norm.cdf((room - mean) / to_come) - stats.norm.cdf((-room - mean) / to_come)
    outside = stats.norm.sf((needed - mean) / to_come) + stats.norm.cdf((-needed - mean) / to_come)
    return float(inside + outside)


def more_blocks(
    effect: float,
    sd: float,
    n: int,
    margin: float,
    levels: Levels,
    chance: float = 0.8,
    most: int = MOST_BLOCKS,
) -> int | None:
    """Return how many further blocks settle a verdict with this chance, taking the estimate for the truth.

    None where the estimate is so near the smallest effect itself that no sensible number would.
    """
    for total in range(max(n + 1, 3), most + 1):
        if settling_chance(effect, sd, total, margin, levels(total)) >= chance:
            return total - n
    return None


@dataclass(frozen=True)
class Plan:
    """What a wanted effect costs: ``minutes`` is None where no launch has been timed yet."""

    blocks: int
    launches: int
    minutes: float | None


def blocks_for(effect: float, sd: float, level: float, power: float = 0.8) -> int | None:
    """Return the blocks that find a relative effect with this power; None above `MOST_BLOCKS`."""
    log_effect = math.log1p(effect)
    for n in range(3, MOST_BLOCKS + 1):
        if t_power(log_effect, sd, n, level) >= power:
            return n
    return None


def plan_for(
    effect: float,
    launch_sd: float,
    variants: int,
    alpha: float = 0.05,
    minutes_per_launch: float | None = None,
    baselines: int = 2,
) -> Plan | None:
    """Return blocks, launches and minutes to find a relative effect among so many variants beside so many launches of
    the baseline in a block."""
    blocks = blocks_for(effect, ratio_sd(launch_sd, baselines), alpha / max(variants, 1))
    if blocks is None:
        return None
    launches = blocks * (variants + baselines)
    return Plan(blocks, launches, None if minutes_per_launch is None else launches * minutes_per_launch)
