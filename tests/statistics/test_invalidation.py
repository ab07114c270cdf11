"""Invalidation rules on recorded client results and on constructed faults."""

import copy
import json
from pathlib import Path

import pytest
from sglang_sweep.statistics.invalidation import RULES, removals, rules_in_force
from sglang_sweep.statistics.launches import measured

RECORDINGS = Path(__file__).parents[1] / "recordings" / "h200x2-sglang-0.5.16"


def recorded(case):
    """A launch whose windows are the client's real output of a recording, each as a workload of its own."""
    lines = (RECORDINGS / case / "bench.jsonl").read_text(encoding="utf-8").splitlines()
    windows = [
        {"workload": f"w{i}", "window": 0, "duration_s": m["duration"], "metrics": m}
        for i, m in enumerate(map(json.loads, lines))
    ]
    return {"variant": case, "windows": windows, "outcome": "completed"}


def ids(launch):
    return {(r.rule, r.window) for r in removals(launch)}


@pytest.mark.parametrize("case", sorted(p.parent.name for p in RECORDINGS.glob("*/bench.jsonl")))
def test_healthy_recorded_windows_are_kept(case):
    assert ids(recorded(case)) == set()


def test_a_client_that_could_not_stream_its_tokens_is_caught():
    # Seen with simulated accept lengths: a mean TPOT of 0.0006 ms beside 364.8 tok/s.
    launch = recorded("eagle3-random-draft")
    launch["windows"][0]["metrics"]["mean_tpot_ms"] = 0.0006
    assert ids(launch) == {("latency_inconsistent", 0)}


def test_retractions_that_the_server_counted_are_seen_and_the_window_counts_as_it_was():
    launch = recorded("kv-retraction")
    before = measured(stamped(launch)).values
    launch["windows"][0]["retracted_requests"] = 4
    assert ids(launch) == {("kv_retraction", 0)}
    assert measured(stamped(launch)).values == before
    assert "kv_retraction" in measured(stamped(launch)).seen


def stamped(launch):
    return launch | {"block": 1, "key": "k", "started_at": "2026-11-30T12:00:00+00:00"}


def test_a_window_with_failed_requests_is_removed(launch):
    one = launch("v", 1, (10, 10), metrics={"completed": 7, "failed": 1})
    assert ids(one) == {("incomplete_requests", 0), ("incomplete_requests", 1)}


def test_the_speed_of_survivors_does_not_count_and_the_share_that_survived_does(launch):
    some = launch(
        "v", 1, (10, 10), metrics={"completed": 7, "failed": 1, "goodput": 0.5, "mean_ttft_ms": 9.0}
    )
    assert measured(some).raw == {("chat", "goodput"): 0.5, ("chat", "completion"): 7 / 8}
    none = launch("v", 1, (0, 0), metrics={"completed": 0, "failed": 8, "mean_ttft_ms": 0.0})
    assert measured(none).raw == {("chat", "output_throughput"): 0, ("chat", "completion"): 0}


def test_a_first_window_far_below_all_others_was_not_warmed_up(launch):
    assert ids(launch("v", 1, (8.9, 10, 10.1))) == {("cold_window", 0)}
    assert ids(launch("v", 1, (9.5, 10, 10.1))) == set()


def test_windows_whose_prompts_differ_by_a_few_tokens_are_kept(launch):
    one = launch("v", 1, (10, 10), metrics={"total_input_tokens": 1124})
    one["windows"][1]["metrics"]["total_input_tokens"] = 1150
    assert ids(one) == set()


def test_other_token_counts_for_the_same_prompts_are_a_mismatch(launch):
    one = launch("v", 1, (10, 10), metrics={"total_input_tokens": 100})
    one["windows"][1]["metrics"]["total_input_tokens"] = 512
    assert ids(one) == {("token_mismatch", 1)}


def test_heat_removes_the_launch_and_a_power_cap_does_not(launch):
    one = launch("v", 1, (10, 10))
    one["host_samples"]["after"] = {"gpus": [{"index": 0, "throttle_reasons": ["sw_power_cap"]}]}
    assert ids(one) == set()
    one["host_samples"]["after"]["gpus"][0]["throttle_reasons"] = ["gpu_idle", "HW Thermal Slowdown"]
    assert ids(one) == {("throttling", None)}


def test_a_process_that_was_there_before_us_removes_the_launch(launch):
    one = launch("v", 1, (10, 10))
    one["clean_room"]["before"]["processes"] = [{"pid": 7, "name": "python"}]
    assert ids(one) == {("foreign_process", None)}


def test_every_rule_is_blind_to_which_arm_it_judges(launch):
    one = launch("baseline", 1, (8, 10, 10), metrics={"completed": 7, "failed": 1})
    other = copy.deepcopy(one) | {"variant": "something-else", "key": "f" * 10, "block": 9}
    assert removals(one) == removals(other)


def test_windows_marked_when_measured_stay_removed_and_are_marked_once(launch):
    one = launch("v", 1, (8, 10, 10))
    one["windows"][0] |= {"valid": False, "invalid": ["cold_window"]}
    assert ids(one) == {("cold_window", 0)}


def test_a_rule_is_in_force_only_where_its_input_was_recorded(launch):
    one = launch("v", 1, (10, 10, 10))
    assert "throttled_window" not in {rule.id for rule in rules_in_force([one])}
    hot = {"index": 1, "sm_mhz_min": 900, "throttle_reasons": ["sw_power_cap", "sw_thermal_slowdown"]}
    one["windows"][1]["gpus"] = [hot]
    assert "throttled_window" in {rule.id for rule in rules_in_force([one])}
    assert ids(one) == {("throttled_window", 1)}


def test_rules_have_unique_ids_and_say_what_they_do():
    assert len({rule.id for rule in RULES}) == len(RULES)
    assert all(rule.description and rule.scope in ("launch", "window") for rule in RULES)
