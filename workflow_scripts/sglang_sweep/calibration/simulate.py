"""Simulated campaigns: launch noise, drift, heavy tails, outliers and gaps as a noisy host makes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sglang_sweep.plan.blocks import order

Array = NDArray[np.float64]

SESSION_BLOCKS = 10
"""A drift of `drift_size` is reached over so many blocks."""


@dataclass(frozen=True)
class Scenario:
    """A host. Spreads and sizes are on the log scale, where 0.01 is 1 %.

    ``drift`` is none, linear, step (at a random moment) or walk; ``tails`` normal or t3 (Student's t of 3
    df, scaled to the same spread); an outlier is a launch slower by ``outlier_size``; ``noisy_arm``
    multiplies the spread of the variant ``noisy_index`` (the first is 0).
    """

    name: str
    launch_sd: float = 0.01
    window_sd: float = 0.01
    windows: int = 3
    drift: str = "none"
    drift_size: float = 0.03
    tails: str = "normal"
    outlier_rate: float = 0.0
    outlier_size: float = 0.2
    missing_rate: float = 0.0
    noisy_arm: float = 1.0
    noisy_index: int = 0


def launches(
    scenario: Scenario, effects: Sequence[float], blocks: int, replications: int, rng: np.random.Generator
) -> Array:
    """Return log values by (replication, block, arm, window); arms are A, A', then one per log effect.

    Each block is ordered as `blocks.order` orders it, with a fresh seed per replication; missing launches
    are NaN.
    """
    arms = len(effects) + 2
    seeds = rng.integers(0, ORDERS, replications)
    positions = _positions(arms, blocks)[seeds]
    when = np.arange(blocks)[:, None] * arms + positions  # index of the launch in the session
    level = _take(_drift(scenario, arms, blocks * arms, replications, rng), when)
    return _measure(scenario, np.array([0.0, 0.0, *effects]), 2, level, rng)


def arm_after_arm(
    scenario: Scenario, effects: Sequence[float], each: int, replications: int, rng: np.random.Generator
) -> Array:
    """Return the same for the schedule 'all launches of the baseline, then all of variant 1, ...'.

    Shape (replication, launch, arm, window), one baseline; the session spans the same time as ten blocks
    do.
    """
    arms = len(effects) + 1
    when = np.arange(each)[:, None] + np.arange(arms)[None, :] * each
    span = max(SESSION_BLOCKS * arms, each * arms)
    when = np.broadcast_to(when * (span // (each * arms)), (replications, each, arms))
    level = _take(_drift(scenario, arms, span, replications, rng), when)
    return _measure(scenario, np.array([0.0, *effects]), 1, level, rng)


ORDERS = 256
"""So many seeds of the order are drawn from; building each takes a while."""


@lru_cache(maxsize=8)
def _positions(arms: int, blocks: int) -> NDArray[np.int64]:
    names = [f"{index:03d}" for index in range(arms)]
    positions = np.empty((ORDERS, blocks, arms), dtype=np.int64)
    for seed in range(ORDERS):
        for block in range(blocks):
            for position, name in enumerate(order(names, block + 1, seed)):
                positions[seed, block, int(name)] = position
    return positions


def _drift(scenario: Scenario, arms: int, count: int, replications: int, rng: np.random.Generator) -> Array:
    """Level of the host at each launch of a session, (replication, launch)."""
    time = np.arange(count) / (SESSION_BLOCKS * arms)
    size = scenario.drift_size
    if scenario.drift == "linear":
        return np.broadcast_to(-size * time, (replications, count))
    if scenario.drift == "step":
        return np.where(time >= rng.uniform(0, 1, (replications, 1)), -size, 0.0)
    if scenario.drift == "walk":
        return np.cumsum(rng.normal(0, size / np.sqrt(SESSION_BLOCKS * arms), (replications, count)), axis=1)
    return np.zeros((replications, count))


def _take(level: Array, when: NDArray[np.int64]) -> Array:
    flat = np.take_along_axis(level, when.reshape(when.shape[0], -1), axis=1)
    return flat.reshape(when.shape)


def _measure(
    scenario: Scenario, effects: Array, baselines: int, level: Array, rng: np.random.Generator
) -> Array:
    shape = level.shape
    heavy = scenario.tails == "t3"
    noise = rng.standard_t(3, shape) / np.sqrt(3) if heavy else rng.standard_normal(shape)
    spread = np.full(shape[-1], scenario.launch_sd)
    spread[baselines + scenario.noisy_index] *= scenario.noisy_arm
    value = effects + level + noise * spread
    value = value - scenario.outlier_size * (rng.random(shape) < scenario.outlier_rate)
    value = np.where(rng.random(shape) < scenario.missing_rate, np.nan, value)
    windows = rng.normal(0, scenario.window_sd, (*shape, scenario.windows))
    return np.asarray(value[..., None] + windows, dtype=float)
