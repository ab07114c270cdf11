"""How noisy launches are: over all arms, of one arm against the others, and from window to window.

The unit is one launch's variance on the log scale. One bad arm must not blur quiet ones, so an arm far noisier than
the rest is left out where noise is shared, and its own is all it is judged by.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median, median_low

import numpy as np
from scipy import special, stats

from sglang_sweep.statistics.boundary import PRIOR_DF, PRIOR_DFS
from sglang_sweep.statistics.launches import Key, Measured

Ratios = Mapping[int, float]
"""Log ratio of an arm by block."""

FAR_NOISIER = 0.005
"""An arm is judged alone when, of arms that are alike, one in so many would be as noisy by chance."""

OUTLYING = 0.005
"""The same for a launch that lies apart from its arm's others."""


@dataclass(frozen=True)
class Noise:
    """A variance on the log scale and its degrees of freedom; 0 of them where nothing is known."""

    variance: float
    df: int

    @property
    def sd(self) -> float:
        """Standard deviation; 0.01 is 1 %."""
        return math.sqrt(self.variance)


def variance_of(ratios: Ratios, last_block: int | None = None) -> Noise:
    """Return the variance of an arm's log ratios about their mean, up to a block."""
    d = np.array([x for block, x in ratios.items() if last_block is None or block <= last_block])
    return Noise(float(d.var(ddof=1)), d.size - 1) if d.size > 1 else Noise(0.0, 0)


def alike(arms: Sequence[Noise]) -> list[bool]:
    """Return which arms are not far noisier than the median one (an F test); those without a variance are not."""
    known = [a for a in arms if a.df > 0]
    if not known:
        return [False] * len(arms)
    # The lower median, so that of two arms the quiet one is the measure; made unbiased for chi-squared noise.
    middle = median_low(a.variance for a in known)
    usual = middle / float(special.chdtri(median_low(a.df for a in known), 0.5)) * median(a.df for a in known)
    total = max(1, sum(a.df for a in known) // 2)
    return [a.df > 0 and a.variance <= usual * special.fdtri(a.df, total, 1 - FAR_NOISIER) for a in arms]


def pooled(arms: Sequence[Noise]) -> Noise:
    """Return the noise of arms that are alike, together; those far noisier are left out."""
    kept = [a for a, ok in zip(arms, alike(arms), strict=True) if ok]
    df = sum(a.df for a in kept)
    return Noise(sum(a.variance * a.df for a in kept) / df if df else 0.0, df)


def prior(own: Noise, others: Sequence[Noise]) -> tuple[float, int]:
    """Return what the other arms say of an arm's variance, and how many degrees of freedom that is worth.

    Empirical Bayes (Smyth 2004, doi:10.2202/1544-6115.1027, section 6.2): the prior's degrees of freedom are the
    less, the more the arms' variances scatter beyond what chance does to them, by the moments of their logarithms.
    Arms far noisier are left out first, in the spirit of Phipson et al. 2016 (doi:10.1214/16-AOAS920). Rounded down
    to `boundary.PRIOR_DFS`.
    """
    _, *ok = alike([own, *others])
    kept = [a for a, fits in zip(others, ok, strict=True) if fits]
    df = sum(a.df for a in kept)
    if df < 2:
        return 0.0, 0
    variance = sum(a.variance * a.df for a in kept) / df
    seen = [a for a in kept if a.variance > 0]
    if len(seen) < 3:  # too few to see them scatter
        return variance, PRIOR_DF
    half = np.array([a.df / 2 for a in seen])
    logs = np.log([a.variance for a in seen]) - special.digamma(half) + np.log(half)
    excess = float(np.var(logs, ddof=1) - np.mean(special.polygamma(1, half)))
    # trigamma(d0 / 2) is the excess: as many degrees of freedom as have at least that scatter.
    worth = max((d for d in PRIOR_DFS if d and special.polygamma(1, d / 2) >= excess), default=0)
    return variance, worth


def outlying(logs: Mapping[str, Ratios], arm: str, noise: Noise, margin: float) -> dict[int, float]:
    """Return the launches of an arm that lie apart from its others, as log distance by block.

    ``logs`` hold the log value of every arm by block. What a block does to all of its arms is taken out first (its
    median residual), which needs three arms in it. ``noise`` is that of a launch, without this arm's own.
    """
    mine = logs[arm]
    if len(mine) < 3 or noise.df < 2:
        return {}
    centre = {name: median(values.values()) for name, values in logs.items() if values}
    found, least = {}, float(stats.t.isf(OUTLYING / len(mine), noise.df)) * noise.sd * math.sqrt(1.5)
    for block, value in mine.items():
        residuals = [logs[name][block] - centre[name] for name in centre if block in logs[name]]
        apart = value - centre[arm] - median(residuals)
        if len(residuals) >= 3 and abs(apart) > max(margin, least):
            found[block] = apart
    return found


@dataclass(frozen=True)
class Components:
    """Variances on the log scale: of a launch beyond its windows, and of one window of ``window_s`` seconds."""

    launch: float
    window: float
    window_s: float
    windows: int
    df: int

    def of_launch(self, seconds: float) -> float:
        """Variance of a launch that is timed for so many seconds, in windows of whatever length."""
        return self.launch + self.window * self.window_s / seconds


def window_noise(launches: Sequence[Measured], key: Key) -> Noise:
    """Return the variance of the log of one window of an arm about its launch and its index.

    Windows of one index hold the same prompts, so what an index does to all launches is taken out (two-way analysis
    of variance without replication).
    """
    rows = [m.values[key] for m in launches if m.values.get(key) and min(m.values[key].values()) > 0]
    common = sorted(set.intersection(*(set(row) for row in rows))) if rows else []
    if len(rows) < 2 or len(common) < 2:
        return Noise(0.0, 0)
    x = np.log([[row[index] for index in common] for row in rows])
    residual = x - x.mean(axis=1, keepdims=True) - x.mean(axis=0) + x.mean()
    df = (x.shape[0] - 1) * (x.shape[1] - 1)
    return Noise(float((residual**2).sum()) / df, df)
