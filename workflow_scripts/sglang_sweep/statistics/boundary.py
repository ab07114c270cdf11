"""The error of looking after every block: exact, for t-tests of unknown variance, from the third block on.

At look n the one-sided t-test gives a p-value p_n. The test may reject at any look whose p_n <= w_n x, with
fixed weights w. `crossing(x)` is the chance that this ever happens by `LAST_LOOK` when nothing is there,
computed exactly, so that crossing(min over looks of p_n / w_n) is itself a p-value: valid whenever one
stops, for whatever reason (the group-sequential idea of Lan and DeMets 1983, as the sequential p-value of
Liu and Anderson 2008). Since the weights do not depend on the number of blocks a campaign declares, blocks
may be added later.

Why it is exact: for normal noise the direction of the data vector does not depend on its length, so the
cosine v_n between the data and (1, ..., 1), of which t_n is a function, is a Markov chain free of the
variance: v_{n+1} sqrt(n+1) = sqrt(n) v_n cos(a) + sin(a), with the angle a of density proportional to
cos(a)^(n-1). The chance of crossing is a backward recursion over it (cf. Jennison and Turnbull 1991, "Exact
calculations for sequential t, chi-squared and F tests", Biometrika 78).
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import interpolate, optimize, special, stats

FIRST_LOOK = 3
LAST_LOOK = 40


def weight(n: int) -> float:
    """Return the share of the error that look n may spend, relative to the other looks."""
    return 1.0 if FIRST_LOOK <= n <= LAST_LOOK else 0.0


@lru_cache(maxsize=4096)
def crossing(x: float, nodes: int = 200, points: int = 40) -> float:
    """Return the chance, when nothing is there, of any look with one-sided p_n <= weight(n) x."""
    if x <= 0:
        return 0.0
    if x >= 1 / max(weight(n) for n in range(FIRST_LOOK, LAST_LOOK + 1)):
        return 1.0
    stay: interpolate.CubicSpline | None = None
    for n in range(LAST_LOOK - 1, FIRST_LOOK - 2, -1):
        stay = _one_look_earlier(stay, n, x, nodes, points)
    # Two values point anywhere on the circle with equal chance: v_2 is the cosine of a uniform angle.
    angles = (np.arange(4000) + 0.5) / 4000 * np.pi
    assert stay is not None
    return min(1.0, max(0.0, 1.0 - float(np.mean(stay(angles)))))


@lru_cache(maxsize=256)
def limit(level: float) -> float:
    """Return the x at which `crossing` is `level`: the p-value that look n must reach is weight(n) times
    it."""
    return float(math.exp(optimize.brentq(lambda y: crossing(math.exp(y)) - level, math.log(level) - 6, 0.0)))


def look_level(n: int, level: float) -> float:
    """Return the one-sided p that a t-test at n blocks must reach, so that all looks together err with
    `level`."""
    return weight(n) * limit(level)


def _edge(n: int, x: float) -> float:
    """Angle below which look n rejects: the cosine v of it is the t-statistic t / sqrt(t^2 + n - 1)."""
    p = min(weight(n) * x, 1 - 1e-12) if n >= FIRST_LOOK else 0.0
    return math.atan2(math.sqrt(n - 1), float(stats.t.isf(p, n - 1))) if p > 0 else 0.0


def _one_look_earlier(
    later: interpolate.CubicSpline | None, n: int, x: float, nodes: int, points: int
) -> interpolate.CubicSpline:
    """Return, for each angle at look n, the chance of no rejection at any later look (`later` is that of n
    + 1)."""
    chebyshev = np.concatenate([[0.0], (1 - np.cos(np.pi * (np.arange(nodes) + 0.5) / nodes)) / 2, [1.0]])
    angle = _edge(n, x) + (np.pi - _edge(n, x)) * chebyshev
    v = np.cos(angle)
    # v_{n+1} as a function of the new angle a is size * cos(a - top); rejecting means |a - top| < half.
    size, top = np.sqrt((n * v * v + 1) / (n + 1)), np.arctan2(1.0, math.sqrt(n) * v)
    half = np.arccos(np.clip(math.cos(_edge(n + 1, x)) / size, -1, 1))
    below = np.clip(top - half, -np.pi / 2, np.pi / 2), np.clip(top + half, -np.pi / 2, np.pi / 2)
    ends = np.full_like(v, -np.pi / 2), np.full_like(v, np.pi / 2)
    x_gauss, w_gauss = np.polynomial.legendre.leggauss(points)
    scale = math.exp(special.gammaln((n + 1) / 2) - special.gammaln(n / 2)) / math.sqrt(math.pi)
    chance: NDArray[np.float64] = np.zeros_like(v)
    for start, stop in ((ends[0], below[0]), (below[1], ends[1])):
        a = (start + stop)[:, None] / 2 + (stop - start)[:, None] / 2 * x_gauss
        then = (
            1.0
            if later is None
            else later(np.arccos(np.clip(size[:, None] * np.cos(a - top[:, None]), -1, 1)))
        )
        chance += (stop - start) / 2 * np.sum(scale * np.cos(a) ** (n - 1) * then * w_gauss, axis=1)
    return interpolate.CubicSpline(angle, chance)
