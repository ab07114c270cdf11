"""The order of launches: random, balanced, and the same on every machine."""

from collections import Counter
from itertools import pairwise

import pytest
from sglang_sweep.plan.blocks import cycle_length, order

ARMS = [f"arm-{i}" for i in range(10)]


@pytest.mark.parametrize("arms", range(2, 13))
def test_every_arm_stands_equally_often_in_every_position_and_after_every_other(arms):
    names = ARMS[:arms] + [f"more-{i}" for i in range(arms - 10)]
    rows = [order(names, block, 7) for block in range(1, cycle_length(arms) + 1)]
    assert all(sorted(row) == sorted(names) for row in rows)
    places = Counter((name, place) for row in rows for place, name in enumerate(row))
    following = Counter(pair for row in rows for pair in pairwise(row))
    assert len(places) == arms**2 and len(set(places.values())) == 1
    assert len(following) == arms * (arms - 1) and len(set(following.values())) == 1


def test_each_second_block_mirrors_the_one_before_so_that_a_linear_drift_cancels():
    for block in (1, 3, 5, 11):
        assert order(ARMS, block + 1, 3) == order(ARMS, block, 3)[::-1]


def test_it_depends_on_the_set_of_arms_block_and_seed_alone():
    assert order(ARMS, 4, 1) == order(ARMS[::-1], 4, 1)
    assert order(ARMS, 4, 1) != order(ARMS, 5, 1)
    assert order(ARMS, 4, 1) != order(ARMS, 4, 2)


def test_an_order_once_published_never_changes():
    published = ["radix-off", "baseline-prime", "eagle", "baseline"]
    assert order(["baseline", "baseline-prime", "radix-off", "eagle"], 1, 7) == published


def test_every_order_of_a_block_is_about_as_likely():
    names = ["a", "b", "c"]
    seen = Counter(tuple(order(names, 1, seed)) for seed in range(1200))
    assert len(seen) == 6
    assert all(abs(count - 200) < 4 * 200**0.5 for count in seen.values())


def test_an_arm_named_twice_is_refused():
    with pytest.raises(ValueError, match="named twice"):
        order(["a", "a"], 1, 1)
