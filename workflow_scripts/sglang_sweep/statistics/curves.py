"""What a ladder says: the curve of each arm, the load it carries within its objectives, and where two arms cross.

The unit stays the launch. Everything is interpolated on the logs of load and value, between neighbouring levels only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from sglang_sweep.statistics.bootstrap import RESAMPLES
from sglang_sweep.statistics.launches import Measured

Levels = Sequence[tuple[float, str]]
"""Load and workload of each level, from the least load up."""

Interval = tuple[float, float]

LEAST_MARGIN = 1e-3
"""In place of a margin of zero, where requests failed."""


@dataclass(frozen=True)
class Capacity:
    """The highest load within the objectives. ``value`` is the geometric mean over launches, with its 95 % interval.

    ``bound`` is ``at least`` where every launch met them at the highest level, ``below`` where none did at the lowest;
    ``mixed`` where only some did, and then there is no interval.
    """

    value: float
    ci95: Interval | None
    bound: str | None
    launches: int


def mean_of(values: Sequence[float]) -> tuple[float, Interval | None]:
    """The geometric mean of positive values of launches, and its 95 % interval by t on logs from two on."""
    logs = np.log(np.asarray(values, dtype=float))
    mean = float(logs.mean())
    if logs.size < 2:
        return math.exp(mean), None
    half = float(stats.t.ppf(0.975, logs.size - 1) * logs.std(ddof=1) / math.sqrt(logs.size))
    return math.exp(mean), (math.exp(mean - half), math.exp(mean + half))


def level_values(launches: Sequence[Measured], workload: str, metric: str) -> list[float]:
    """The metric at one level, of each launch that has it and is above zero."""
    found = [launch.raw.get((workload, metric)) for launch in launches]
    return [value for value in found if value]


def reached(margins: Sequence[float], loads: Sequence[float]) -> tuple[float, str | None]:
    """The load at which the margin (limit over measured) first falls to one in a launch, and ``below`` or ``at
    least`` where that is outside the ladder."""
    logs = [math.log(max(margin, LEAST_MARGIN)) for margin in margins]
    first = next((i for i, log in enumerate(logs) if log < 0), None)
    if first is None:
        return loads[-1], "at least"
    if first == 0:
        return loads[0], "below"
    share = logs[first - 1] / (logs[first - 1] - logs[first])
    return loads[first - 1] * (loads[first] / loads[first - 1]) ** share, None


def capacity(launches: Sequence[Measured], levels: Levels) -> Capacity | None:
    """Over the launches that measured a margin at every level; None without any."""
    loads = [load for load, _ in levels]
    margins = [[launch.raw.get((name, "slo_margin")) for _, name in levels] for launch in launches]
    whole = [[m for m in row if m is not None] for row in margins if None not in row]
    if not whole:
        return None
    found = [reached(row, loads) for row in whole]
    value, ci95 = mean_of([load for load, _ in found])
    bounds = {bound for _, bound in found}
    if bounds == {None}:
        return Capacity(value, ci95, None, len(found))
    return Capacity(value, None, next(iter(bounds)) if len(bounds) == 1 else "mixed", len(found))


def crossing(
    launches: Sequence[Measured], baselines: Sequence[Measured], levels: Levels, metric: str, seed: int = 0
) -> tuple[float, Interval | None] | None:
    """The load at which the arm's ``metric`` passes the baseline's, with a 95 % interval from resampled blocks; None
    where the mean curves do not cross once.

    The interval is None below three blocks, and where more than one resample in twenty does not cross: the curves may
    then not cross at all.
    """
    rows = []
    for launch in launches:
        row = []
        for _, name in levels:
            beside = [b.raw.get((name, metric)) for b in baselines if b.block == launch.block]
            own, others = launch.raw.get((name, metric)), [value for value in beside if value]
            if own and others:
                row.append(math.log(own) - sum(map(math.log, others)) / len(others))
        if len(row) == len(levels):
            rows.append(row)
    loads = [load for load, _ in levels]
    if not rows:
        return None
    ratios = np.asarray(rows)
    mean = _root(ratios.mean(axis=0), loads)
    if mean is None or len(rows) < 3:
        return None if mean is None else (mean, None)
    draws = np.random.default_rng(seed).integers(0, len(rows), size=(RESAMPLES // 5, len(rows)))
    drawn = [root for draw in draws if (root := _root(ratios[draw].mean(axis=0), loads)) is not None]
    if len(drawn) < 0.95 * len(draws):
        return mean, None
    low, high = np.quantile(drawn, [0.025, 0.975])
    return mean, (float(low), float(high))


def _root(curve: Sequence[float] | np.ndarray, loads: Sequence[float]) -> float | None:
    """Where a curve of log ratios changes sign, once, on the log of the load."""
    turns = [i for i in range(len(loads) - 1) if (curve[i] < 0) != (curve[i + 1] < 0)]
    if len(turns) != 1:
        return None
    i = turns[0]
    share = curve[i] / (curve[i] - curve[i + 1])
    return float(loads[i] * (loads[i + 1] / loads[i]) ** share)


def pareto(points: Mapping[str, tuple[float, float]]) -> set[str]:
    """Names of the points that no other one beats in both values, larger being better."""
    return {
        name
        for name, (x, y) in points.items()
        if not any(a >= x and b >= y and (a, b) != (x, y) for a, b in points.values())
    }
