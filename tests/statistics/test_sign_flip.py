"""The exact test against scipy, against listing every labelling, and where a t-test would go wrong."""

import itertools

import numpy as np
import pytest
from scipy import stats
from sglang_sweep.statistics.sign_flip import exact_p, smallest_p


@pytest.mark.parametrize("n", [3, 5, 8, 11])
def test_pairs_give_scipys_exact_sign_flip_test(n):
    d = np.random.default_rng(n).normal(0.3, 1, n)
    result = stats.permutation_test((d,), np.mean, permutation_type="samples", n_resamples=np.inf)
    assert exact_p([[x, 0.0] for x in d]) == pytest.approx(result.pvalue, abs=1e-12)


def test_triples_give_what_listing_all_labellings_gives():
    rows = np.random.default_rng(4).normal(0, 1, (5, 3))
    contrasts = [[x - (row.sum() - x) / 2 for x in row] for row in rows]
    sums = np.array([sum(choice) for choice in itertools.product(*contrasts)])
    observed = sum(c[0] for c in contrasts)
    expected = 2 * min(np.mean(sums >= observed - 1e-9), np.mean(sums <= observed + 1e-9))
    assert exact_p(rows.tolist()) == pytest.approx(min(1, expected), abs=1e-12)


def test_four_blocks_with_two_baselines_can_reach_five_per_cent_and_with_one_they_cannot():
    best = [[1.0 + 0.1 * b, 0.0, 0.05] for b in range(4)]
    assert exact_p(best) == pytest.approx(2 / 81) == smallest_p(best)
    assert smallest_p([[1.0, 0.0]] * 4) == pytest.approx(2 / 16)


def test_one_slow_baseline_launch_does_not_hide_a_variant_that_was_always_best():
    rows = [[0.02, 0.0, 0.001 * b] for b in range(5)] + [[0.02, 0.0, -0.3]]
    assert exact_p(rows) == pytest.approx(smallest_p(rows))


def test_its_error_rate_holds_for_skewed_noise():
    rng = np.random.default_rng(0)
    p = [exact_p((-(rng.exponential(1, (6, 3)) ** 2)).tolist()) for _ in range(2000)]
    assert np.mean(np.array(p) <= 0.05) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 2000)


def test_more_blocks_than_can_be_counted_are_sampled_the_same_each_time():
    rows = np.random.default_rng(1).normal(0.2, 1, (30, 3)).tolist()
    p = exact_p(rows)
    assert p == exact_p(rows)
    assert 0 < p < 1
