import pytest
from sglang_sweep.costs.speculation_arms import point_of, speculation_of


def launch(block, rate, accept=None, outcome="completed", **changes):
    metrics = {"total_output_tokens": 512, "accept_length": accept, "mean_tpot_ms": 0.0006}
    windows = [
        {"workload": "chat", "window": n, "valid": True, "duration_s": 512 / rate, "metrics": metrics}
        for n in range(2)
    ]
    return {"block": block, "outcome": outcome, "windows": windows} | changes


def test_the_recorded_rates_give_the_recorded_break_even():
    found = speculation_of(
        [launch(b, 285.0) for b in (1, 2)],
        {
            "random": [launch(b, 179.4, 1.0) for b in (1, 2)],
            "simulated": [launch(b, 364.8, 3.0) for b in (1, 2)],
        },
        workload="chat",
        concurrency=1,
        n_steps=3,
        simulated=["simulated"],
    )
    assert found["break_even"]["accept_length"] == pytest.approx(1.946, abs=2e-3)
    assert found["break_even"]["ci95"] == pytest.approx([1.946, 1.946], abs=2e-3)
    assert found["measured"]["name"] == "random"


def test_blocks_in_which_an_arm_failed_do_not_enter_the_interval():
    arms = {"random": [launch(1, 179.4, 1.0), launch(2, 179.4, 1.0, outcome="failed"), launch(3, 179.4, 1.0)]}
    found = speculation_of(
        [launch(1, 285.0), launch(2, 999.0), launch(3, 285.0)],
        arms,
        workload="chat",
        concurrency=1,
        n_steps=3,
    )
    assert found["break_even"]["ci95"] == pytest.approx([1.5886, 1.5886], abs=1e-3)


def test_a_baseline_of_another_session_does_not_move_the_economics():
    arms = {"random": [launch(b, 179.4, 1.0) for b in (1, 2)]}
    economics = {"workload": "chat", "concurrency": 1, "n_steps": 3}
    alone = speculation_of([launch(b, 285.0) for b in (1, 2)], arms, **economics)
    later = [launch(b, 999.0) for b in (3, 4)]
    assert speculation_of([*(launch(b, 285.0) for b in (1, 2)), *later], arms, **economics) == alone
    assert (
        speculation_of(later, arms, **economics)["break_even"]["ci95"] is None
    )  # nothing shared: no interval


def test_invalid_windows_and_other_workloads_are_left_out():
    good, bad = launch(1, 200.0, 2.0), launch(1, 10.0, 2.0)
    bad["windows"][0]["valid"] = False
    bad["windows"][1]["workload"] = "other"
    point = point_of("x", [good, bad], "chat", 1)
    assert point["total_output_tokens"] / point["duration_s"] == pytest.approx(200.0)


def test_the_accept_length_of_unequal_windows_is_tokens_over_verifies():
    mixed = launch(1, 100.0, 1.0)
    mixed["windows"][1] = launch(1, 100.0, 3.0)["windows"][1]
    assert point_of("x", [mixed], "chat", 1)["accept_length"] == pytest.approx(1024 / (512 + 512 / 3))


def test_without_a_completed_arm_there_is_nothing_to_say():
    base = [launch(1, 285.0)]
    failed = {"random": [launch(1, 179.4, 1.0, outcome="failed")]}
    assert speculation_of(base, failed, workload="chat", concurrency=1, n_steps=3) is None
    assert (
        speculation_of([], {"r": [launch(1, 179.4, 1.0)]}, workload="chat", concurrency=1, n_steps=3) is None
    )
