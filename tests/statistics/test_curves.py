"""Ladders: what an arm carries, and where two curves cross."""

from datetime import UTC, datetime

import numpy as np
import pytest
from sglang_sweep.statistics.curves import capacity, crossing, mean_of, pareto, reached
from sglang_sweep.statistics.launches import Measured

LEVELS = [(float(load), f"chat-{load}") for load in (1, 2, 4, 8)]


def launch(arm: str, block: int, metric: str, values: list[float]) -> Measured:
    by_level = {(name, metric): {0: value} for (_, name), value in zip(LEVELS, values, strict=True)}
    return Measured(
        arm,
        block,
        datetime(2026, 12, 1, tzinfo=UTC),
        None,
        None,
        None,
        "completed",
        None,
        "f",
        values=by_level,
    )


@pytest.mark.parametrize(
    ("margins", "load", "bound"),
    [
        ([4, 2, 1, 0.5], 4.0, None),
        ([4, 2, 2, 0.5], 8 / 2**0.5, None),
        ([4, 3, 2, 1], 8.0, "at least"),
        ([0.9, 3, 2, 1], 1.0, "below"),
        ([4, 0.25, 2, 2], 2**0.5, None),
    ],
    ids=["exact", "between", "all", "none", "only-what-is-below-the-first-miss"],
)
def test_a_launch_reaches_the_load_where_its_margin_falls_to_one(
    margins: list[float], load: float, bound: str | None
) -> None:
    value, where = reached(margins, [load for load, _ in LEVELS])
    assert (value, where) == (pytest.approx(load), bound)


def test_capacity_has_an_interval_over_launches_unless_the_ladder_ends_first() -> None:
    rows = [launch("a", b, "slo_margin", [4, 2, m, 0.5]) for b, m in enumerate((1.5, 2.0, 2.5))]
    found = capacity(rows, LEVELS)
    assert found is not None and found.ci95 is not None
    assert found.ci95[0] < found.value < found.ci95[1]
    over = capacity([*rows, launch("a", 3, "slo_margin", [4, 3, 2, 1.5])], LEVELS)
    assert over is not None and (over.bound, over.ci95) == ("mixed", None)
    assert capacity([launch("a", 0, "output_throughput", [1, 2, 3, 4])], LEVELS) is None


def test_the_interval_of_a_crossing_holds_the_truth_as_often_as_it_says() -> None:
    rng, held = np.random.default_rng(3), 0
    truth = np.array([0.2, 0.1, -0.1, -0.2])
    for seed in range(60):
        arm, base = [], []
        for block in range(8):
            noise = np.exp(rng.normal(0, 0.02, (2, 4)) + rng.normal(0, 0.02, (2, 1)))
            arm.append(launch("v", block, "output_throughput", list(100 * np.exp(truth) * noise[0])))
            base.append(launch("b", block, "output_throughput", list(100 * noise[1])))
        found = crossing(arm, base, LEVELS, "output_throughput", seed)
        assert found is not None and found[1] is not None
        held += found[1][0] <= 8**0.5 <= found[1][1]
    assert held >= 49  # of 60 at 95 %; a percentile interval of eight blocks is somewhat too narrow


def test_curves_that_do_not_cross_have_no_crossing() -> None:
    arm = [launch("v", b, "output_throughput", [110, 120, 130, 140]) for b in range(3)]
    base = [launch("b", b, "output_throughput", [100] * 4) for b in range(3)]
    assert crossing(arm, base, LEVELS, "output_throughput") is None


def test_the_mean_of_one_launch_has_no_interval() -> None:
    assert mean_of([5.0]) == (pytest.approx(5.0), None)


def test_what_another_beats_in_both_is_not_on_the_front() -> None:
    assert pareto({"a": (1, 9), "b": (5, 5), "c": (4, 4), "d": (9, 1)}) == {"a", "b", "d"}
