"""The calibration study: how often each design errs and finds, and what it costs, on simulated hosts.

Reproducible from the seed in config/calibration.yaml; no GPU. Rates come with their Monte-Carlo standard
error.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
import pandas as pd

from sglang_sweep.calibration import designs, simulate
from sglang_sweep.calibration.designs import LOSS, SAME, WIN, Outcome
from sglang_sweep.calibration.simulate import Scenario
from sglang_sweep.statistics.design import Design

Array = designs.Array

OURS = ("ours, adaptive", "ours, fixed")
RIVALS = ("all A, then all B", "windows as replicates", "one launch per arm")


def study(config: Mapping[str, Any], workers: int = 1) -> pd.DataFrame:
    """Run every scenario and design; one row each, the same for any number of worker processes.

    Columns: scenario, design, false_win (family-wise WIN or LOSS where nothing differs), false_claim (the
    same before the smallest effect is asked for), false_each (that, per variant), wrong_same (NO_DIFFERENCE
    where the effect is just the smallest of interest, per variant), power (differences called rightly),
    power_same (nothing called NO_DIFFERENCE), right (both), coverage of the 95 % interval, launches (share
    of the fixed design's), void (sessions), and se_* of the rates.
    """
    scenarios = [Scenario(**{**config.get("host", {}), **settings}) for settings in config["scenarios"]]
    with ProcessPoolExecutor(max_workers=workers) as pool:
        results = list(pool.map(run_scenario, scenarios, [config] * len(scenarios)))
    return pd.DataFrame([row for rows in results for row in rows])


def run_scenario(scenario: Scenario, config: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return one row per design. Every scenario has its own random stream, so their order does not matter."""
    rng = np.random.default_rng([config["seed"], zlib.crc32(scenario.name.encode())])
    effects = np.log1p(np.array(config["effects"], dtype=float))
    nothing = np.zeros(effects.size)
    smallest = math.log1p(config["smallest_effect"]) * np.where(np.arange(effects.size) % 2, -1.0, 1.0)
    blocks = max(config["fixed_blocks"], config["max_blocks"])
    draws = {
        name: (truth, _draw(scenario, truth, blocks, config, rng))
        for name, truth in (("nothing", nothing), ("smallest", smallest), ("campaign", effects))
    }
    cost = config["fixed_blocks"] * (effects.size + 2)
    rows = []
    for design, analyse in _designs(config).items():
        outcomes = {name: (truth, analyse(pair)) for name, (truth, pair) in draws.items()}
        rows.append({"scenario": scenario.name, "design": design, **_row(scenario, outcomes, cost)})
    return rows


Pair = tuple[Array, Array]
"""Log values of randomised blocks, and of one arm after another."""


def _draw(
    scenario: Scenario,
    truth: Sequence[float] | Array,
    blocks: int,
    config: Mapping[str, Any],
    rng: np.random.Generator,
) -> Pair:
    many = config["replications"]
    return (
        simulate.launches(scenario, list(truth), blocks, many, rng),
        simulate.arm_after_arm(scenario, list(truth), config["fixed_blocks"], many, rng),
    )


def _designs(config: Mapping[str, Any]) -> dict[str, Callable[[Pair], Outcome]]:
    common = {"smallest_effect": config["smallest_effect"], "alpha": config["alpha"]}
    fixed = Design(mode="fixed", blocks=config["fixed_blocks"], **common)
    adaptive = Design(mode="adaptive", max_blocks=config["max_blocks"], **common)
    return {
        OURS[0]: lambda pair: designs.ours_adaptive(pair[0][:, : adaptive.max_blocks], adaptive),
        OURS[1]: lambda pair: designs.ours_fixed(pair[0][:, : fixed.blocks], fixed),
        RIVALS[0]: lambda pair: designs.one_arm_after_another(pair[1], fixed),
        RIVALS[1]: lambda pair: designs.one_arm_after_another(pair[1], fixed, windows_as_replicates=True),
        RIVALS[2]: lambda pair: designs.one_arm_after_another(
            pair[1][:, :1], fixed, windows_as_replicates=True
        ),
    }


def _row(scenario: Scenario, outcomes: Mapping[str, tuple[Array, Outcome]], cost: int) -> dict[str, float]:
    _, nothing = outcomes["nothing"]
    _, smallest = outcomes["smallest"]
    truth, campaign = outcomes["campaign"]
    differs = truth != 0
    right = np.where(truth > 0, WIN, np.where(truth < 0, LOSS, SAME))
    noisy = [scenario.noisy_index] if scenario.noisy_arm != 1 else list(range(truth.size))
    judged = ~np.isnan(campaign.low)
    covered = judged & (campaign.low <= truth) & (truth <= campaign.high)
    # Variants of one campaign share its baseline: the campaign is the unit of every standard error.
    shares = covered.sum(axis=1)[judged.any(axis=1)] / judged.sum(axis=1)[judged.any(axis=1)]
    rates = {
        "false_win": np.isin(nothing.verdict, (WIN, LOSS)).any(axis=1),
        "false_claim": nothing.claimed.any(axis=1),
        "false_each": nothing.claimed.mean(axis=1),
        "wrong_same": (smallest.verdict == SAME)[:, noisy].mean(axis=1),
        "power": (campaign.verdict == right)[:, differs].mean(axis=1),
        "power_same": (campaign.verdict == right)[:, ~differs].mean(axis=1),
        "right": (campaign.verdict == right).mean(axis=1),
        "coverage": shares,
        "void": campaign.void,
    }
    row = {name: float(np.mean(values)) for name, values in rates.items()}
    row |= {f"se_{name}": float(np.std(v) / math.sqrt(len(v))) for name, v in rates.items()}
    row["launches"] = float(campaign.launches.mean() / cost)
    row["launches_nothing"] = float(nothing.launches.mean() / cost)
    return row
