# ruff: noqa: E501  (log lines are quoted whole)
import gzip
from pathlib import Path

import pytest
from sglang_sweep.evidence import knowledge as module
from sglang_sweep.evidence.arm import first_cause
from sglang_sweep.evidence.cause import Diagnosis, classify_stall, diagnose
from sglang_sweep.evidence.knowledge import Entry, Knowledge
from sglang_sweep.evidence.scanner import scan

from .conftest import cases, recorded

KNOWLEDGE = module.load()

EXPECTED = {
    "bad-flag": ("failed", "bad_flag"),
    "bad-model-path": ("failed", "model_not_found"),
    "custom-allreduce": ("ready", None),
    "eagle3-random-draft": ("ready", None),
    "ep2-flashinfer-a2a": ("failed", "invalid_configuration"),
    "fusion-jit-slow-start": ("hung_or_cut", None),
    "kv-retraction": ("ready", None),
    "nccl": ("ready", None),
    "nccl-bench": ("ready", None),
    "nccl-tree": ("ready", None),
    "nccl-tree-unscoped": ("failed", "collective_error"),
    "port-in-use": ("failed", "port_in_use"),
    "profiler-segfault": ("failed", "crashed"),
    "torch-symm-mem": ("ready", None),
    "cpu-healthy": ("ready", None),
    "cpu-mscclpp-one-rank": ("ready", None),
    "cpu-radix-off": ("ready", None),
    "cpu-tp2": ("failed", "invalid_configuration"),
    "cpu-eagle3-torch-native": ("failed", "unsupported_framework"),
    "cpu-fa3": ("failed", "unsupported_hardware"),
}

FRAMES = {
    "server_args\\.py in |arg_groups/|configs/model_config\\.py in |configs/load_config\\.py in ": "sglang/srt/server_args.py",
    "speculative|eagle|draft": "sglang/srt/speculative/eagle_worker_v2.py",
    "graph_runner|cuda_graph_setup|in capture\\b|init_cuda_graphs": "sglang/srt/runner/decode_cuda_graph_runner.py",
    "memory_pool|kv_cache_configurator|kv_cache_mixin|init_memory_pool|_create_buffers": "sglang/srt/mem_cache/memory_pool.py",
    "sglang/srt/(?!server_args|arg_groups|configs/|model_loader)": "sglang/srt/mem_cache/pool.py",
    "weight_loader|load_weights|load_model": "sglang/srt/model_loader/weight_loader.py",
}
PHASE_LINES = {entry.id: entry.examples[0].replace(" TP1]", " TP0]") for entry in KNOWLEDGE.phases}


def diagnosed(tmp_path: Path, text: str, knowledge: Knowledge = KNOWLEDGE) -> Diagnosis:
    file = tmp_path / "server.log"
    file.write_text(text)
    return diagnose(scan(file, knowledge), knowledge)


def traceback(message: str, file: str = "sglang/srt/x.py", function: str = "step", rank: str = "TP0") -> str:
    """A scheduler's death as SGLang logs it."""
    return (
        f"[2026-11-30 09:35:24 {rank}] Scheduler hit an exception: Traceback (most recent call last):\n"
        f'  File "/site/{file}", line 10, in {function}\n    run()\n    ^^^^^\n{message}\n\n'
    )


def chained(first: str, second: str) -> str:
    return (
        "[2026-11-30 09:35:24 TP0] Scheduler hit an exception: Traceback (most recent call last):\n"
        f'  File "/site/a.py", line 1, in f\n    run()\n{first}\n\n'
        "During handling of the above exception, another exception occurred:\n\n"
        f'Traceback (most recent call last):\n  File "/site/b.py", line 1, in g\n    run()\n{second}\n\n'
    )


def test_every_recording_is_classified_right() -> None:
    for case in cases():
        log = recorded(case).log
        assert log is not None
        found = diagnose(log, KNOWLEDGE)
        assert (found.outcome, found.cause) == EXPECTED[case], case
        assert found.evidence, case
        assert bool(found.remedies) is (found.outcome == "failed"), case


def test_an_unscoped_nccl_algorithm_is_told_to_be_scoped_and_not_blamed_on_cuda_graphs() -> None:
    log = recorded("nccl-tree-unscoped").log
    assert log is not None
    found = diagnose(log, KNOWLEDGE)
    assert "allreduce:tree" in found.remedies[0]
    assert any(
        "no algorithm/protocol available for function AllGather" in line.text for line in found.evidence
    )


def test_a_crash_of_the_profiler_is_not_blamed_on_the_variant() -> None:
    log = recorded("profiler-segfault").log
    assert log is not None
    found = diagnose(log, KNOWLEDGE)
    assert found.remedies[0].startswith("the profiler crashed, not the variant")
    assert any("libkineto" in line.text for line in found.evidence)


@pytest.mark.parametrize(
    "entry", [e for e in KNOWLEDGE.signatures if e.data["where"] == "exception"], ids=lambda e: e.id
)
def test_an_exception_signature_leads_to_its_cause(tmp_path: Path, entry: Entry) -> None:
    file, function = "sglang/srt/x.py", "step"
    frames = entry.data.get("frames", "")
    if frames:
        file = FRAMES.get(frames, "sglang/srt/model_loader/loader.py")
        function = (
            "load_model" if "load_model" in frames else "capture" if "capture" in frames else "__post_init__"
        )
    for example in entry.examples:
        arguments = "[2026-11-30 09:00:00] server_args=ServerArgs(tp_size=2)\n"
        before = "".join(f"{PHASE_LINES[phase]}\n" for phase in entry.data.get("phase", ["ready"])[:1])
        if needed := entry.data.get("needs_line"):
            before += f"{next(e for e in KNOWLEDGE.signatures if e.id == needed).examples[0]}\n"
        found = diagnosed(tmp_path, arguments + before + traceback(example, file, function))
        assert found.outcome == "failed"
        assert found.cause == entry.data["cause"], (example, found)
        assert entry.id in found.entries


@pytest.mark.parametrize(
    "entry", [e for e in KNOWLEDGE.signatures if e.data.get("decides")], ids=lambda e: e.id
)
def test_a_deciding_line_leads_to_its_cause(tmp_path: Path, entry: Entry) -> None:
    for example in entry.examples:
        ranks = 2 if entry.data.get("arguments") else 1
        text = f"[2026-11-30 09:00:00] server_args=ServerArgs(tp_size={ranks})\n{example}\n"
        found = diagnosed(tmp_path, text)
        assert (found.outcome, found.cause) == ("failed", entry.data["cause"])


OUT_OF_MEMORY = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 94.97 GiB"


@pytest.mark.parametrize(
    ("phases", "cause"),
    [
        (["arguments", "distributed", "load"], "out_of_memory_load"),
        (["load", "load-done"], "out_of_memory_kv_pool"),
        (
            ["load", "load-done", "kv-pool", "memory-pool-done", "graph-capture"],
            "out_of_memory_graph_capture",
        ),
        (
            ["load", "memory-pool-done", "graph-capture", "graph-capture-done", "scheduler-up"],
            "out_of_memory_runtime",
        ),
        (["load", "memory-pool-done", "graph-capture-done", "ready"], "out_of_memory_runtime"),
    ],
)
def test_where_memory_ran_out_follows_from_the_phase(tmp_path: Path, phases: list[str], cause: str) -> None:
    text = "".join(PHASE_LINES[phase] + "\n" for phase in phases)
    assert diagnosed(tmp_path, text + traceback(OUT_OF_MEMORY)).cause == cause


def test_memory_running_out_in_capture_is_told_from_its_message(tmp_path: Path) -> None:
    message = f"Exception: Capture cuda graph failed: {OUT_OF_MEMORY[27:]}\nPossible solutions:\n1. set --mem-fraction-static"
    assert diagnosed(tmp_path, traceback(message)).cause == "out_of_memory_graph_capture"


def test_the_hint_about_memory_is_not_a_reason(tmp_path: Path) -> None:
    hint = "Possible solutions:\n1. set --mem-fraction-static to a smaller value\n2. CUDA out of memory? Not enough memory."
    found = diagnosed(tmp_path, traceback(f"Exception: Capture cuda graph failed: something new\n{hint}"))
    assert found.cause == "graph_capture_failed"


def test_the_first_real_exception_wins_over_the_noise_of_other_ranks_whatever_their_order(
    tmp_path: Path,
) -> None:
    noise = traceback(
        "RuntimeError: [../tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:43013", rank="TP1"
    )
    real = traceback("ValueError: FlashInfer allreduce fusion requires SM90 or SM10X NVIDIA GPUs.")
    nccl = traceback(
        "torch.distributed.DistBackendError: NCCL communicator was aborted on rank 2.", rank="TP2"
    )
    for text in (real + noise + nccl, noise + real + nccl):
        found = diagnosed(tmp_path, text)
        assert found.cause == "unsupported_hardware"
        assert "requires SM90" in (found.reason or "")


def test_a_capture_that_failed_because_a_peer_died_is_noise(tmp_path: Path) -> None:
    noise = traceback(
        "Exception: Capture cuda graph failed: [../pair.cc:534] Connection closed by peer [10.0.0.2]:1"
    )
    real = traceback(OUT_OF_MEMORY, "sglang/srt/runner/decode_cuda_graph_runner.py", "capture", rank="TP1")
    assert diagnosed(tmp_path, noise + real).cause == "out_of_memory_graph_capture"


def test_a_traceback_behind_a_progress_bar_belongs_to_its_rank(tmp_path: Path) -> None:
    bar = "Capturing batches (avail_mem=14.45 GB):  29%|##8  | 8/28 [00:14<00:25,  1.30s/it]"
    file = tmp_path / "server.log"
    file.write_text(bar + traceback("RuntimeError: NCCL error: invalid usage", rank="TP1"))
    assert [block.rank for block in scan(file, KNOWLEDGE).blocks] == ["TP1"]


def test_an_old_log_without_hit_an_exception_is_read_too(tmp_path: Path) -> None:
    text = traceback("RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.")
    assert (
        diagnosed(tmp_path, text.replace("Scheduler hit an exception: ", "")).cause == "out_of_memory_kv_pool"
    )


def test_noise_alone_says_that_a_peer_was_lost(tmp_path: Path) -> None:
    assert diagnosed(tmp_path, traceback("EOFError", rank="TP1")).cause == "peer_lost"


def test_an_exception_that_nothing_knows_is_unknown_and_is_shown(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, traceback("FrobnicationError: the widget is upside down"))
    assert (found.outcome, found.cause) == ("failed", "unknown")
    assert found.reason == "FrobnicationError: the widget is upside down"


def test_an_unknown_exception_before_a_known_one_keeps_the_cause_unknown(tmp_path: Path) -> None:
    text = traceback("WidgetError: first") + traceback(
        "RuntimeError: NCCL error: remote process exited", rank="TP1"
    )
    assert diagnosed(tmp_path, text).cause == "unknown"


def test_a_missing_attention_library_is_found_behind_the_exception_that_hides_it(tmp_path: Path) -> None:
    text = chained(
        "ImportError: cannot import name 'flash_ops' from 'sgl_kernel' (/site/sgl_kernel/__init__.py)",
        "ImportError: Can not import FA3 in sgl_kernel. Please check your installation.",
    )
    found = diagnosed(tmp_path, text)
    assert found.cause == "missing_library"
    assert "flash_ops" in found.remedies[0]


def test_a_handled_exception_inside_a_chain_does_not_decide(tmp_path: Path) -> None:
    text = chained(
        "KeyError: 'cache'", "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static."
    )
    assert diagnosed(tmp_path, text).cause == "out_of_memory_kv_pool"


@pytest.mark.parametrize(
    "message",
    [
        "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. Current value: self.mem_fraction_static=0.05",
        "ValueError: Loaded weights leave no GPU memory for the KV cache under --mem-fraction-static=0.05. Raise it",
    ],
)
def test_the_kv_pool_is_too_small_in_the_wordings_of_all_versions(tmp_path: Path, message: str) -> None:
    assert diagnosed(tmp_path, traceback(message)).cause == "out_of_memory_kv_pool"


def test_a_traceback_that_a_logger_wrote_and_the_server_survived_is_no_failure(tmp_path: Path) -> None:
    survived = '[2026-11-30 09:00:01] Failed to load a template\nTraceback (most recent call last):\n  File "/a.py", line 1, in f\nKeyError: 1\n'
    found = diagnosed(
        tmp_path, survived + "[2026-11-30 09:00:09] The server is fired up and ready to roll!\n"
    )
    assert found.outcome == "ready"


def test_a_death_after_ready_is_a_failure(tmp_path: Path) -> None:
    text = "[2026-11-30 09:00:09] The server is fired up and ready to roll!\n"
    found = diagnosed(
        tmp_path,
        text + traceback("torch.AcceleratorError: CUDA error: an illegal memory access was encountered"),
    )
    assert (found.outcome, found.cause) == ("failed", "crashed")


def test_what_processes_print_after_sigterm_is_no_failure(tmp_path: Path) -> None:
    text = (
        "[2026-11-30 09:00:09] The server is fired up and ready to roll!\n"
        "[2026-11-30 09:15:18] SIGTERM received. signum=None frame=None. Draining requests and shutting down...\n"
        "[2026-11-30 09:15:18] Subprocess scheduler_0 (pid=2845) crashed with exit code -9. Triggering SIGQUIT\n"
    )
    assert diagnosed(tmp_path, text + traceback("EOFError")).outcome == "ready"


def test_a_killed_scheduler_points_at_the_host_memory(tmp_path: Path) -> None:
    start = PHASE_LINES["load"] + '\nTraceback (most recent call last):\n  File "/a.py", line 1, in f\n'
    killed = "RuntimeError: Rank 0 scheduler died during initialization (exit code: -9). If exit code is -9 (SIGKILL)\n"
    segfault = "RuntimeError: Rank 0 scheduler died during initialization (exit code: -11).\n"
    assert diagnosed(tmp_path, start + killed).cause == "host_out_of_memory"
    assert diagnosed(tmp_path, start + segfault).cause == "crashed"


DUMP = """[2026-11-30 09:15:17 TP{rank}] Pyspy dump for PID 1{rank} (py-spy dump --native --pid 1{rank}):
Process 1{rank}: sglang::scheduler_TP{rank}
Python v3.12.12 (/usr/bin/python3.12)

Thread 1{rank} (active): "MainThread"
    {frame} (x.py:36)
    run_batch (managers/scheduler.py:3120)

"""
WATCHDOG = (
    "[2026-11-30 09:15:18 TP0] Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)\n"
)


def test_a_watchdog_is_told_by_where_the_ranks_stand(tmp_path: Path) -> None:
    begun = "[2026-11-30 09:00:00] server_args=ServerArgs(tp_size=2)\n"

    def stood(*frames: str) -> Diagnosis:
        dumps = "".join(DUMP.format(rank=rank, frame=frame) for rank, frame in enumerate(frames))
        return diagnosed(tmp_path, begun + dumps + WATCHDOG)

    assert stood().cause == "forward_hang"
    same = stood("spin_kernel", "spin_kernel")
    assert (same.cause, same.ranks) == ("forward_hang", ["TP0", "TP1"])
    assert "every rank stands in spin_kernel" in (same.reason or "")
    apart = stood("ncclAllReduce", "load_lora")
    assert (apart.cause, apart.ranks) == ("collective_hang", ["TP1"])
    assert "not there: TP1 in load_lora" in (apart.reason or "")
    assert stood("ncclAllReduce", "all_gather").cause == "collective_hang"


def test_a_device_assert_comes_before_what_follows_from_it(tmp_path: Path) -> None:
    found = diagnosed(
        tmp_path,
        "[2026-11-30 09:00:00] server_args=ServerArgs(tp_size=2)\n"
        "/pytorch/aten/src/ATen/native/cuda/IndexKernel.cu:93: operator(): block: [12,0,0], thread: [64,0,0] "
        'Assertion `-sizes[i] <= index && index < sizes[i] && "index out of bounds"` failed.\n'
        + traceback("torch.AcceleratorError: CUDA error: device-side assert triggered")
        + "[rank1]:[E918 10:31:02 ProcessGroupNCCL.cpp:2057] [PG ID 2 Rank 1] Process group watchdog thread terminated"
        " with exception: CUDA error: device-side assert triggered\n"
        "Fatal Python error: Aborted\n",
    )
    assert found.cause == "crashed"
    assert "index out of bounds" in (found.reason or "")
    assert any("watchdog thread" in line.text for line in found.cascade)
    assert any("Aborted" in line.text for line in found.cascade)


def test_a_file_without_any_known_line_is_unknown(tmp_path: Path) -> None:
    assert diagnosed(tmp_path, "hello\nworld\n").outcome == "unknown"


def test_the_exit_code_only_supports(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("[2026-11-30 09:36:05 TP0] Init torch distributed begin.\n")
    assert first_cause(log, "0.5.23", 2)[0] == "bad_flag"
    assert first_cause(log, "0.5.23", -9)[0] == "crashed"
    assert first_cause(log, "0.5.23", 1)[0] == "unknown"
    log.write_text(traceback("RuntimeError: NCCL error: invalid usage"))
    assert first_cause(log, "0.5.23", 137)[0] == "collective_error"
    assert first_cause(tmp_path / "absent.log", None, 1)[0] == "unknown"


def test_a_log_is_read_from_gzip_too(tmp_path: Path) -> None:
    file = tmp_path / "server.log.gz"
    file.write_bytes(gzip.compress(traceback("RuntimeError: NCCL error: invalid usage").encode()))
    assert first_cause(file, None, None)[0] == "collective_error"


def sample(t: float, log_bytes: int, cpu_s: float, *children: str) -> dict[str, object]:
    return {"t": t, "log_bytes": log_bytes, "cpu_s": cpu_s, "children": list(children)}


@pytest.mark.parametrize(
    ("samples", "verdict"),
    [
        ([sample(0, 10, 1), sample(90, 10, 1, "python3", "nvcc", "cicc")], "compiling"),
        ([sample(0, 10, 1), sample(90, 10, 300, "python3", "ninja")], "compiling"),
        ([sample(0, 10, 1), sample(90, 900, 1, "python3")], "progressing"),
        ([sample(0, 10, 1), sample(90, 10, 80, "python3")], "progressing"),
        ([sample(0, 10, 1), sample(90, 10, 1.5, "python3")], "hung"),
        ([sample(0, 10, 1)], "progressing"),
        ([], "progressing"),
    ],
)
def test_a_slow_compile_is_told_from_a_hang(samples: list[dict[str, object]], verdict: str) -> None:
    assert classify_stall(samples) == verdict
