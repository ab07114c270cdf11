import copy

import pytest
from sglang_sweep.costs.link import explain_difference
from sglang_sweep.traces.breakdown import analyze


@pytest.fixture(scope="module")
def profiles(recording):
    return {case: analyze(recording(case)) for case in ("nccl", "torch-symm-mem", "eagle3-random-draft")}


def test_the_custom_all_reduce_explains_why_it_beat_nccl(profiles):
    found = explain_difference(profiles["nccl"], profiles["torch-symm-mem"], 270.9 / 244.2)
    assert found["explained"]
    (move,) = found["moved"]
    assert (move["phase"], move["class"]) == ("DECODE", "all_reduce")
    assert (move["ms_before"], move["ms_after"]) == pytest.approx((0.4045, 0.1442), abs=1e-3)
    assert move["share_of_change"] > 0.9
    assert "all-reduce in DECODE went from 0.405 to 0.144 ms" in found["sentence"]


def test_a_loss_with_a_shorter_cycle_is_not_explained(profiles):
    found = explain_difference(profiles["nccl"], profiles["torch-symm-mem"], 0.9)
    assert not found["explained"]
    assert "became shorter" in found["sentence"]


def test_a_change_outside_the_kernels_is_not_explained_by_them(profiles):
    found = explain_difference(profiles["nccl"], profiles["torch-symm-mem"], 2.0)
    assert not found["explained"]
    assert "outside the kernels" in found["sentence"]


def test_equal_profiles_explain_nothing(profiles):
    found = explain_difference(profiles["nccl"], copy.deepcopy(profiles["nccl"]), 1.05)
    assert (found["moved"], found["explained"]) == ([], False)


def test_speculation_against_none_is_left_to_the_economics(profiles):
    found = explain_difference(profiles["torch-symm-mem"], profiles["eagle3-random-draft"], 0.63)
    assert (found["moved"], found["explained"]) == ([], False)
    assert "economics" in found["sentence"]


def test_a_profile_without_a_decode_cycle_is_said_to_be_none(profiles):
    empty = {"steps": [], "cycle": {}}
    assert "no decode cycle" in explain_difference(empty, profiles["nccl"], 1.1)["sentence"]


def test_profiles_that_keep_their_stages_apart_are_compared_by_decode(profiles):
    apart = [{"decode": profiles[case], "prefill": {"error": "x"}} for case in ("nccl", "torch-symm-mem")]
    assert explain_difference(*apart, 1.11)["explained"]
    assert not explain_difference({"decode": {"error": "truncated"}}, apart[1], 1.11)["explained"]
