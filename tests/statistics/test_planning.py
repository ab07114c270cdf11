"""The outlook of a campaign from the noise of its launches so far."""

import math
from datetime import datetime, timedelta

import numpy as np
import pytest
from sglang_sweep.verdict.analysis import analyse
from sglang_sweep.verdict.planning import outlook


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


@pytest.fixture
def timed(launch):
    """Eight blocks whose windows of 1 s scatter by 2 % in throughput and hardly in TPOT; 60 s a launch."""
    rng = np.random.default_rng(6)
    records = []
    for block in range(1, 9):
        for arm in ("baseline", "baseline-prime", "v"):
            record = launch(
                arm, block, [100 * math.exp(rng.normal(0, 0.02)) for _ in range(3)], minutes=9 * block
            )
            for window in record["windows"]:
                window["duration_s"] = 1.0
                window["metrics"]["mean_tpot_ms"] = 5 * math.exp(rng.normal(0, 0.002))
            ended = datetime.fromisoformat(record["started_at"]) + timedelta(seconds=60)
            record |= {"timeline": {"windows_s": 9.0}, "finished_at": ended.isoformat()}
            records.append(record)
    return records


def test_plan_and_report_say_the_same_number_of_blocks(campaign, design):
    rng = np.random.default_rng(12)
    arms = {"baseline": 1.0, "baseline-prime": 1.0, "v": 1.015, "w": 1.0}
    values = {a: {b: 50 * r * math.exp(rng.normal(0, 0.02)) for b in range(1, 6)} for a, r in arms.items()}
    for mode in ("fixed", "adaptive"):
        settings = design | {"mode": mode, "smallest_effect": 0.02}
        rows = {r["name"]: r for r in analyse(campaign(values), {}, settings)["variants"]}
        planned = outlook(campaign(values), settings, variants=2).open
        said = {
            n: r["more_blocks"] or r["fresh_blocks"]
            for n, r in rows.items()
            if r["verdict"] == "INCONCLUSIVE"
        }
        assert said and planned == said


def test_the_shortest_way_times_longer_or_takes_the_quieter_metric(timed, design):
    settings = design | {"smallest_effect": 0.02, "blocks": 8}
    present, shortest = outlook(timed, settings, variants=8, minutes_per_launch=1).ways
    assert present.metric == "output_throughput" and present.window_s == pytest.approx(1.0)
    assert shortest.metric == "mean_tpot_ms" and shortest.minutes < present.minutes
    assert "Shortest way: mean_tpot_ms" in outlook(timed, settings, variants=8).sentences()[-1]


def test_records_that_do_not_say_how_long_they_took_have_no_shortest_way(pilot, design):
    assert outlook(pilot, design, variants=1).ways is None
