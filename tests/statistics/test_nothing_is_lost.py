"""What is thrown away, fails or is slow in one arm only reaches the verdict: each hole is a truth of its own."""

import math

import numpy as np
import pytest
from sglang_sweep.statistics.arms import estimates
from sglang_sweep.statistics.design import Design
from sglang_sweep.statistics.launches import by_arm
from sglang_sweep.statistics.power import best_baselines
from sglang_sweep.verdict.analysis import analyse
from sglang_sweep.verdict.outcomes import more_often, unseen_share
from sglang_sweep.verdict.records import Row, Session
from sglang_sweep.verdict.session import examine
from sglang_sweep.verdict.settled import decide_arms

BASELINES = ("baseline", "baseline-prime")


@pytest.fixture
def measure(launch, design):
    """A campaign of six blocks: ``levels`` of the windows of each arm, and what ``spoil`` does to a launch."""

    def make(levels, spoil=lambda record: None, blocks=6, sd=0.004, **more):
        rng = np.random.default_rng(5)
        records = []
        for block in range(1, blocks + 1):
            for name in (*BASELINES, "v"):
                luck = math.exp(rng.normal(0, sd))
                base = levels["baseline"]
                rates = [luck * x * math.exp(rng.normal(0, sd)) for x in levels.get(name, base)]
                records.append(launch(name, block, rates, minutes=block * 20))
                spoil(records[-1])
        result = analyse(records, {}, design | {"smallest_effect": 0.02, "blocks": blocks} | more)
        Session.model_validate(result["session"])
        return Row.model_validate(result["variants"][0])

    return make


def variant_only(change):
    return lambda record: change(record) if record["variant"] == "v" else None


def fail_one(window):
    window["metrics"] |= {"completed": 7, "failed": 1}


def test_a_window_that_retracts_counts_with_what_that_cost(measure):
    spoil = variant_only(lambda r: r["windows"][2].update(retracted_requests=4))
    row = measure({"baseline": (100, 100, 100), "v": (105, 105, 80)}, spoil)
    assert row.verdict == "LOSS" and row.ratio == pytest.approx(0.967, abs=0.006)
    assert "retracts requests in 6 of 6 launches, the baseline in 0 of 12" in row.reasons[0]
    faster = measure({"baseline": (100, 100, 100), "v": (110, 110, 105)}, spoil)
    assert faster.verdict == "UNSTABLE"


def test_a_baseline_that_retracts_more_takes_no_win_from_the_variant(measure):
    def spoil(record):
        if record["variant"] != "v":
            record["windows"][2]["retracted_requests"] = 4

    assert measure({"baseline": (100, 100, 60), "v": (100, 100, 100)}, spoil).verdict == "WIN"


@pytest.mark.parametrize(("levels", "expected"), [((95, 95, 66), "LOSS"), ((100, 100, 70), "UNSTABLE")])
def test_a_window_lost_to_a_failed_request_is_lost_in_all_arms(measure, levels, expected):
    row = measure(
        {"baseline": (100, 100, 70), "v": levels}, variant_only(lambda r: fail_one(r["windows"][2]))
    )
    assert row.verdict == expected
    assert row.ratio == pytest.approx(levels[0] / 100, abs=0.006)
    assert "fails requests in 6 of 6" in row.reasons[0]


def test_requests_that_fail_on_another_workload_are_not_forgotten(measure):
    def spoil(record):
        other = [dict(w, workload="batch", metrics=dict(w["metrics"])) for w in record["windows"]]
        record["windows"] += other
        if record["variant"] == "v":
            for window in other:
                fail_one(window)

    row = measure({"baseline": (100, 100), "v": (110, 110)}, spoil)
    assert row.verdict == "UNSTABLE"
    assert {(e.workload, e.metric, e.kind) for e in row.elsewhere} == {("batch", "completion", "worse")}


def test_a_cold_first_window_is_left_out_of_both_arms_and_said(measure):
    row = measure({"baseline": (91.5, 100, 100), "v": (88, 100, 100)})
    assert row.verdict == "NO_DIFFERENCE" and row.ratio == pytest.approx(1, abs=0.006)
    assert any("starts cold" in reason for reason in row.reasons)


@pytest.mark.parametrize("blocks", [4, 10])
def test_zero_is_a_value(measure, blocks):
    def spoil(record):
        for window in record["windows"]:
            gone = record["variant"] == "v" and record["block"] % 5 in (1, 3)
            window["metrics"]["goodput"] = 0.0 if gone else 5.0 + record["block"] / 100

    primary = {"workload": "chat", "metric": "goodput"}
    row = measure({"baseline": (100, 100)}, spoil, blocks=blocks, primary=primary)
    assert row.blocks == blocks and row.verdict == ("UNSTABLE" if blocks < 10 else "LOSS")
    assert "delivers nothing" in row.reasons[0]


@pytest.mark.parametrize("cause", ["crashed", "launch_timeout"])
def test_a_variant_that_fails_in_some_launches_is_unstable_however_fast(launch, campaign, design, cause):
    values = {name: {b: 100.0 + b % 3 for b in range(1, 7)} for name in BASELINES}
    values["v"] = {b: 120.0 + b % 3 for b in (1, 3, 4, 6)}
    failed = [launch("v", b, cause=cause) for b in (2, 5)]
    row = analyse([*campaign(values), *failed], {}, design)["variants"][0]
    assert row["verdict"] == "UNSTABLE" and row["reasons"][0] == f"2 of 6 launches failed with {cause}"


def second(worse, sd, metric="output_throughput"):
    rng = np.random.default_rng(8)

    def spoil(record):
        factor = worse if record["variant"] == "v" else 1.0
        metrics = [
            {"completed": 8, "failed": 0, metric: 50 * factor * math.exp(rng.normal(0, sd))} for _ in "ab"
        ]
        record["windows"] += [{"workload": "batch", "window": i, "metrics": m} for i, m in enumerate(metrics)]

    return spoil


def test_a_regression_on_another_workload_is_in_the_row(measure):
    row = measure({"baseline": (100, 100), "v": (110, 110)}, second(0.92, 0.003))
    assert row.verdict == "WIN"
    (shown,) = row.elsewhere
    assert (shown.kind, shown.workload, shown.metric) == ("worse", "batch", "output_throughput")
    assert shown.ratio == pytest.approx(0.92, abs=0.01)


def test_a_regression_that_cannot_be_excluded_is_in_the_row_too(measure):
    row = measure({"baseline": (100, 100), "v": (110, 110)}, second(1.0, 0.08), blocks=3)
    (shown,) = row.elsewhere
    assert shown.kind == "not_excluded" and shown.ci95[0] < 0.98


def test_an_objective_of_the_same_workload_is_accounted_for(measure):
    def spoil(record):
        for window in record["windows"]:
            window["metrics"]["mean_ttft_ms"] = 1000.0 if record["variant"] == "v" else 100.0

    row = measure({"baseline": (100, 100), "v": (105, 105)}, spoil)
    assert [(e.metric, e.kind, round(e.ratio, 3)) for e in row.elsewhere] == [("mean_ttft_ms", "worse", 0.1)]


def test_a_slow_launch_is_reported_not_averaged_away(measure):
    def spoil(record):
        if record["variant"] == "v" and record["block"] == 4:
            for window in record["windows"]:
                window["metrics"]["output_throughput"] *= 0.78

    row = measure({"baseline": (100, 100), "v": (130, 130)}, spoil, blocks=10)
    assert row.verdict == "INCONCLUSIVE"
    assert row.reasons[0].startswith(
        "1 of 10 launches is 22% slower than its others, 0 of 20 of the baseline"
    )
    assert row.spread.apart == 1 and row.spread.launch_sd > 5 * row.spread.others_sd
    calm = measure({"baseline": (100, 100), "v": (130, 130)}, blocks=10)
    assert calm.verdict == "WIN" and calm.spread.apart == 0
    assert calm.spread.unseen_share == pytest.approx(0.259, abs=0.001)


def test_a_block_that_is_slow_in_every_arm_makes_no_launch_outlying(measure):
    def spoil(record):
        if record["block"] == 2:
            for window in record["windows"]:
                window["metrics"]["output_throughput"] *= 0.7

    assert measure({"baseline": (100, 100), "v": (105, 105)}, spoil).verdict == "WIN"


def test_more_often_is_by_sight_where_launches_are_few_or_the_baseline_never_does_it():
    assert more_often(1, 10, 0, 20, 0.05, by_sight=True)
    assert more_often(2, 3, 2, 6, 0.05, by_sight=True)
    assert not more_often(4, 10, 6, 20, 0.05, by_sight=True)
    assert more_often(9, 10, 6, 20, 0.05, by_sight=True)
    assert not more_often(1, 10, 0, 20, 0.05, by_sight=False)
    assert not more_often(0, 10, 0, 20, 0.05, by_sight=True)
    assert unseen_share(10) == pytest.approx(1 - 0.05**0.1)


def test_the_holm_interval_excludes_no_change_exactly_where_the_adjusted_p_says_so(campaign, design):
    rng = np.random.default_rng(3)
    for effect in (0.01, 0.015, 0.02, 0.03):
        values = {
            name: {
                b: 100 * (1 + effect * (name == "v0")) * math.exp(rng.normal(0, 0.008)) for b in range(1, 7)
            }
            for name in (*BASELINES, *(f"v{i}" for i in range(6)))
        }
        for mode in ("fixed", "adaptive"):
            rows = analyse(campaign(values), {}, design | {"mode": mode})["variants"]
            for row in rows[:-1]:
                low, high = row["ci_holm"] or row["ci95"]
                assert mode == "adaptive" or (low > 1 or high < 1) == (row["p_holm"] <= 0.05)
                assert low <= row["ci95"][0] and high >= row["ci95"][1]


def test_one_launch_of_each_arm_is_enough_for_an_estimate(campaign):
    rng = np.random.default_rng(4)
    values = {a: {b: 100 * math.exp(rng.normal(0, 0.01)) for b in range(1, 7)} for a in BASELINES}
    values |= {"quick": {2: 110.0}, "same": {3: 100.0}, "never": {}}
    found = estimates(
        by_arm(campaign(values)),
        ["quick", "same", "never"],
        ("chat", "output_throughput"),
        Design(),
        "baseline",
    )
    low, high = found["quick"].interval()
    assert low < math.log(1.1) < high and high - low < 0.15
    assert found["quick"].df == 5 and found["never"] is None


def test_every_baseline_of_a_block_counts_and_only_one_has_a_row(campaign, design):
    rng = np.random.default_rng(9)
    arms = (*BASELINES, "baseline-prime-3", "baseline-prime-4", "v")
    values = {a: {b: 100 * math.exp(rng.normal(0, 0.01)) for b in range(1, 5)} for a in arms}
    e = examine(campaign(values), {}, design)
    assert e.names == ("v", "baseline-prime")
    assert [len(row) for row in e.tested["v"].logs.values()] == [5] * 4
    assert (e.tested["v"].factor, e.tested["baseline-prime"].factor) == (1.25, 2)
    assert {n: d.go_on for n, d in decide_arms(campaign(values), {}, design | {"blocks": 4}).items()}[
        "v"
    ] is False


def test_about_the_root_of_the_variants_takes_fewest_launches():
    for variants in (4, 9, 16, 40, 200):
        work = {m: (variants + m) * (1 + 1 / m) for m in range(2, 30)}
        assert work[best_baselines(variants)] <= 1.005 * min(work.values())
