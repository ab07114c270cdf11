"""Looking after every block keeps its error rates: against simulation, closed forms and theory."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats
from sglang_sweep.statistics import boundary
from sglang_sweep.statistics.sequential import (
    Look,
    looks,
    repeated_interval,
    sequential_p,
    sequential_tost_p,
)
from sglang_sweep.statistics.spread import Noise, alike, pooled, prior, variance_of

RATIOS = st.lists(st.floats(-0.1, 0.1), min_size=3, max_size=12)


def simulated_least_ratio(prior_df, paths, seed=1):
    """Least one-sided p_n / weight(n) over all looks, for paths of standard normal values."""
    rng, last = np.random.default_rng(seed), boundary.LAST_LOOK
    x = rng.standard_normal((paths, last))
    earlier = rng.chisquare(prior_df, paths) if prior_df else np.zeros(paths)
    n = np.arange(1, last + 1)[boundary.FIRST_LOOK - 1 :]
    total, squares = x.cumsum(axis=1)[:, n - 1], (x * x).cumsum(axis=1)[:, n - 1]
    df = n - 1 + prior_df
    error = np.sqrt((earlier[:, None] + squares - total**2 / n) / df / n)
    return (special.stdtr(df, -total / n / error) / [boundary.weight(k) for k in n]).min(axis=1)


@pytest.mark.parametrize("prior_df", boundary.PRIOR_DFS)
def test_the_chance_of_ever_crossing_is_what_simulation_gives(prior_df):
    least = simulated_least_ratio(prior_df, 60_000)
    for x in (0.001, 0.01, 0.05, 0.2):
        share, expected = np.mean(least <= x), boundary.crossing(x, prior_df)
        assert share == pytest.approx(expected, abs=4 * math.sqrt(expected / 60_000))


@pytest.mark.parametrize("prior_df", boundary.PRIOR_DFS)
def test_the_table_holds_what_the_recursion_gives(prior_df):
    for index in (40, 52, 60):
        x = boundary.tabulated()["x"][index]
        exact = boundary.exact_crossing(x, prior_df, nodes=120, points=40)
        assert boundary.tabulated()["chance"][str(prior_df)][index] == pytest.approx(exact, rel=0.005)


def test_looking_often_costs_less_than_bonferroni_and_more_than_nothing():
    weights = sum(boundary.weight(n) for n in range(3, boundary.LAST_LOOK + 1))
    for x in (1e-6, 0.001, 0.05):
        assert 0.9 * x < boundary.crossing(x) < weights * x
    assert (boundary.crossing(0.0), boundary.crossing(1.0)) == (0.0, 1.0)


def test_the_limit_of_a_level_is_the_inverse_of_crossing():
    for level in (0.05, 0.025, 0.05 / 16):
        assert boundary.crossing(
            boundary.limit(level, boundary.PRIOR_DF), boundary.PRIOR_DF
        ) == pytest.approx(level, rel=1e-6)


def test_the_first_look_is_an_ordinary_t_test():
    d = {1: 0.01, 2: 0.03, 3: 0.02}
    (look,) = looks(d)
    assert look.p_above(0) == pytest.approx(
        stats.ttest_1samp([0.01, 0.03, 0.02], 0, alternative="greater").pvalue
    )


def test_noise_is_shared_by_the_formula_of_smyth():
    mine = {1: 0.00, 2: 0.02, 3: 0.01}  # variance 1e-4, 2 df
    other = {1: 0.03, 2: -0.03, 3: 0.00}  # variance 9e-4, 2 df
    (look,) = looks(mine, [other])
    assert look.df == 2 + boundary.PRIOR_DF
    assert look.error**2 * 3 == pytest.approx((8 * 9e-4 + 2 * 1e-4) / 10, rel=1e-12)


def test_an_arm_noisier_than_the_others_keeps_its_own_spread():
    mine, other = {1: 0.03, 2: -0.03, 3: 0.0}, {1: 0.0, 2: 0.01, 3: 0.02}
    (look,) = looks(mine, [other])
    assert look.error**2 * 3 == pytest.approx(9e-4, rel=1e-12)


def test_a_look_knows_nothing_of_later_blocks():
    mine = {b: 0.01 * (b % 3) for b in range(1, 8)}
    other = {b: 0.02 * ((b * 5) % 4) for b in range(1, 8)}
    early = looks({b: mine[b] for b in range(1, 5)}, [{b: other[b] for b in range(1, 5)}])
    assert looks(mine, [other])[: len(early)] == early
    assert variance_of(other, 1).df == 0


def test_the_priors_weight_falls_as_the_arms_scatter_more_than_chance():
    own, chance = Noise(1e-4, 4), [Noise(v * 1e-4, 4) for v in (0.5, 0.8, 1.0, 1.3, 1.6)]
    assert prior(own, chance)[1] == boundary.PRIOR_DF
    scattered = [Noise(v * 1e-4, 40) for v in (0.3, 0.7, 1.0, 1.4, 2.6)]
    assert prior(own, scattered)[1] in (2, 4)


def test_one_bad_arm_does_not_blur_quiet_ones():
    quiet, bad = [Noise(v * 1e-4, 3) for v in (0.7, 0.9, 1.0, 1.3)], Noise(100e-4, 3)
    assert prior(quiet[0], [*quiet[1:], bad]) == prior(quiet[0], quiet[1:])
    assert alike([*quiet, bad]) == [True] * 4 + [False]
    assert pooled([*quiet, bad]) == pooled(quiet)


def test_arms_that_are_alike_are_seldom_left_out():
    rng = np.random.default_rng(3)
    out = [not all(alike([Noise(v, 2) for v in rng.chisquare(2, 9) / 2])) for _ in range(500)]
    assert np.mean(out) < 0.05


@given(RATIOS)
@settings(max_examples=50)
def test_p_values_never_rise_as_blocks_are_added(values):
    history = looks(dict(enumerate(values)))
    for p in (sequential_p, lambda h: sequential_tost_p(h, 0.02)):
        steps = [p(history[:k]) for k in range(len(history) + 1)]
        assert all(later <= earlier + 1e-12 for earlier, later in pairwise(steps))


@given(RATIOS)
@settings(max_examples=50)
def test_turning_the_ratio_round_changes_nothing_but_signs(values):
    one, other = looks(dict(enumerate(values))), looks({b: -x for b, x in enumerate(values)})
    assert sequential_p(one) == pytest.approx(sequential_p(other), rel=1e-9)
    assert sequential_tost_p(one, 0.02) == pytest.approx(sequential_tost_p(other, 0.02), rel=1e-9)
    low, high = repeated_interval(one)
    assert repeated_interval(other) == pytest.approx((-high, -low), abs=1e-12)


def test_before_the_first_look_nothing_is_said():
    assert looks({1: 0.5, 2: 0.5}) == []
    assert (sequential_p([]), sequential_tost_p([], 0.02), repeated_interval([])) == (1.0, 1.0, None)


def test_the_interval_holds_at_every_look_together():
    rng = np.random.default_rng(8)
    missed = 0
    for _ in range(300):
        history = looks({b: rng.normal(0, 0.01) for b in range(10)})
        intervals = [repeated_interval(history[: k + 1]) for k in range(len(history))]
        missed += any(not low <= 0 <= high for low, high in intervals)
    assert missed / 300 <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 300)


def test_values_without_spread_are_certain():
    assert Look(3, 0.5, 0.0, 0).p_above(0) == 0.0
    assert Look(3, 0.0, 0.0, 0).p_above(0) == 0.5
