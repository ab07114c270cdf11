import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest
from sglang_sweep.costs.communication import KIB, Curve, bench_command, make_spec, measure, read_curves
from sglang_sweep.costs.communication_model import allreduce_bytes, cliffs, compare, growth, report
from sglang_sweep.errors import InfrastructureFault, UserError
from sglang_sweep.traces.breakdown import analyze

RECORDED = Path(__file__).parents[1] / "recordings" / "communication"


@pytest.fixture
def nccl():
    return read_curves(RECORDED / "h200x2-nccl-2.28.9.json")


def curve_of(curves, setting, mode):
    return next(curve for curve in curves if (curve.setting, curve.mode) == (setting, mode))


def made(latency, sizes=(4096, 8192, 16384, 32768, 65536)):
    latency = np.array(latency, dtype=float)
    return Curve("made", "graph", np.array(sizes, dtype=float), latency, 0.95 * latency, 1.05 * latency)


def test_a_message_is_the_hidden_states_of_the_tokens_in_flight(recording):
    message = allreduce_bytes(tokens=1, hidden_size=4096)
    (extend, _) = analyze(recording("nccl"))["steps"]
    assert extend["allreduce"]["message_bytes"] == {str(message): 65}


def test_latency_is_interpolated_on_logarithms_and_held_at_the_ends(nccl):
    curve = curve_of(nccl, "default", "graph")
    at = {int(size): value for size, value in zip(curve.sizes, curve.latency, strict=True)}
    assert curve.at(8192) == pytest.approx(at[8192])
    assert curve.at(math.sqrt(8192 * 16384)) == pytest.approx(math.sqrt(at[8192] * at[16384]))
    assert curve.at(16) == pytest.approx(at[4096])
    assert curve.at(128 << 20) == pytest.approx(2 * at[64 << 20])


def test_nccl_tree_has_a_recorded_cliff_where_its_protocol_changes(nccl):
    (cliff,) = cliffs(curve_of(nccl, "tree", "graph"))
    assert (cliff["from_bytes"], cliff["to_bytes"]) == (128 * KIB, 256 * KIB)
    assert cliff["ratio"] == pytest.approx(2.0, abs=0.1)


def test_nccl_ring_has_none(nccl):
    assert cliffs(curve_of(nccl, "default", "graph")) == []


def test_bandwidth_beginning_to_rule_is_no_cliff():
    assert cliffs(made([10, 10, 12, 22, 44])) == []


def test_a_jump_beyond_bandwidth_is_a_cliff_even_at_the_end():
    (cliff,) = cliffs(made([10, 10, 10, 10, 30]))
    assert cliff["ratio"] == 3


def test_a_jump_within_the_noise_is_no_cliff():
    curve = made([10, 10, 30, 31, 31])
    noisy = Curve("made", "eager", curve.sizes, curve.latency, curve.latency * 0.3, curve.latency * 3)
    assert cliffs(noisy) == []


def test_prediction_stands_beside_the_profile_and_tpot(nccl, recording):
    rows = compare(
        curve_of(nccl, "default", "graph"), analyze(recording("nccl")), {"DECODE": 8192}, tpot_ms=3.78
    )
    (row,) = rows
    assert row["count"] == 65
    assert row["predicted_ms"] == pytest.approx(65 * 9.565 / 1e3, abs=1e-3)
    assert row["profiled_ms"] == pytest.approx(0.4045, abs=1e-3)
    assert row["share_of_tpot"] == pytest.approx(0.4045 / 3.78, abs=1e-3)


def test_growth_by_size_by_a_missing_graph_and_by_neither_are_told_apart():
    graph = made([10, 10, 10, 27, 30])
    eager = Curve("made", "eager", graph.sizes, graph.latency * 6, graph.latency * 5, graph.latency * 7)
    by_size = growth([graph, eager], "made", (8192, 92), (32768, 246))
    assert by_size["explained_by"] == "message size"
    flat = made([10, 10, 10, 10, 10])
    slow = Curve("made", "eager", flat.sizes, flat.latency * 2.6, flat.latency, flat.latency)
    assert growth([flat, slow], "made", (8192, 92), (32768, 246))["explained_by"].endswith("CUDA graph")
    neither = growth([flat], "made", (8192, 92), (32768, 246))
    assert neither["explained_by"] is None
    assert "skew" in neither["sentence"]


def test_gloo_on_a_cpu_is_a_curve_like_any_other():
    (curve,) = read_curves(RECORDED / "cpu-gloo.json")
    assert (curve.setting, curve.mode) == ("default", "eager")
    assert curve.at(4096) > 50


def test_the_spec_follows_the_device_and_the_command_uses_the_stacks_interpreter(tmp_path):
    assert make_spec(device="cpu", ranks=2)["backend"] == "gloo"
    gpu = make_spec(device="cuda", ranks=8, settings=[{"name": "ll", "env": {"NCCL_MIN_NCHANNELS": 8}}])
    assert gpu["modes"] == ["eager", "graph"]
    assert gpu["settings"][0]["env"] == {"NCCL_MIN_NCHANNELS": "8"}
    assert (min(gpu["sizes"]), max(gpu["sizes"])) == (4 << 10, 64 << 20)
    command = bench_command("/stack/python", tmp_path / "spec.json", tmp_path / "out.json")
    assert command[0] == "/stack/python"
    assert Path(command[1]).name == "communication_bench.py"
    assert Path(command[1]).exists()


def test_the_report_sets_rows_cliffs_and_growth_beside_each_other(nccl, recording):
    profiles = {case: analyze(recording(case)) for case in ("torch-symm-mem", "eagle3-random-draft")}
    found = report(nccl, profiles, 4096, num_draft_tokens=4, tpot_ms={"torch-symm-mem": 3.449})
    rows = {(row["variant"], row["kind"]): row for row in found["rows"]}
    assert rows["torch-symm-mem", "DECODE"]["bytes"] == 8192
    assert rows["torch-symm-mem", "DECODE"]["share_of_tpot"] == pytest.approx(0.1442 / 3.449, abs=1e-3)
    assert rows["eagle3-random-draft", "TARGET_VERIFY"]["bytes"] == 4 * 8192
    assert found["growth"]["explained_by"] == "message size"  # 2.2 to 2.3 us: both are flat
    assert {cliff["setting"] for cliff in found["cliffs"]} >= {"tree"}


def test_a_setting_that_cannot_run_is_recorded_with_its_own_words(tmp_path):
    # the workflow's interpreter has no torch: the ranks die, and say why
    result = measure(sys.executable, tmp_path / "out.json", device="cpu", ranks=2, timeout_s=60)
    assert result["results"] == []
    assert "No module named 'torch'" in result["errors"][0]["message"]
    assert (tmp_path / "out.spec.json").exists()


def test_an_interpreter_that_dies_is_an_infrastructure_fault(tmp_path):
    with pytest.raises(InfrastructureFault, match="wrote nothing"):
        measure("/bin/false", tmp_path / "out.json", device="cpu", ranks=2)


@pytest.mark.sglang
def test_gloo_is_measured_on_two_ranks_of_the_cpu_stack(cpu_stack_python, tmp_path):
    out = tmp_path / "out.json"
    measure(cpu_stack_python, out, device="cpu", ranks=2, sizes=[4096, 65536], repeats=10, timeout_s=120)
    (curve,) = read_curves(out)
    assert curve.sizes.tolist() == [4096, 65536]
    assert (curve.latency > 0).all()


def test_a_result_without_measurements_says_why(tmp_path):
    path = tmp_path / "out.json"
    path.write_text(json.dumps({"results": [], "errors": [{"setting": "tree", "message": "invalid usage"}]}))
    with pytest.raises(UserError, match="tree: invalid usage"):
        read_curves(path)
    path.write_text("{}")
    with pytest.raises(UserError, match="not a result"):
        read_curves(path)
