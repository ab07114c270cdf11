import pytest
from sglang_sweep.costs.speculation import economics, throughput_of
from sglang_sweep.errors import UserError
from sglang_sweep.traces.breakdown import analyze

# recorded on 2x H200, sglang 0.5.16, concurrency 1 (docs/profiles.md works these through by hand)
BASELINE = {"throughput": 285.0}
RANDOM_DRAFT = {"name": "random draft", "accept_length": 1.0, "throughput": 179.4}
SIMULATED = {
    "name": "simulated 3",
    "accept_length": 3.0,
    "throughput": 364.8,
    "simulated": True,
    "mean_tpot_ms": 0.0006,
}


def test_the_recorded_cases_give_the_break_even_of_the_arithmetic_by_hand():
    found = economics(BASELINE, [RANDOM_DRAFT, SIMULATED], 3)
    assert found["t_decode_ms"] == pytest.approx(3.509, abs=1e-3)  # 1000 / 285.0
    assert [p["cycle_ms"] for p in found["points"]] == pytest.approx([5.574, 8.224], abs=1e-3)
    assert found["cycle"]["per_token_ms"] == pytest.approx(1.325, abs=1e-3)  # (8.224 - 5.574) / 2
    assert found["cycle"]["fixed_ms"] == pytest.approx(4.249, abs=1e-3)  # 5.574 - 1.325
    assert found["break_even"]["accept_length"] == pytest.approx(1.946, abs=2e-3)  # 4.249 / (3.509 - 1.325)
    assert found["ceiling"]["throughput"] == pytest.approx(418.9, abs=0.1)  # 4 / (4.249 + 4 x 1.325)
    assert found["ceiling"]["speedup"] == pytest.approx(1.470, abs=1e-3)
    assert found["measured"]["speedup"] == pytest.approx(179.4 / 285.0, abs=1e-3)


def test_one_accept_length_gives_the_constant_cycle_of_the_formula():
    found = economics(BASELINE, [RANDOM_DRAFT], 3)
    assert found["cycle"]["model"] == "constant"
    assert found["break_even"]["accept_length"] == pytest.approx(285.0 / 179.4, abs=1e-3)


def test_client_latencies_of_a_simulated_launch_never_enter_and_are_called_out():
    without = economics(
        BASELINE, [RANDOM_DRAFT, {k: v for k, v in SIMULATED.items() if k != "mean_tpot_ms"}], 3
    )
    with_tpot = economics(BASELINE, [RANDOM_DRAFT, SIMULATED], 3)
    assert with_tpot["break_even"] == without["break_even"]
    assert any("contradicts 364.8 tok/s" in note for note in with_tpot["notes"])


def test_tokens_over_wall_time_outrank_a_reported_throughput():
    assert throughput_of({"throughput": 1.0, "total_output_tokens": 512, "duration_s": 2.0}) == 256.0


def test_the_profile_splits_the_cycle_and_names_the_term_to_attack(recording):
    found = economics(
        BASELINE, [RANDOM_DRAFT, SIMULATED], 3, {"variant": analyze(recording("eagle3-random-draft"))}
    )
    terms = found["terms"]
    assert terms["t_verify_ms"] == pytest.approx(3.288, abs=2e-3)
    assert terms["draft_total_ms"] == pytest.approx(0.570, abs=2e-3)
    total = terms["t_verify_ms"] + 3 * terms["t_draft_ms"] + terms["overhead_ms"]
    assert total == pytest.approx(terms["cycle_ms"], abs=1e-3)
    assert found["attack"] == "acceptance"
    assert {lever["term"] for lever in found["levers"]} == {"acceptance", "verify", "draft", "overhead"}


def test_blocks_give_a_paired_interval_around_the_break_even():
    blocks = [1.0, 1.02, 0.97, 1.01]
    arms = [
        arm | {"blocks": [{"throughput": arm["throughput"] * factor} for factor in blocks]}
        for arm in (BASELINE, RANDOM_DRAFT, SIMULATED)
    ]
    # a block that slows every arm alike moves no ratio: pairing removes it
    found = economics(arms[0], arms[1:], 3)
    low, high = found["break_even"]["ci95"]
    assert low == pytest.approx(high, abs=1e-3)
    noise = [1.0, 1.01, 0.99, 1.0]
    arms[1]["blocks"] = [{"throughput": 179.4 * f * n} for f, n in zip(blocks, noise, strict=True)]
    low, high = economics(arms[0], arms[1:], 3)["break_even"]["ci95"]
    assert low < 1.946 < high < 2.1


def test_a_single_launch_has_no_interval():
    found = economics(BASELINE, [RANDOM_DRAFT], 3)
    assert found["break_even"]["ci95"] is None
    assert any("no interval" in note for note in found["notes"])


def test_a_cycle_dearer_than_full_acceptance_can_never_pay():
    found = economics({"throughput": 89.5}, [{"accept_length": 1.2, "throughput": 20.0}], 3)
    assert not found["break_even"]["reachable"]
    assert "No draft of this length can pay" in found["sentence"]


def test_noise_that_makes_a_cycle_cheaper_with_acceptance_is_not_believed():
    points = [{"accept_length": 1.0, "throughput": 100.0}, {"accept_length": 3.0, "throughput": 310.0}]
    assert economics({"throughput": 120.0}, points, 3)["cycle"]["model"] == "constant"


@pytest.mark.parametrize(
    ("point", "message"),
    [
        ({"accept_length": 0.5, "throughput": 10}, "at least 1"),
        ({"accept_length": None, "throughput": 10}, "at least 1"),
        ({"accept_length": 2, "throughput": 10, "concurrency": 16}, "concurrency"),
        ({"accept_length": 2}, "tokens and duration"),
    ],
)
def test_a_launch_that_cannot_be_used_is_refused_in_words(point, message):
    with pytest.raises(UserError, match=message):
        economics(BASELINE, [point], 3)


def test_nothing_measured_is_refused():
    with pytest.raises(UserError, match="no launch with speculation"):
        economics(BASELINE, [], 3)
