"""GPU minutes to the right verdict on measured noise: ours with short and long windows and by TPOT, and rivals."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from sglang_sweep.calibration import designs, simulate
from sglang_sweep.calibration.designs import WIN, Outcome
from sglang_sweep.calibration.simulate import Scenario
from sglang_sweep.statistics.design import Design

POWER = 0.8
"""The design is given as many blocks as find the effect this often."""

MOST_BLOCKS = 24


def study_minutes(config: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a row per way: blocks (the most that may be run), mean launches and minutes, how often the one variant
    with the effect is a WIN, and how often any is called different where none is.

    ``config.minutes`` holds the effect of one of so many variants, the smallest effect asked about, and the ways:
    metric's noise between launches and of a window of ``window_s``, windows and seconds of each, untimed seconds.
    """
    asked = config["minutes"]
    truth = [math.log1p(asked["effect"])] + [0.0] * (asked["variants"] - 1)
    rows = []
    for number, way in enumerate(asked["ways"]):
        scenario = _scenario(way, asked)
        rng = np.random.default_rng([config["seed"], number])
        many, arms = config["replications"], len(truth)
        minutes = (way["untimed_s"] + way["windows"] * way["window_s"]) / 60
        if way["design"] in ("fixed", "adaptive"):
            found = simulate.launches(scenario, truth, MOST_BLOCKS, many, rng)
            nothing = simulate.launches(scenario, [0.0] * arms, MOST_BLOCKS, many, rng)
            row = next(r for n in range(3, MOST_BLOCKS + 1) if (r := _ours(way, asked, n, found, nothing)))
        else:
            outcomes = [_rival(way, scenario, t, asked, many, rng) for t in (truth, [0.0] * arms)]
            launches = way["launches"] * (arms + 1)
            row = _row(way["launches"], outcomes[0], outcomes[1]) | {"launches": launches}
        rows.append({"way": way["name"], **row, "minutes": row["launches"] * minutes})
    return rows


def _scenario(way: Mapping[str, Any], asked: Mapping[str, Any]) -> Scenario:
    """Noise of a window falls with the root of its seconds."""
    noise = asked["noise"][way["metric"]]
    window_sd = noise["window_sd"] * math.sqrt(noise["window_s"] / way["window_s"])
    return Scenario(
        way["name"], noise["launch_sd"], window_sd, way["windows"], drift="walk", drift_size=asked["drift"]
    )


def _ours(
    way: Mapping[str, Any], asked: Mapping[str, Any], blocks: int, found: Any, nothing: Any
) -> dict[str, float] | None:
    """A row, or None where so few blocks find the effect too seldom."""
    design = Design(
        smallest_effect=asked["smallest_effect"], mode=way["design"], blocks=blocks, max_blocks=blocks
    )
    judge = designs.ours_adaptive if design.adaptive else designs.ours_fixed
    outcome = judge(found[:, :blocks], design)
    if np.mean(outcome.verdict[:, 0] == WIN) < POWER and blocks < MOST_BLOCKS:
        return None
    return _row(blocks, outcome, judge(nothing[:, :blocks], design))


def _row(blocks: int, found: Outcome, nothing: Outcome) -> dict[str, float]:
    return {
        "blocks": blocks,
        "launches": float(found.launches.mean()),
        "found": float(np.mean(found.verdict[:, 0] == WIN)),
        "false_claim": float(nothing.claimed.any(axis=1).mean()),
    }


def _rival(
    way: Mapping[str, Any],
    scenario: Scenario,
    truth: list[float],
    asked: Mapping[str, Any],
    many: int,
    rng: np.random.Generator,
) -> Outcome:
    """Windows of every launch as replicates, arms one after another or (asv) interleaved in rounds of fresh processes;
    or launches as replicates, all of one arm before the next."""
    design = Design(smallest_effect=asked["smallest_effect"])
    each = way["launches"]
    if way["design"] == "rounds":
        logs = np.delete(simulate.launches(scenario, truth, each, many, rng), 1, axis=2)
    else:
        logs = simulate.arm_after_arm(scenario, truth, each, many, rng)
    return designs.one_arm_after_another(logs, design, windows_as_replicates=way["design"] != "launches")
