"""The error of looking after every block: exact, for t-tests with unknown variance, from the third block
on.

At look n a one-sided t-test gives a p-value p_n. The rule may reject at any look whose p_n <= weight(n) x.
`crossing(x)` is the chance that this ever happens by `LAST_LOOK` when nothing is there, so that
crossing(min over looks of p_n / weight(n)) is itself a p-value: valid whenever one stops, for whatever
reason (alpha spending, Lan and DeMets 1983, turned into a sequential p-value as by Liu and Anderson 2008).
The weights do not depend on how many blocks a campaign declares, so blocks may be added after an
INCONCLUSIVE verdict.

The variance may lean on ``prior_df`` degrees of freedom known from elsewhere (see `sequential`). For normal
noise the direction of the data, that earlier knowledge included, does not depend on their length. So the
cosine v_n between n values and (1, ..., 1), of which t_n is a function, is a Markov chain free of the
variance:

v_{n+1} sqrt(n+1) = sqrt(n) v_n cos(a) + sin(a),  density of the angle a ~ cos(a)^(n + prior_df - 1)

and the chance of crossing is a backward recursion over it (compare Jennison and Turnbull 1991, "Exact
calculations for sequential t, chi-squared and F tests", Biometrika 78).
"""

from __future__ import annotations

import json
import math
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import interpolate, optimize, special, stats

FIRST_LOOK = 3
LAST_LOOK = 40
PRIOR_DFS = (0, 2, 4, 8)
"""Weights that the launch noise seen in the other arms may have, see `sequential`: each has a table."""

PRIOR_DF = PRIOR_DFS[-1]

TABLE = Path(__file__).with_name("crossing.json")
"""What `exact_crossing` gives on a grid, since computing it takes minutes."""

NODES, POINTS = 240, 64
"""Interpolation nodes over v and Gauss points over the new angle."""

Array = NDArray[np.float64]


def weight(n: int) -> float:
    """Return how much of the error look n may spend: rising to the tenth block, then falling.

    Early t-tests rest on few degrees of freedom and are the easiest to fool, late ones are rarely reached.
    """
    if not FIRST_LOOK <= n <= LAST_LOOK:
        return 0.0
    return math.sqrt(n / 10) if n <= 10 else (10 / n) ** 3


def crossing(x: float, prior_df: int = 0) -> float:
    """Return the chance, when nothing is there, that any look has a one-sided p_n <= weight(n) x."""
    return float(crossings(np.array([x]), prior_df)[0])


def crossings(x: Array, prior_df: int = 0) -> Array:
    """Return `crossing` of each x."""
    low, high, spline = _table(prior_df)
    inside = np.exp(spline(np.log(np.clip(x, low, high))))
    # Below the table looks are as good as disjoint, and the chance is proportional to x.
    chance = np.where(x < low, inside * np.maximum(x, 0) / low, np.where(x >= high, 1.0, inside))
    return np.asarray(np.minimum(chance, 1.0), dtype=float)


@lru_cache(maxsize=512)
def limit(level: float, prior_df: int = 0) -> float:
    """Return the x at which `crossing` is `level`."""
    low = math.log(level) - 8
    return math.exp(optimize.brentq(lambda y: crossing(math.exp(y), prior_df) - level, low, 0.0))


def look_level(n: int, level: float, prior_df: int = 0) -> float:
    """Return the one-sided p that look n must reach, so that all looks together err with chance `level`."""
    return weight(n) * limit(level, prior_df)


@lru_cache(maxsize=1)
def tabulated() -> dict[str, Any]:
    """The content of `TABLE`: ``x``, and ``chance`` by prior degrees of freedom."""
    content: dict[str, Any] = json.loads(TABLE.read_text(encoding="utf-8"))
    return content


@lru_cache(maxsize=8)
def _table(prior_df: int) -> tuple[float, float, interpolate.CubicSpline]:
    """The tabulated crossing chances as a spline of log over log."""
    table = tabulated()
    x, chance = table["x"], table["chance"][str(prior_df)]
    return x[0], x[-1], interpolate.CubicSpline(np.log(x), np.log(chance))


def exact_crossing(x: float, prior_df: int, nodes: int = NODES, points: int = POINTS) -> float:
    """Compute `crossing` by the recursion; a second or so. `TABLE` holds what it gives."""
    ahead: interpolate.CubicSpline | None = None
    start = 2 if prior_df == 0 else 1
    for n in range(LAST_LOOK - 1, start - 1, -1):
        ahead = _one_look_earlier(ahead, n, x, prior_df, nodes, points)
    assert ahead is not None
    if prior_df == 0:  # two values point anywhere on the circle: the angle of v_2 is uniform
        return float(np.mean(ahead((np.arange(2000) + 0.5) / 2000 * np.pi)))
    a, share = _gauss(np.array([-np.pi / 2]), np.array([np.pi / 2]), 200)
    density = np.cos(a) ** (prior_df - 1)
    return float(np.sum(share * density * ahead(np.pi / 2 - a)) / np.sum(share * density))


def _edge(n: int, x: float, prior_df: int) -> float:
    """Angle below which look n rejects, 0 if it never does; its cosine is v = t / sqrt(t^2 + df)."""
    p, df = min(weight(n) * x, 1 - 1e-12), n - 1 + prior_df
    return math.atan2(math.sqrt(df), float(stats.t.isf(p, df))) if p > 0 else 0.0


def _one_look_earlier(
    ahead: interpolate.CubicSpline | None, n: int, x: float, prior_df: int, nodes: int, points: int
) -> interpolate.CubicSpline:
    """Return, by the angle at look n, the chance of a rejection at any later look (``ahead``: from n + 1
    on)."""
    chebyshev = np.concatenate([[0.0], (1 - np.cos(np.pi * (np.arange(nodes) + 0.5) / nodes)) / 2, [1.0]])
    edge, next_edge = _edge(n, x, prior_df), _edge(n + 1, x, prior_df)
    angle = edge + (np.pi - edge) * chebyshev
    v = np.cos(angle)
    # v_{n+1} is size * cos(a - top), so look n + 1 rejects where |a - top| < half; tan(a) sqrt(k) is a t of k df.
    size, top = np.sqrt((n * v * v + 1) / (n + 1)), np.arctan2(1.0, math.sqrt(n) * v)
    half = np.arccos(np.clip(math.cos(next_edge) / size, -1, 1)) if next_edge > 0 else np.zeros_like(v)
    quarter, k = np.full_like(v, np.pi / 2), n + prior_df
    low, high = np.clip(top - half, -quarter, quarter), np.clip(top + half, -quarter, quarter)
    chance = special.stdtr(k, -np.tan(low) * math.sqrt(k)) - special.stdtr(k, -np.tan(high) * math.sqrt(k))
    chance = np.where(half > 0, np.maximum(chance, 0.0), 0.0)
    if ahead is not None:
        scale = math.exp(special.gammaln((k + 1) / 2) - special.gammaln(k / 2)) / math.sqrt(math.pi)
        for start, stop in ((-quarter, low), (high, quarter)):
            a, share = _gauss(start, stop, points)
            later = ahead(np.arccos(np.clip(size[:, None] * np.cos(a - top[:, None]), -1, 1)))
            chance = chance + np.sum(share * scale * np.cos(a) ** (k - 1) * later, axis=1)
    return interpolate.CubicSpline(angle, chance)


def _gauss(start: Array, stop: Array, points: int) -> tuple[Array, Array]:
    """Gauss-Legendre points and their shares in each interval (a row each)."""
    x, w = np.polynomial.legendre.leggauss(points)
    middle, reach = (start + stop)[:, None] / 2, (stop - start)[:, None] / 2
    return middle + reach * x, reach * w


if __name__ == "__main__":  # python -m sglang_sweep.statistics.boundary
    grid = [float(format(x, ".6g")) for x in np.exp(np.linspace(math.log(1e-10), math.log(0.98), 64))]
    made = {d: [float(format(exact_crossing(x, d), ".6g")) for x in grid] for d in PRIOR_DFS}
    about = "What boundary.exact_crossing gives; made by python -m sglang_sweep.statistics.boundary"
    TABLE.write_text(json.dumps({"about": about, "x": grid, "chance": made}) + "\n", encoding="utf-8")
