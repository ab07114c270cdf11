"""Which arms go on after each block."""

import math

import numpy as np
import pytest
from sglang_sweep.verdict.settled import decide_arms


def run(campaign, values, design, blocks, evidence=None, extra=()):
    seen = {arm: {b: x for b, x in of.items() if b <= blocks} for arm, of in values.items()}
    return decide_arms([*campaign(seen), *extra], evidence or {}, design, variants=[])


@pytest.fixture
def adaptive(design):
    return design | {"mode": "adaptive", "smallest_effect": 0.02, "max_blocks": 12}


@pytest.fixture
def values():
    rng = np.random.default_rng(2)
    arms = {"baseline": 1.0, "baseline-prime": 1.0, "half": 0.5, "nothing": 1.0, "gain": 1.03}
    return {a: {b: 100 * r * math.exp(rng.normal(0, 0.01)) for b in range(1, 13)} for a, r in arms.items()}


def test_nothing_stops_before_the_third_block(campaign, values, adaptive):
    assert all(d.go_on for d in run(campaign, values, adaptive, 2).values())


def test_a_large_loss_stops_first_and_the_baselines_go_on_for_the_rest(campaign, values, adaptive):
    after = run(campaign, values, adaptive, 3)
    assert not after["half"].go_on and "LOSS" in after["half"].reason
    assert after["gain"].go_on and after["baseline"].go_on and after["baseline-prime"].go_on


def test_the_campaign_ends_when_every_arm_is_settled(campaign, values, adaptive):
    stopped = next(b for b in range(3, 13) if not run(campaign, values, adaptive, b)["baseline"].go_on)
    assert 3 < stopped <= 12
    last = run(campaign, values, adaptive, stopped)
    reasons = {d.reason.split(": ")[-1] for n, d in last.items() if "baseline" not in n}
    assert reasons <= {"LOSS", "NO_DIFFERENCE", "wins; is it steady?"}


def test_a_winner_goes_on_alone_until_nine_launches_have_shown_it_steady(campaign, values, adaptive):
    won = next(b for b in range(3, 13) if run(campaign, values, adaptive, b)["gain"].alone)
    others = {n: {b: x for b, x in of.items() if b <= won} for n, of in values.items() if n != "gain"}
    go_on = [run(campaign, others | {"gain": values["gain"]}, adaptive, b) for b in (won, 8, 9)]
    assert [d["gain"].go_on for d in go_on] == [True, True, False]
    assert go_on[1]["gain"].alone


def test_an_unstable_arm_stops_once_three_launches_show_it(campaign, launch, values, adaptive):
    failed = [launch("gone", 1, cause="crashed")]
    values["gone"] = dict.fromkeys((2, 3), 100.0)
    assert run(campaign, values, adaptive, 2, extra=failed)["gone"].go_on
    assert run(campaign, values, adaptive, 3, extra=failed)["gone"].reason == "settled: UNSTABLE"


def test_a_settled_arm_stays_settled_when_the_others_go_on(campaign, values, adaptive):
    frozen = dict(values)
    for block in range(3, 13):
        decisions = run(campaign, frozen, adaptive, block)
        stopped = [n for n, d in decisions.items() if not d.go_on and "baseline" not in n]
        for name in stopped:
            frozen[name] = {b: x for b, x in frozen[name].items() if b <= block}
        later = run(campaign, frozen, adaptive, 12)
        assert all(not later[name].go_on for name in stopped)


def test_dead_ends_stop_after_the_confirming_launch_in_either_mode(
    campaign, launch, values, design, adaptive
):
    one, two = ([launch("dead", b, cause="bad_flag") for b in range(1, n + 1)] for n in (1, 2))
    for mode in (design, adaptive):
        assert run(campaign, values, mode, 1, extra=one)["dead"].go_on
        assert run(campaign, values, mode, 2, extra=two)["dead"].reason == "settled: DEAD_END"


def test_a_change_that_never_engages_stops_after_two_launches(campaign, values, adaptive):
    evidence = {"nothing": {"engagement": {"state": "not_engaged"}}}
    assert run(campaign, values, adaptive, 1, evidence)["nothing"].go_on
    assert not run(campaign, values, adaptive, 2, evidence)["nothing"].go_on


def test_fixed_mode_never_stops_for_a_speed(campaign, values, design):
    after = run(campaign, values, design | {"blocks": 6}, 5)
    assert after["half"].go_on and after["baseline"].go_on
    assert not run(campaign, values, design | {"blocks": 5}, 5)["half"].go_on


def test_an_arm_stops_when_the_host_is_too_noisy_to_settle_it(campaign, adaptive):
    rng = np.random.default_rng(0)
    arms = ("baseline", "baseline-prime", "a", "b", "c", "d")
    values = {arm: {b: 100 * math.exp(rng.normal(0, 0.06)) for b in range(1, 13)} for arm in arms}
    after = run(campaign, values, adaptive, 6)
    assert any("chance to settle" in d.reason for d in after.values())


def test_a_void_session_stops_the_campaign(campaign, values, adaptive):
    values["baseline-prime"] = {b: x * 1.3 for b, x in values["baseline-prime"].items()}
    after = run(campaign, values, adaptive, 6)
    assert not after["baseline"].go_on
    assert "void" in after["gain"].reason


def test_the_last_block_is_the_last(campaign, values, adaptive):
    design = adaptive | {"max_blocks": 4, "smallest_effect": 0.001}
    assert "4 of 4" in run(campaign, values, design, 4)["nothing"].reason
