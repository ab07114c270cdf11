"""Block bootstrap over launches, for quantities whose noise is far from normal: tail latency, accept
length."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy import stats

RESAMPLES = 10_000


def block_bootstrap(
    log_ratios: Sequence[float], confidence: float = 0.95, seed: int = 0
) -> tuple[float, float] | None:
    """Return the interval of the geometric-mean ratio from resampled blocks; None below three blocks.

    A block is drawn with its variant and its baselines together, so that what they share stays shared. The
    percentile interval is too narrow for few blocks; its level is expanded as Hesterberg advises ("What
    teachers should know about the bootstrap", 2015, section 5.1): Phi(-sqrt(n/(n-1)) t) instead of alpha/2.
    """
    d = np.asarray(log_ratios, dtype=float)
    n = d.size
    if n < 3:
        return None
    if np.ptp(d) == 0:
        return math.exp(d[0]), math.exp(d[0])
    t = stats.t.ppf(0.5 + confidence / 2, n - 1)
    tail = float(stats.norm.cdf(-math.sqrt(n / (n - 1)) * t))
    rng = np.random.default_rng(seed)
    means = d[rng.integers(0, n, size=(RESAMPLES, n))].mean(axis=1)
    low, high = np.quantile(means, [tail, 1 - tail])
    return math.exp(low), math.exp(high)
