"""The block bootstrap: deterministic, scale-free, and not too narrow for few skewed blocks."""

import numpy as np
import pytest
from sglang_sweep.statistics.bootstrap import block_bootstrap


def test_the_same_data_give_the_same_interval_around_the_geometric_mean():
    d = [0.01, -0.02, 0.03, 0.005, 0.012]
    low, high = block_bootstrap(d)
    assert (low, high) == block_bootstrap(d)
    assert low < np.exp(np.mean(d)) < high


def test_fewer_than_three_blocks_have_no_interval():
    assert block_bootstrap([0.1, 0.2]) is None


def test_blocks_without_spread_have_an_interval_without_width():
    assert block_bootstrap([0.1] * 4) == pytest.approx((np.exp(0.1), np.exp(0.1)))


def test_it_covers_skewed_tail_latencies_nearly_as_often_as_it_says():
    rng = np.random.default_rng(3)
    covered = 0
    for _ in range(400):
        noise = rng.gumbel(0, 0.1, (8, 3))
        d = noise[:, 0] - noise[:, 1:].mean(axis=1)
        low, high = block_bootstrap(d)
        covered += low <= 1 <= high
    assert covered / 400 >= 0.95 - 0.03 - 3 * np.sqrt(0.05 * 0.95 / 400)
