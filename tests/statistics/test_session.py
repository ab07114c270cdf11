"""From launch.json records to the numbers of verdicts.json."""

import json
import math

import numpy as np
import pytest
from sglang_sweep.verdict.analysis import analyse
from sglang_sweep.verdict.session import examine


def noisy(rng, ratio=1.0, blocks=3, sd=0.01, base=20.0):
    return {b: base * ratio * math.exp(rng.normal(0, sd)) for b in range(1, blocks + 1)}


@pytest.fixture
def values():
    rng = np.random.default_rng(11)
    return {
        "baseline": noisy(rng),
        "baseline-prime": noisy(rng),
        "half": noisy(rng, 0.5),
        "nothing": noisy(rng),
    }


def row(result, name):
    return next(v for v in result["variants"] if v["name"] == name)


@pytest.mark.parametrize("mode", ["fixed", "adaptive"])
def test_three_blocks_show_a_large_loss_and_an_equivalence(campaign, design, values, mode):
    result = analyse(campaign(values), {}, design | {"mode": mode}, variants=["half", "nothing"])
    assert [v["verdict"] for v in result["variants"]] == ["LOSS", "NO_DIFFERENCE", "NO_DIFFERENCE"]
    assert [v["name"] for v in result["variants"]] == ["half", "nothing", "baseline-prime"]
    assert row(result, "half")["ratio"] == pytest.approx(0.5, rel=0.03)
    assert not result["session"]["void"]
    json.dumps(result, allow_nan=False)


def test_windows_are_averaged_never_counted(launch, design):
    few = [launch(a, b, (x, x)) for b in (1, 2, 3) for a, x in (("baseline", 10 + b), ("v", 11 + b * b))]
    many = [
        launch(a, b, (x - 1, x + 1) * 9)
        for b in (1, 2, 3)
        for a, x in (("baseline", 10 + b), ("v", 11 + b * b))
    ]
    for name in ("ratio", "p_value", "ci95", "blocks"):
        assert row(analyse(few, {}, design), "v")[name] == pytest.approx(
            row(analyse(many, {}, design), "v")[name]
        )


def test_a_latency_is_oriented_so_that_above_one_is_better(launch, design):
    records = [
        launch(arm, block, (10, 10), metrics={"mean_ttft_ms": ttft + block / 100})
        for block in (1, 2, 3)
        for arm, ttft in (("baseline", 200), ("baseline-prime", 200), ("v", 100))
    ]
    slow = design | {"primary": {"workload": "chat", "metric": "mean_ttft_ms"}}
    v = row(analyse(records, {}, slow), "v")
    assert (v["verdict"], round(v["ratio"], 2)) == ("WIN", 2.0)
    assert v["metrics"][0]["primary"] and v["metrics"][0]["metric"] == "mean_ttft_ms"
    assert v["metrics"][0]["variant_mean"] == pytest.approx(100.02)
    assert v["launches"][0]["value"] == pytest.approx(100.01)


def test_metrics_that_are_not_primary_are_shown_without_a_test(launch, design):
    records = [
        launch(
            arm, block, (10 + block, 10 + block), metrics={"p99_ttft_ms": 100 + block * 7 % 5, "goodput": 0.0}
        )
        for block in (1, 2, 3, 4)
        for arm in ("baseline", "baseline-prime", "v")
    ]
    shown = {m["metric"]: m for m in row(analyse(records, {}, design), "v")["metrics"]}
    assert set(shown["p99_ttft_ms"]) == {
        "workload", "metric", "unit", "ratio", "ci95", "primary", "baseline_mean", "variant_mean",
    }  # fmt: skip
    assert (
        shown["goodput"]["ratio"] is None and shown["goodput"]["variant_mean"] == 0.0
    )  # in every launch of all


def test_the_means_shown_are_those_of_the_blocks_that_the_ratio_is_of(launch, design):
    slow = {1: 10.0, 2: 10.0, 3: 99.0}  # the variant has no third launch
    records = [launch(a, b, (x, x)) for b, x in slow.items() for a in ("baseline", "baseline-prime")]
    records += [launch("v", block, (11, 11)) for block in (1, 2)]
    shown = row(analyse(records, {}, design), "v")["metrics"][0]
    assert (shown["baseline_mean"], shown["variant_mean"]) == (10, 11)
    assert shown["ratio"] == pytest.approx(1.1)


def test_removed_launches_are_listed_with_their_rule_and_leave_the_others(campaign, design, values):
    records = campaign(values)
    hot = next(r for r in records if r["variant"] == "half" and r["block"] == 2)
    hot["host_samples"]["after"] = {"gpus": [{"index": 0, "throttle_reasons": ["hw_slowdown"]}]}
    result = analyse(records, {}, design)
    half = row(result, "half")
    assert half["blocks"] == 2 and half["more_blocks"] == 1
    assert [entry["removed"] for entry in half["launches"]] == [None, "throttling", None]
    assert [(r["arm"], r["block"], r["rule"]) for r in result["session"]["removed"]] == [
        ("half", 2, "throttling")
    ]
    assert "throttling" in half["reasons"][0]


def test_a_pair_measured_days_apart_is_stale(launch, design):
    base = [launch(a, b, (10, 10), minutes=b) for b in (1, 2, 3) for a in ("baseline", "baseline-prime")]
    late = [launch("late", b, (20, 20), minutes=60 * 24 * 3 + b) for b in (1, 2, 3)]
    elsewhere = [launch("elsewhere", b, (20, 20), minutes=b, host="another") for b in (1, 2, 3)]
    for record in base:
        record["host"]["gpus_digest"] = "ours"
    sister = [launch("sister", b, (20, 20), minutes=b, gpus="theirs") for b in (1, 2, 3)]
    untold = [launch("untold", b, (20, 20), minutes=b) for b in (1, 2, 3)]
    result = analyse([*base, *late, *elsewhere, *sister, *untold], {}, design)
    assert {row(result, n)["verdict"] for n in ("late", "elsewhere", "sister")} == {"STALE"}
    assert row(result, "untold")["blocks"] == 3  # records made before the GPUs were told apart
    assert row(result, "late")["launches"][0]["removed"] == "stale"
    fresh = design | {"contemporary_hours": 24 * 4}
    assert row(analyse([*base, *late], {}, fresh), "late")["blocks"] == 3


def test_failures_are_results_and_evidence_decides_before_speed(campaign, launch, design, values):
    dead = [launch("dead", b, cause="bad_flag") for b in (1, 2)] + [launch("dead", 3, outcome="not_run")]
    once = [launch("once", 1, cause="crashed")]
    evidence = {
        "half": {"confounds": [{"setting": "dtype", "moves_performance": True, "declared": False}]},
        "nothing": {"engagement": {"state": "not_engaged"}},
    }
    result = analyse([*campaign(values), *dead, *once], evidence, design, variants=["dead", "once", "later"])
    assert {v["name"]: v["verdict"] for v in result["variants"]} == {
        "dead": "DEAD_END",
        "once": "INCONCLUSIVE",
        "later": "PLANNED",
        "half": "CONFOUNDED",
        "nothing": "NO_OP",
        "baseline-prime": "NO_DIFFERENCE",
    }
    assert (row(result, "dead")["outcome"], row(result, "dead")["cause"]) == ("failed", "bad_flag")
    assert row(result, "once")["more_blocks"] == 1
    assert result["session"]["family"] == ["once"]
    assert row(result, "half")["ratio"] == pytest.approx(0.5, rel=0.03)  # shown, not believed


def test_accepted_confounds_do_not_count(campaign, design, values):
    accepted = {"setting": "dtype", "moves_performance": True, "declared": True}
    harmless = {"setting": "log_level", "moves_performance": False, "declared": False}
    result = analyse(campaign(values), {"half": {"confounds": [accepted, harmless]}}, design)
    assert row(result, "half")["verdict"] == "LOSS"


def test_baselines_that_differ_void_every_verdict_on_speed(campaign, design, values):
    values["baseline-prime"] = {b: x * 1.2 for b, x in values["baseline"].items()}
    values["baseline-prime"][1] *= 1.001
    result = analyse(campaign(values), {}, design)
    assert result["session"]["void"] and "p = " in result["session"]["reasons"][0]
    assert {v["verdict"] for v in result["variants"]} == {"INCONCLUSIVE"}
    assert row(result, "half")["more_blocks"] is None


def test_an_inconclusive_variant_says_how_many_more_blocks_would_settle_it(campaign, design):
    values = {
        "baseline": {1: 100.0, 2: 101.0, 3: 99.0},
        "baseline-prime": {1: 101.0, 2: 100.0, 3: 100.0},
        "v": {1: 101.0, 2: 110.0, 3: 115.0},
    }
    v = row(analyse(campaign(values), {}, design | {"mode": "adaptive"}), "v")
    assert v["verdict"] == "INCONCLUSIVE" and v["more_blocks"] >= 1 and v["fresh_blocks"] is None


def test_a_fixed_design_is_tested_once_so_only_fresh_blocks_may_settle_it(campaign, design):
    values = {
        "baseline": {1: 100.0, 2: 101.0, 3: 99.0},
        "baseline-prime": {1: 101.0, 2: 100.0, 3: 100.0},
        "v": {1: 101.0, 2: 110.0, 3: 115.0},
    }
    v = row(analyse(campaign(values), {}, design), "v")
    assert v["verdict"] == "INCONCLUSIVE" and v["more_blocks"] is None and v["fresh_blocks"] >= 3


@pytest.mark.parametrize("mode", ["fixed", "adaptive"])
def test_swapping_the_baselines_changes_nothing_for_variants(campaign, design, values, mode):
    swapped = dict(values, **{"baseline": values["baseline-prime"], "baseline-prime": values["baseline"]})
    one, other = (examine(campaign(v), {}, design | {"mode": mode}) for v in (values, swapped))
    for name in ("half", "nothing"):
        assert one.facts[name].p_holm == pytest.approx(other.facts[name].p_holm, rel=1e-9)
        assert one.tested[name].comparison.ci95 == pytest.approx(
            other.tested[name].comparison.ci95, rel=1e-12
        )
    a, b = (e.tested["baseline-prime"].comparison for e in (one, other))
    assert a.log_ratio == pytest.approx(-b.log_ratio, abs=1e-12)


def test_one_variant_without_a_second_baseline_still_works(launch, design):
    records = [
        launch(a, b, (x, x)) for b in (1, 2, 3) for a, x in (("baseline", 10 + b / 50), ("v", 20 + b / 40))
    ]
    for mode in ("fixed", "adaptive"):
        assert row(analyse(records, {}, design | {"mode": mode}), "v")["ratio"] == pytest.approx(2, rel=0.01)


def test_shared_noise_does_not_convince_where_an_arms_own_noise_does_not(campaign, design):
    quiet = {b: 100.0 + 0.01 * (b % 2) for b in range(1, 5)}
    values = {"baseline": quiet, "baseline-prime": dict(quiet), "calm": dict(quiet)}
    values["wild"] = {1: 101.0, 2: 130.0, 3: 104.0, 4: 125.0}
    e = examine(campaign(values), {}, design | {"mode": "adaptive"})
    assert str(e.decisions["wild"].verdict) == "INCONCLUSIVE"
