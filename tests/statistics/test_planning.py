"""The outlook of a campaign from the noise of its launches so far."""

import math

import numpy as np
import pytest
from sglang_sweep.statistics.planning import outlook


@pytest.fixture
def pilot(campaign):
    rng = np.random.default_rng(4)
    arms = {"baseline": 1.0, "baseline-prime": 1.0, "v": 0.7}
    return campaign(
        {a: {b: 50 * r * math.exp(rng.normal(0, 0.01)) for b in range(1, 31)} for a, r in arms.items()}
    )


def test_the_noise_is_that_of_a_launch_whatever_the_arms_differ_by(pilot, design):
    seen = outlook(pilot, design, variants=1)
    assert seen.launch_sd == pytest.approx(0.01, rel=0.25)
    assert seen.df == 58


@pytest.mark.parametrize("mode", ["fixed", "adaptive"])
def test_it_says_what_the_declared_blocks_find_and_what_an_effect_costs(pilot, design, mode):
    seen = outlook(pilot, design | {"mode": mode, "blocks": 6}, 3, minutes_per_launch=2, effects=(0.02, 1e-5))
    assert 0.005 < seen.detectable_effect < 0.05
    assert seen.costs[0.02].minutes == 2 * seen.costs[0.02].launches == 10 * seen.costs[0.02].blocks
    assert seen.costs[1e-5] is None
    assert len(seen.sentences()) == 4


def test_before_two_blocks_there_is_no_outlook(launch, design):
    assert outlook([launch("baseline", 1, (10, 10)), launch("v", 1, (10, 10))], design, 1) is None
