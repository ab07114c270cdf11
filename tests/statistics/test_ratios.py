"""Ratios, intervals and p-values against numbers worked out by hand, R's documentation, scipy and
statsmodels."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sglang_sweep.statistics.ratios import block_logs, compare, log_ratios, tost_p
from statsmodels.stats.weightstats import DescrStatsW

VALUE = st.floats(0.1, 1e4)
BLOCKS = st.lists(st.tuples(VALUE, VALUE, VALUE), min_size=3, max_size=10)
# R: sleep$extra[1:10] - sleep$extra[11:20], the example of ?t.test
SLEEP = [-1.2, -2.4, -1.3, -1.3, 0.0, -1.0, -1.8, -0.8, -4.6, -1.4]


def values_of(rows):
    arms = ("baseline", "baseline-prime", "variant")
    return {arm: {b: row[i] for b, row in enumerate(rows, 1)} for i, arm in enumerate(arms)}


def logs_of(rows, arm="variant"):
    others = ["baseline"] if arm.endswith("prime") else ["baseline", "baseline-prime"]
    return block_logs(values_of(rows), arm, others)


def test_three_blocks_agree_with_a_calculation_by_hand():
    # log ratios to the mean of log A and log A' are 0.01, 0.03, 0.02: mean 0.02, sd 0.01, t = 2 sqrt(3) with 2 df
    rows = [
        (math.exp(1.0), math.exp(1.2), math.exp(1.1 + 0.01)),
        (math.exp(2.0), math.exp(2.0), math.exp(2.0 + 0.03)),
        (math.exp(0.5), math.exp(0.3), math.exp(0.4 + 0.02)),
    ]
    c = compare(logs_of(rows), margin=0.05)
    t = 2 * math.sqrt(3)
    assert c.ratio == pytest.approx(math.exp(0.02), abs=1e-12)
    assert c.sd == pytest.approx(0.01, abs=1e-12)
    assert c.p_value == pytest.approx(1 - t / math.sqrt(t * t + 2), abs=1e-12)  # closed form of 2 df
    half = 4.302652729749464 * 0.01 / math.sqrt(3)
    assert c.ci95 == pytest.approx((math.exp(0.02 - half), math.exp(0.02 + half)), abs=1e-9)
    u = (0.05 - 0.02) * math.sqrt(3) / 0.01
    assert c.equivalence_p == pytest.approx((1 - u / math.sqrt(u * u + 2)) / 2, abs=1e-12)
    # Of the 27 labellings only the true one has the variant's sum or more: in the first block it lies between A and A'.
    assert c.p_exact == pytest.approx(exact_by_listing(rows), abs=1e-12)


def exact_by_listing(rows):
    contrasts = [[x - (sum(r) - x) / 2 for x in r] for r in (np.log(row) for row in rows)]
    sums = [a + b + c for a in contrasts[0] for b in contrasts[1] for c in contrasts[2]]
    observed = sum(row[2] for row in contrasts)
    upper = np.mean([s >= observed - 1e-9 for s in sums])
    lower = np.mean([s <= observed + 1e-9 for s in sums])
    return min(1.0, 2 * min(upper, lower))


def test_the_paired_t_test_gives_what_r_prints_for_its_sleep_data():
    # R 4: t.test(Pair(extra[group == 1], extra[group == 2]) ~ 1): t = -4.0621, df = 9, p-value = 0.002833,
    # 95 percent confidence interval -2.4598858 -0.7001142
    c = compare({b: [d, 0.0] for b, d in enumerate(SLEEP)}, margin=1.0)
    assert c.p_value == pytest.approx(0.002833, abs=5e-7)
    assert np.log(c.ci95) == pytest.approx([-2.4598858, -0.7001142], abs=5e-8)


def test_p_values_agree_with_scipy_and_statsmodels():
    d = np.array([0.012, -0.004, 0.021, 0.006, 0.015, 0.009])
    c = compare({b: [x, 0.0] for b, x in enumerate(d)}, margin=0.02)
    assert c.p_value == pytest.approx(stats.ttest_1samp(d, 0).pvalue, abs=1e-12)
    assert c.equivalence_p == pytest.approx(DescrStatsW(d).ttost_mean(-0.02, 0.02)[0], abs=1e-12)
    assert np.log(c.ci95) == pytest.approx(DescrStatsW(d).tconfint_mean(0.05), abs=1e-12)


def test_a_missing_baseline_launch_leaves_the_other_one_to_compare_with():
    values = {"baseline": {1: 2.0}, "baseline-prime": {1: 8.0, 2: 5.0}, "variant": {1: 4.0, 2: 5.0, 3: 9.0}}
    ratios = log_ratios(block_logs(values, "variant", ["baseline", "baseline-prime"]))
    assert ratios == {1: pytest.approx(0.0, abs=1e-12), 2: 0.0}  # geometric mean of 2 and 8 is 4


def test_one_block_has_a_ratio_and_nothing_else():
    c = compare({1: [0.1, 0.0]}, margin=0.02)
    assert (c.blocks, c.ci95, c.p_value) == (1, None, None)
    assert compare({}, margin=0.02) is None


def test_values_without_any_spread_are_certain_not_an_error():
    c = compare({b: [0.5, 0.0] for b in range(3)}, margin=0.02)
    assert (c.p_value, c.equivalence_p) == (0.0, 1.0)
    assert tost_p(0.0, 0.0, 3, 0.02) == 0.0


@given(BLOCKS, st.lists(VALUE, min_size=10, max_size=10))
@settings(max_examples=60)
def test_scaling_all_values_of_a_block_changes_nothing(rows, factors):
    scaled = [tuple(x * f for x in row) for row, f in zip(rows, factors, strict=False)]
    assert same(compare(logs_of(rows), 0.02), compare(logs_of(scaled), 0.02))


@given(BLOCKS, st.randoms())
@settings(max_examples=60)
def test_permuting_blocks_changes_nothing(rows, random):
    shuffled = random.sample(rows, len(rows))
    assert same(compare(logs_of(rows), 0.02), compare(logs_of(shuffled), 0.02))


@given(BLOCKS)
@settings(max_examples=60)
def test_swapping_a_and_a_prime_changes_nothing_but_the_sign_of_their_own_comparison(rows):
    swapped = [(b, a, v) for a, b, v in rows]
    assert same(compare(logs_of(rows), 0.02), compare(logs_of(swapped), 0.02))
    one, other = (compare(logs_of(r, "baseline-prime"), 0.02) for r in (rows, swapped))
    assert one.log_ratio == pytest.approx(-other.log_ratio, abs=1e-9)
    assert one.p_value == pytest.approx(other.p_value, abs=1e-6)
    assert one.p_exact == pytest.approx(other.p_exact, abs=1e-12)


def same(one, other):
    assert one.log_ratio == pytest.approx(other.log_ratio, abs=1e-9)
    assert one.sd == pytest.approx(other.sd, abs=1e-8)
    if one.sd > 1e-6:
        assert np.log(one.ci95) == pytest.approx(np.log(other.ci95), abs=1e-7)
        assert one.p_value == pytest.approx(other.p_value, abs=1e-6)
        assert one.equivalence_p == pytest.approx(other.equivalence_p, abs=1e-6)
    return True
