import gzip
import json
import shutil

import numpy as np
import pytest
from sglang_sweep.errors import UserError
from sglang_sweep.traces.breakdown import analyze
from sglang_sweep.traces.intervals import union_length
from sglang_sweep.traces.kernels import load
from sglang_sweep.traces.reader import read_trace
from sglang_sweep.traces.work import work_of


def of_kind(breakdown, kind):
    return next(step for step in breakdown["steps"] if step["kind"] == kind)


@pytest.mark.parametrize(
    ("case", "median", "path"),
    [("nccl", 6.2, "RING_LL"), ("nccl-tree", 6.9, "TREE_LL"), ("torch-symm-mem", 2.2, "custom")],
)
def test_a_decode_step_has_65_all_reduces_at_the_cost_of_the_fastest_rank(recording, case, median, path):
    reduces = of_kind(analyze(recording(case)), "DECODE")["allreduce"]
    assert reduces["count_per_step"] == 65  # two for each of 32 layers, one for the embedding
    assert round(reduces["us_median"], 1) == median
    assert reduces["path"] == path


def test_one_rank_alone_would_call_a_late_neighbour_communication(recording):
    both = of_kind(analyze(recording("nccl-tree")), "EXTEND")["allreduce"]
    assert both["one_rank_ms_per_step"]["0"] > 75
    assert both["ms_per_step"] < 0.8
    assert both["late_rank"] == 1
    assert both["skew_ms_by_late_rank"]["1"] > 0.99 * both["skew_ms"]


def test_the_real_share_of_communication_in_nccl_tree_is_about_14_percent(recording):
    assert of_kind(analyze(recording("nccl-tree")), "DECODE")["allreduce"]["share"] == pytest.approx(
        0.14, abs=0.01
    )


def test_verify_draft_and_draft_extend_are_told_apart(recording):
    breakdown = analyze(recording("eagle3-random-draft"))
    counts = {step["kind"]: step["allreduce"]["count_per_step"] for step in breakdown["steps"]}
    assert counts == {
        "EXTEND": 65,
        "draft_extend after prefill": 3,
        "draft": 6,  # two more draft tokens through one layer and its embedding
        "TARGET_VERIFY": 65,
        "draft_extend": 3,
    }
    assert [step["count"] for step in breakdown["steps"]] == [1, 1, 3, 3, 3]
    cycle = breakdown["cycle"]
    assert (cycle["kind"], cycle["count"], cycle["allreduces"]) == ("speculative", 3, 74)
    assert [phase["kind"] for phase in cycle["phases"]] == ["draft", "TARGET_VERIFY", "draft_extend"]


def test_busy_waiting_and_gaps_make_up_the_span(recording):
    for step in analyze(recording("nccl"))["steps"]:
        gap = step["gap_share"] * step["ms_per_step"]
        assert step["busy_ms"] + step["waiting_ms"] + gap == pytest.approx(step["ms_per_step"], rel=1e-3)


def test_every_kernel_of_the_recordings_is_known(recording):
    for case in ("nccl", "torch-symm-mem", "eagle3-random-draft"):
        assert analyze(recording(case))["unmatched"] == []


def test_a_single_rank_cannot_tell_cost_from_waiting_and_says_so(recording):
    breakdown = analyze(recording("nccl")[:1])
    assert breakdown["ranks"] == [0]
    reduces = of_kind(breakdown, "DECODE")["allreduce"]
    assert reduces["skew_ms"] is None
    assert any("cannot be told apart" in note for note in breakdown["notes"])


def test_streams_that_overlap_are_busy_once(tmp_path, maker):
    made = maker().annotation("step[DECODE bs=2]", 0, 100)
    for stream in (7, 8):
        made.kernel("my_gemm", 1000, 50, made.launch("cudaLaunchKernel", 10), stream=stream)
    step = of_kind(analyze([made.write(tmp_path / "t.json")]), "DECODE")
    assert (step["busy_ms"], step["ms_per_step"], step["kernels_per_step"]) == (0.05, 0.05, 2)
    assert step["classes"]["gemm"]["ms_per_step"] == 0.05


def test_a_kernel_belongs_to_the_step_that_launched_it_however_late_it_runs(tmp_path, maker):
    made = maker().annotation("draft", 0, 10).annotation("step[TARGET_VERIFY bs=1]", 20, 10)
    made.kernel("my_gemm", 500, 30, made.launch("cudaLaunchKernel", 5))
    made.kernel("my_gemm", 530, 70, made.launch("cudaGraphLaunch", 25))
    made.kernel("my_gemm", 600, 5, made.launch("cudaLaunchKernel", 15))  # between: outside of both
    breakdown = analyze([made.write(tmp_path / "t.json")])
    assert of_kind(breakdown, "draft")["busy_ms"] == 0.03
    assert of_kind(breakdown, "TARGET_VERIFY")["busy_ms"] == 0.07
    assert breakdown["attributed_by"] == "launch correlation"


def test_without_launches_the_gpu_annotation_decides(tmp_path, maker):
    made = maker().annotation("step[DECODE bs=1]", 1000, 60, 7, "gpu_user_annotation")
    made.kernel("my_gemm", 1005, 20).kernel("my_gemm", 2000, 20)
    breakdown = analyze([made.write(tmp_path / "t.json")])
    assert breakdown["attributed_by"] == "GPU annotation"
    assert of_kind(breakdown, "DECODE")["kernels_per_step"] == 1


def test_both_ways_of_attribution_agree_on_a_recording(tmp_path, recording):
    by_launch = of_kind(analyze(recording("nccl")), "DECODE")
    paths = []
    for rank, source in enumerate(recording("nccl")):
        content = json.loads(gzip.decompress(source.read_bytes()))
        content["traceEvents"] = [e for e in content["traceEvents"] if e.get("cat") != "cuda_runtime"]
        content["traceEvents"] = [e for e in content["traceEvents"] if e.get("cat") != "cuda_driver"]
        paths.append(tmp_path / f"TP-{rank}.trace.json")
        paths[-1].write_text(json.dumps(content))
    by_annotation = analyze(paths)
    assert by_annotation["attributed_by"] == "GPU annotation"
    assert of_kind(by_annotation, "DECODE")["allreduce"] == by_launch["allreduce"]


def test_batch_sizes_are_not_averaged_together(tmp_path, maker):
    made = maker()
    for number, batch in enumerate((1, 16)):
        made.annotation(f"step[DECODE bs={batch}]", 100 * number, 10)
        made.kernel("my_gemm", 1000 + 100 * number, 10, made.launch("cudaGraphLaunch", 100 * number + 1))
    steps = analyze([made.write(tmp_path / "t.json")])["steps"]
    assert [(step["batch_size"], step["count"]) for step in steps] == [(1, 1), (16, 1)]


def test_an_unknown_kernel_above_one_percent_is_listed(tmp_path, maker):
    made = maker().annotation("step[DECODE bs=1]", 0, 10)
    launch = made.launch("cudaGraphLaunch", 1)
    made.kernel("my_gemm", 100, 90, launch).kernel("zzz_mystery", 190, 9, launch)
    made.kernel("zzz_tiny", 199, 0.5, launch)
    (row,) = analyze([made.write(tmp_path / "t.json")])["unmatched"]
    assert (row["name"], row["kind"], row["count"]) == ("zzz_mystery", "DECODE", 1)
    assert row["share"] == pytest.approx(9 / 99.5, abs=1e-3)


def test_older_traces_without_annotations_are_cut_at_cuda_graphs(tmp_path, maker):
    made = maker().process("sglang::scheduler_TP0")
    for start in (0, 100):
        launch = made.launch("cudaGraphLaunch", start)
        made.kernel("my_gemm", start + 50, 10, launch).kernel(
            "cross_device_reduce_1stage", start + 60, 5, launch
        )
    (step,) = analyze([made.write(tmp_path / "t.json")])["steps"]
    assert (step["kind"], step["count"]) == ("CUDA graph of 2 kernels", 2)
    assert step["allreduce"]["path"] == "custom"


def test_older_traces_with_stacks_are_cut_at_the_workers_methods(tmp_path, maker):
    made = maker()
    worker = "sglang/srt/speculative/eagle_worker.py"
    for start, method in ((0, "draft"), (20, "verify"), (40, "forward_draft_extend_after_decode")):
        made.annotation(f"{worker}({700 + start}): {method}", start, 10, 1, "python_function")
        made.kernel("my_gemm", 500 + start, 5, made.launch("cudaGraphLaunch", start + 1))
    kinds = [step["kind"] for step in analyze([made.write(tmp_path / "t.json")])["steps"]]
    assert kinds == ["draft", "TARGET_VERIFY", "draft_extend"]


def test_a_trace_of_another_program_is_refused(tmp_path, maker):
    made = maker().annotation("ProfilerStep#1", 0, 10)
    made.kernel("my_gemm", 5, 5, made.launch("cudaLaunchKernel", 1))
    with pytest.raises(UserError, match="not a trace of an SGLang server"):
        analyze([made.write(tmp_path / "t.json")])


def test_a_trace_cut_before_its_first_step_says_how_far_it_was_read(tmp_path, recording):
    path = tmp_path / "decode-TP-0.trace.json.gz"
    path.write_bytes(recording("nccl")[0].read_bytes()[:900])
    with pytest.raises(UserError, match=r"ends early \(truncated\)"):
        analyze([path])


def test_steps_without_kernels_or_operators_are_refused(tmp_path, maker):
    with pytest.raises(UserError, match="neither GPU kernels nor operators"):
        analyze([maker().annotation("step[DECODE bs=1]", 0, 9).write(tmp_path / "t.json")])


def test_traces_of_two_profiles_are_refused(tmp_path, recording):
    with pytest.raises(UserError, match="not the same profile"):
        analyze([recording("nccl")[0], recording("eagle3-random-draft")[1]])
    for rank, stamp in enumerate(("1790857026.1", "1790857999.2")):
        shutil.copy(recording("nccl")[rank], tmp_path / f"{stamp}-TP-{rank}.trace.json.gz")
    with pytest.raises(UserError, match="of another profile"):
        analyze(sorted(tmp_path.iterdir()))


def test_two_traces_of_one_rank_are_refused(tmp_path, recording):
    copy = tmp_path / "decode-TP-0.trace.json.gz"
    shutil.copy(recording("nccl")[0], copy)
    with pytest.raises(UserError, match="two traces of rank 0"):
        analyze([recording("nccl")[0], copy])


def test_ranks_that_did_other_steps_are_refused(tmp_path, maker):
    paths = []
    for rank, name in enumerate(("step[DECODE bs=1]", "step[EXTEND bs=1 toks=8]")):
        made = maker().annotation(name, 0, 10)
        made.kernel("my_gemm", 20, 5, made.launch("cudaGraphLaunch", 1))
        paths.append(made.write(tmp_path / f"TP-{rank}.trace.json", rank, 2))
    with pytest.raises(UserError, match="not the same steps"):
        analyze(paths)


def test_ranks_with_batches_of_their_own_are_compared_and_noted(tmp_path, maker):
    paths = []
    for rank, name in enumerate(("step[DECODE bs=1]", "step[DECODE bs=4]")):
        made = maker().annotation(name, 0, 10)
        made.kernel("my_gemm", 20, 5, made.launch("cudaGraphLaunch", 1))
        paths.append(made.write(tmp_path / f"TP-{rank}.trace.json", rank, 2))
    breakdown = analyze(paths)
    assert of_kind(breakdown, "DECODE")["count"] == 1
    assert any("batches of different size" in note for note in breakdown["notes"])


def test_a_rank_that_stopped_recording_earlier_shortens_the_comparison(tmp_path, maker):
    paths = []
    for rank, count in enumerate((3, 2)):
        made = maker()
        for number in range(count):
            made.annotation("step[DECODE bs=1]", 100 * number, 10)
            launch = made.launch("cudaGraphLaunch", 100 * number + 1)
            made.kernel("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(x)", 100 * number + 20, 5 + rank, launch)
        paths.append(made.write(tmp_path / f"TP-{rank}.trace.json", rank, 2))
    breakdown = analyze(paths)
    assert of_kind(breakdown, "DECODE")["count"] == 2
    assert of_kind(breakdown, "DECODE")["allreduce"]["us_median"] == 5
    assert any("different numbers of steps" in note for note in breakdown["notes"])


def test_a_step_in_which_a_rank_lost_a_collective_is_not_matched(tmp_path, maker):
    paths = []
    for rank in range(2):
        made = maker()
        for number in range(2):
            made.annotation("step[DECODE bs=1]", 100 * number, 10)
            launch = made.launch("cudaGraphLaunch", 100 * number + 1)
            for order in range(2 if (rank, number) != (1, 1) else 1):
                name = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(x)"
                made.kernel(name, 100 * number + 20 + 10 * order, 4 + rank, launch)
        paths.append(made.write(tmp_path / f"TP-{rank}.trace.json", rank, 2))
    breakdown = analyze(paths)
    assert of_kind(breakdown, "DECODE")["allreduce"]["count_per_step"] == 2
    assert any("different numbers of collectives" in note for note in breakdown["notes"])


def test_prefill_and_decode_traces_of_one_profile_are_read_together(tmp_path, maker):
    paths = []
    for stage, start, name in (
        ("EXTEND", 0, "step[EXTEND bs=1 toks=9]"),
        ("DECODE", 5000, "step[DECODE bs=1]"),
    ):
        made = maker().annotation(name, start, 10)
        made.kernel("my_gemm", start + 20, 5, made.launch("cudaGraphLaunch", start + 1))
        paths.append(made.write(tmp_path / f"1790857026.118-TP-0-{stage}.trace.json"))
    breakdown = analyze(paths)
    assert [step["kind"] for step in breakdown["steps"]] == ["EXTEND", "DECODE"]
    assert breakdown["stages"] == ["DECODE", "EXTEND"]


def test_a_cpu_trace_is_broken_down_by_operators_without_counting_nested_ones_twice(tmp_path, maker):
    made = maker().process("sglang::scheduler_TP0").annotation("step[DECODE bs=1]", 0, 100)
    made.op("aten::linear", 0, 40).op("aten::addmm", 5, 30)
    made.op("aten::scaled_dot_product_attention", 50, 30).op("aten::matmul", 55, 10)
    made.op("aten::embedding", 90, 5)
    breakdown = analyze([made.write(tmp_path / "t.json")])
    step = of_kind(breakdown, "DECODE")
    assert breakdown["source"] == "cpu"
    assert step["kernels_per_step"] == 3
    assert {name: row["ms_per_step"] for name, row in step["classes"].items()} == {
        "gemm": 0.04,
        "attention": 0.03,
        "other": 0.005,
    }
    assert step["gap_share"] == pytest.approx(0.25)


def test_gloo_collectives_of_a_cpu_trace_are_matched_across_ranks(tmp_path, maker):
    paths = []
    for rank, duration in enumerate((20, 6)):
        made = maker().annotation("step[DECODE bs=1]", 0, 100).op("aten::linear", 0, 40)
        made.op("c10d::allreduce_", 50, 2).annotation("gloo:all_reduce", 51, duration, tid=9)
        paths.append(made.write(tmp_path / f"TP-{rank}.trace.json", rank, 2))
    reduces = of_kind(analyze(paths), "DECODE")["allreduce"]
    assert (reduces["count_per_step"], reduces["us_median"], reduces["path"]) == (1, 6, "gloo")
    assert reduces["late_rank"] == 1


@pytest.mark.parametrize(
    ("case", "rank", "idle", "all_reduce"),
    [
        # us, HolisticTraceAnalysis 0.5.0: get_temporal_breakdown and get_gpu_kernel_breakdown
        ("nccl", 0, 108_515, 2_266),
        ("nccl", 1, 29_697, 79_936),
        ("nccl-tree", 0, 28_337, 79_531),
        ("nccl-tree", 1, 105_533, 2_714),
    ],
)
def test_with_its_rounding_holistic_trace_analysis_agrees(recording, case, rank, idle, all_reduce):
    work = work_of(read_trace(recording(case)[rank]), load())
    start = np.ceil(work.start)
    end = np.maximum(start, np.floor(work.end))  # HTA keeps whole microseconds
    span = work.end.max() - work.start.min()
    assert (end - start)[work.of_class("all_reduce")].sum() == all_reduce
    assert span - union_length(start, end) == pytest.approx(idle, abs=11)
