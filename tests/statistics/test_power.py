"""Planning figures against statsmodels, simulation and each other."""

import math

import numpy as np
import pytest
from sglang_sweep.statistics import power
from statsmodels.stats.power import TTestPower


@pytest.mark.parametrize(("effect", "n", "level"), [(0.02, 6, 0.05), (0.01, 10, 0.05), (0.02, 9, 0.00625)])
def test_power_is_what_statsmodels_gives(effect, n, level):
    expected = TTestPower().power(effect / 0.0122, n, level, alternative="two-sided")
    assert power.t_power(effect, 0.0122, n, level) == pytest.approx(expected, abs=1e-6)


def test_the_chance_of_showing_equivalence_is_what_simulation_gives():
    rng, sd, n, margin = np.random.default_rng(1), 0.0122, 7, 0.0198
    d = rng.normal(0.003, sd, (40_000, n))
    half = 1.943180280515 * d.std(axis=1, ddof=1) / math.sqrt(n)  # t of 6 df
    share = np.mean(np.abs(d.mean(axis=1)) + half < margin)
    assert power.tost_power(0.003, sd, n, margin) == pytest.approx(share, abs=0.01)


def test_the_detectable_effect_is_found_with_just_that_power():
    effect = power.detectable_effect(0.0122, 6, 0.01)
    assert power.t_power(math.log1p(effect), 0.0122, 6, 0.01) == pytest.approx(0.8, abs=1e-6)
    assert power.detectable_effect(0.0122, 1, 0.05) is None
    assert power.detectable_effect(0.0122, 6, 0.0) is None


def test_the_planned_blocks_are_the_fewest_that_reach_the_power():
    blocks = power.blocks_for(0.02, 0.0122, 0.05)
    assert power.t_power(math.log(1.02), 0.0122, blocks, 0.05) >= 0.8
    assert power.t_power(math.log(1.02), 0.0122, blocks - 1, 0.05) < 0.8
    assert power.blocks_for(0.0001, 0.05, 0.05) is None


def test_a_plan_counts_both_baselines_of_every_block():
    plan = power.plan_for(0.03, launch_sd=0.01, variants=4, minutes_per_launch=5)
    assert plan.launches == plan.blocks * 6
    assert plan.minutes == plan.launches * 5


def test_a_noisier_host_needs_more_blocks():
    few, many = (power.plan_for(0.03, launch_sd=sd, variants=4).blocks for sd in (0.01, 0.02))
    assert few < many


def levels(n):
    return 0.01, 0.05


def test_more_blocks_settle_what_they_say_and_one_fewer_does_not():
    more = power.more_blocks(0.04, 0.03, 4, 0.0198, levels)
    assert power.settling_chance(0.04, 0.03, 4 + more, 0.0198, levels(0)) >= 0.8
    assert power.settling_chance(0.04, 0.03, 3 + more, 0.0198, levels(0)) < 0.8


def test_an_estimate_at_the_smallest_effect_itself_is_never_settled():
    assert power.more_blocks(0.0198, 0.02, 5, 0.0198, levels) is None


def test_the_chance_that_remains_is_what_simulation_gives():
    rng, sd, n, total, margin = np.random.default_rng(3), 0.012, 4, 10, 0.0198
    final = rng.normal(0.015, sd * math.sqrt(1 / n - 1 / total), 100_000)
    error = sd / math.sqrt(total)
    room, needed = (
        margin - 1.833112932653 * error,
        max(margin, 3.249835541592 * error),
    )  # t of 9 df at 0.05, 0.005
    share = np.mean((np.abs(final) < room) | (np.abs(final) > needed))
    assert power.remaining_chance(0.015, sd, n, total, margin, (0.01, 0.05), 9) == pytest.approx(
        share, abs=0.006
    )
