"""Holm's correction against R, statsmodels, and its own rules."""

import numpy as np
import pytest
from sglang_sweep.statistics.holm import holm, holm_adjusted
from statsmodels.stats.multitest import multipletests


def test_it_gives_what_r_gives():
    # R: p.adjust(c(0.01, 0.02, 0.03, 0.04), "holm") is 0.04 0.06 0.06 0.06
    adjusted = holm({"a": 0.01, "b": 0.02, "c": 0.03, "d": 0.04})
    assert list(adjusted.values()) == pytest.approx([0.04, 0.06, 0.06, 0.06], abs=1e-12)


def test_many_families_at_once_give_what_statsmodels_gives_one_by_one():
    p = np.random.default_rng(0).uniform(0, 0.2, (8, 7))
    expected = [multipletests(row, method="holm")[1] for row in p]
    assert holm_adjusted(p) == pytest.approx(np.array(expected), abs=1e-12)


def test_a_variant_without_a_p_value_still_costs_the_family():
    assert holm({"a": 0.02, "not yet": None})["a"] == pytest.approx(0.04)


def test_an_empty_family_has_nothing_to_adjust():
    assert holm({}) == {}
