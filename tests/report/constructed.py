"""Constructs verdicts, launches and sections with every verdict: nothing here was measured.

The story follows the founding campaign (eight RTX PRO 6000 on PCIe, TP=8), so that a report made from it
reads like a real one. `python tests/report/constructed.py` writes `data/verdicts.json`.
"""

from __future__ import annotations

import copy
import json
import math
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sglang_sweep.costs.speculation import economics
from sglang_sweep.report.sections import Sections

CAMPAIGN = "rtx-pro-6000-x8-constructed"
DATA = Path(__file__).parent / "data"
RESULTS = f"results/{CAMPAIGN}/launches"
BLOCKS = 9
GRAPHS = "Capture cuda graph bs [1, 2, 4, 8, 12, 16, 24, 32, 64, 96, 128]"
# Colour codes, a pipe and an angle bracket, as logs have them.
CRASH = (
    "\x1b[31m[2026-11-28 21:03:11 TP0] Scheduler hit an exception: <Exception> | Capture cuda graph failed: "
    "NCCL error: invalid usage (run with NCCL_DEBUG=WARN for details)\x1b[0m"
)
HOLDS = {"stack": "cu130", "host_class": "9f31c07a"}

# name -> (true ratio, windows' spread); what each completed arm's launches are drawn around.
ARMS = {
    "baseline": 1.0,
    "baseline-prime": 1.0,
    "graph-bs-128": 1.091,
    "mem-fraction-090": 1.034,
    "eagle3": 0.604,
    "nccl-4-channels": 1.001,
    "ep8": 1.012,
    "torch-symm-mem": 1.002,
    "fp8-kv": 1.21,
    "page-size-64": 1.05,
}


def key_of(name: str) -> str:
    """Return a stand-in for the launch key; A' shares the baseline's."""
    return f"{abs(hash_of(name.removesuffix('-prime'))):08x}"[:8]


def hash_of(text: str) -> int:
    """Return a stable hash (Python's own changes between runs)."""
    value = 2166136261
    for byte in text.encode():
        value = (value ^ byte) * 16777619 % 2**32
    return value


def launch_file(name: str, block: int) -> str:
    """Return where a launch of this arm and block would lie."""
    return f"{RESULTS}/{name}-{key_of(name)}/block-{block}/launch.json"


def log_of(name: str, block: int = 1) -> str:
    """Return where the server log of a launch would lie."""
    return f"{RESULTS}/{name}-{key_of(name)}/block-{block}/attempt-1/server.log"


def launches() -> list[dict[str, Any]]:
    """Return launch.json records of every completed arm over nine blocks, with 3 % drift and 1 % noise."""
    source = random.Random(7)
    start = datetime(2026, 11, 28, 20, 0, tzinfo=UTC)
    records = []
    slot = 0
    for block in range(1, BLOCKS + 1):
        order = list(ARMS)
        source.shuffle(order)
        for position, name in enumerate(order, 1):
            begun = start + timedelta(minutes=8 * slot)
            drift = 1 - 0.03 * slot / (BLOCKS * len(ARMS))
            value = 82.0 * ARMS[name] * drift * math.exp(source.gauss(0, 0.006))
            windows = [
                {
                    "workload": "chat",
                    "window": index,
                    "started_at": (begun + timedelta(seconds=150 + 70 * index)).isoformat(),
                    "duration_s": 61.0,
                    "valid": not (name == "ep8" and block == 4),
                    "invalid": ["throttling"] if name == "ep8" and block == 4 else [],
                    "metrics": {
                        "output_throughput": value * math.exp(source.gauss(-0.004 * (index == 1), 0.003)),
                        "median_ttft_ms": 61.0,
                        "median_tpot_ms": 11.2,
                    },
                }
                for index in (1, 2, 3)
            ]
            records.append(
                {
                    "schema_version": 1,
                    "campaign": CAMPAIGN,
                    "variant": name,
                    "key": key_of(name),
                    "block": block,
                    "position": position,
                    "started_at": begun.isoformat(),
                    "finished_at": (begun + timedelta(minutes=7)).isoformat(),
                    "outcome": "completed",
                    "windows": windows,
                }
            )
            slot += 1
    return records


def mean_of(record: dict[str, Any]) -> float | None:
    """Return the mean throughput of a launch's valid windows, tok/s."""
    values = [w["metrics"]["output_throughput"] for w in record["windows"] if w["valid"]]
    return sum(values) / len(values) if values else None


def variant(name: str, verdict: str, **more: Any) -> dict[str, Any]:
    """Return a variant of verdicts.json with every key of the contract, then what `more` says."""
    record: dict[str, Any] = {
        "name": name,
        "key": key_of(name),
        "verdict": verdict,
        "ratio": None,
        "ci95": None,
        "p_value": None,
        "p_holm": None,
        "equivalence_p": None,
        "blocks": 0,
        "more_blocks": None,
        "outcome": "completed",
        "cause": None,
        "engagement": {"state": "engaged", "features": [], "note": None},
        "confounds": [],
        "correctness": {
            "ok": True,
            "state": "ok",
            "tolerance": "exact",
            "agreement": 1.0,
            "baseline_agreement": 1.0,
            "logprob_distance": 0.0021,
            "reason": None,
            "notes": [],
            "token_counts": {
                "client": {"prompt": 49152, "generation": 24576},
                "server": {"prompt": 50688.0, "generation": 24576.0},
                "retokenized_share": 0.998,
                "problems": [],
            },
        },
        "evidence": [],
        "change": {},
        "hypothesis": "",
        "metrics": [],
        "launches": [],
        "reopen_when": ["SGLang, CUDA, NCCL, driver or topology change"],
        "holds_for": HOLDS,
        "remedies": [],
    }
    record.update(more)
    return record


def measured(name: str, verdict: str, ratio: float, half: float, **more: Any) -> dict[str, Any]:
    """Return a variant with statistics: `half` is half the width of its interval in log ratio."""
    rows = [record for record in launches() if record["variant"] == name]
    tpot = 1 / ratio
    return variant(
        name,
        verdict,
        ratio=ratio,
        ci95=[round(ratio * math.exp(-half), 4), round(ratio * math.exp(half), 4)],
        blocks=BLOCKS,
        metrics=[
            metric("output_throughput", "tok/s", ratio, half, 82.0, 82.0 * ratio, primary=True),
            metric("median_ttft_ms", "ms", 0.994, 0.011, 61.0, 61.4),
            metric("median_tpot_ms", "ms", ratio, half, 11.2, 11.2 * tpot),
        ],
        launches=[
            {
                "block": record["block"],
                "file": launch_file(name, record["block"]),
                "outcome": record["outcome"],
                "value": mean_of(record),
                "removed": None if mean_of(record) else "throttling",
            }
            for record in rows
        ],
        **more,
    )


def metric(
    name: str, unit: str, ratio: float, half: float, before: float, after: float, *, primary: bool = False
) -> dict[str, Any]:
    """Return one row of a variant's metrics."""
    return {
        "workload": "chat",
        "metric": name,
        "unit": unit,
        "ratio": ratio,
        "ci95": [round(ratio * math.exp(-half), 4), round(ratio * math.exp(half), 4)],
        "primary": primary,
        "baseline_mean": round(before, 2),
        "variant_mean": round(after, 2),
    }


def failed(name: str, cause: str, line: int, text: str, **more: Any) -> dict[str, Any]:
    """Return a dead end, confirmed by a second launch."""
    return variant(
        name,
        "DEAD_END",
        outcome="failed",
        cause=cause,
        engagement={"state": "unproven", "features": [], "note": "The server never became ready."},
        correctness={},
        evidence=[{"file": log_of(name), "line": line, "text": text}],
        launches=[
            {
                "block": block,
                "file": launch_file(name, block),
                "outcome": "failed",
                "value": None,
                "removed": None,
            }
            for block in (1, 2)
        ],
        **more,
    )


def verdicts() -> dict[str, Any]:
    """Return a verdicts.json that holds each verdict of the design at least once."""
    return copy.deepcopy(
        {
            "schema_version": 2,
            "campaign": CAMPAIGN,
            "question": "Which way of serving GLM-4.6 with TP=8 gives the most tokens a second to one user?",
            "host": {
                "hostname": "constructed-host",
                "class_digest": "9f31c07a",
                "gpus": "8x RTX PRO 6000 Blackwell",
            },
            "stacks": {
                "cu130": {"sglang": "0.5.23", "torch": "2.14.1+cu130", "nccl": "2.28.9", "digest": "c41b02de"}
            },
            "design": {
                "mode": "fixed",
                "blocks": BLOCKS,
                "windows": 3,
                "seed": 7,
                "smallest_effect": 0.02,
                "alpha": 0.05,
                "primary": {"workload": "chat", "metric": "output_throughput"},
                "contemporary_hours": 24,
            },
            "baseline": {
                "name": "baseline",
                "key": key_of("baseline"),
                "flags": {"tp-size": 8, "cuda-graph-max-bs": 512, "disable-radix-cache": True},
                "env": {"NCCL_P2P_LEVEL": "SYS"},
            },
            "generated_from": ["constructed by tests/report/constructed.py, not measured"],
            "session": {
                "aa": {
                    "ratio": 1.0008,
                    "ci95": [0.9952, 1.0064],
                    "p_value": 0.75,
                    "p_exact": 0.73,
                    "equivalence_p": 0.00002,
                    "blocks": BLOCKS,
                    "launch_sd": 0.0061,
                    "detectable_effect": 0.0113,
                },
                "void": False,
                "reasons": [],
                "family": ["graph-bs-128", "eagle3", "nccl-4-channels", "ep8"],
                "rules": [
                    {
                        "id": "throttling",
                        "scope": "launch",
                        "description": "a GPU was slowed by heat or a power fault beside the windows",
                    },
                    {
                        "id": "cold_window",
                        "scope": "window",
                        "description": "the first window was far below all later ones: no warm-up",
                    },
                ],
                "removed": [
                    {
                        "arm": "ep8",
                        "block": 4,
                        "file": launch_file("ep8", 4),
                        "window": None,
                        "rule": "throttling",
                        "saw": "GPU 3 hw_thermal_slowdown after the windows",
                    },
                    {
                        "arm": "baseline",
                        "block": 6,
                        "file": launch_file("baseline", 6),
                        "window": 0,
                        "rule": "cold_window",
                        "saw": "first window 71.2 tok/s, every later one 80.9 or more",
                    },
                ],
            },
            "variants": [
                measured(
                    "baseline-prime",
                    "NO_DIFFERENCE",
                    1.0008,
                    0.0056,
                    p_value=0.75,
                    equivalence_p=0.00002,
                    hypothesis="The baseline again: what chance and drift alone do.",
                ),
                measured(
                    "graph-bs-128",
                    "WIN",
                    1.0912,
                    0.0094,
                    p_value=0.0039,
                    p_holm=0.0312,
                    equivalence_p=1.0,
                    hypothesis="Fewer captured graphs free memory and shorten replay; expected +5 %.",
                    change={"flags": {"cuda-graph-max-bs": 128}},
                    engagement={
                        "state": "engaged",
                        "note": None,
                        "features": [
                            {
                                "feature": "cuda_graph_batch_sizes",
                                "state": "engaged",
                                "evidence": [
                                    {
                                        "file": log_of("graph-bs-128"),
                                        "line": 412,
                                        "text": GRAPHS,
                                    }
                                ],
                            }
                        ],
                    },
                    evidence=[
                        {
                            "file": log_of("graph-bs-128"),
                            "line": 412,
                            "text": GRAPHS,
                        }
                    ],
                ),
                measured(
                    "eagle3",
                    "LOSS",
                    0.604,
                    0.012,
                    p_value=0.0039,
                    p_holm=0.0312,
                    equivalence_p=1.0,
                    hypothesis="Three drafted tokens a cycle should give 1.5 times the throughput.",
                    change={
                        "flags": {
                            "speculative-algorithm": "EAGLE3",
                            "speculative-num-steps": 3,
                            "speculative-eagle-topk": 1,
                            "speculative-num-draft-tokens": 4,
                        }
                    },
                    confounds=[
                        {
                            "setting": "max_running_requests",
                            "baseline": 2048,
                            "variant": 48,
                            "moves_performance": True,
                            "implied_by": "speculation-resets-max-running-requests",
                            "pin": None,
                            "declared": True,
                            "why": "EAGLE resets it to 48 unless it is set",
                        }
                    ],
                    evidence=[
                        {
                            "file": log_of("eagle3"),
                            "line": 977,
                            "text": "Decode batch, #running-req: 1, accept len: 1.62, accept rate: 0.40",
                        }
                    ],
                ),
                measured(
                    "nccl-4-channels",
                    "NO_DIFFERENCE",
                    1.0013,
                    0.0071,
                    p_value=0.63,
                    p_holm=1.0,
                    equivalence_p=0.0002,
                    hypothesis="Fewer channels cost fewer SMs; +1 % at most.",
                    change={"env": {"NCCL_MAX_NCHANNELS": "4"}},
                ),
                measured(
                    "ep8",
                    "INCONCLUSIVE",
                    1.0118,
                    0.0164,
                    p_value=0.14,
                    p_holm=0.56,
                    equivalence_p=0.13,
                    more_blocks=14,
                    hypothesis="Experts kept whole save one all-reduce in two.",
                    change={"flags": {"ep-size": 8}},
                ),
                measured(
                    "mem-fraction-090",
                    "CONFOUNDED",
                    1.034,
                    0.009,
                    p_value=0.0039,
                    p_holm=0.0312,
                    equivalence_p=0.9,
                    hypothesis="A larger KV pool evicts less.",
                    change={"flags": {"mem-fraction-static": 0.9}},
                    confounds=[
                        {
                            "setting": "cuda_graph_max_bs",
                            "baseline": 512,
                            "variant": 256,
                            "moves_performance": True,
                            "implied_by": None,
                            "pin": "cuda-graph-max-bs: 512",
                            "declared": False,
                            "why": "replaying a smaller graph is faster",
                        }
                    ],
                ),
                measured(
                    "fp8-kv",
                    "WRONG_OUTPUT",
                    1.21,
                    0.01,
                    p_value=0.0039,
                    p_holm=0.0312,
                    hypothesis="Half the KV bytes.",
                    change={"flags": {"kv-cache-dtype": "fp8_e5m2"}},
                    correctness={
                        "ok": False,
                        "state": "wrong",
                        "tolerance": "numeric",
                        "agreement": 0.13,
                        "baseline_agreement": 1.0,
                        "logprob_distance": 1.9,
                        "reason": "only 13% of tokens agree with the baseline's, log-probabilities 1.90 nats apart",
                        "notes": [],
                    },
                ),
                measured(
                    "page-size-64",
                    "STALE",
                    1.05,
                    0.02,
                    p_value=0.0039,
                    hypothesis="Larger pages, fewer lookups.",
                    change={"flags": {"page-size": 64}},
                ),
                measured(
                    "torch-symm-mem",
                    "NO_OP",
                    1.0019,
                    0.006,
                    p_value=0.5,
                    p_holm=1.0,
                    equivalence_p=0.0004,
                    hypothesis="Multimem all-reduce halves the latency of small messages.",
                    change={"flags": {"enable-torch-symm-mem": True}},
                    engagement={
                        "state": "not_engaged",
                        "note": "Custom all-reduce served instead.",
                        "features": [
                            {
                                "feature": "torch_symm_mem",
                                "state": "not_engaged",
                                "evidence": [
                                    {
                                        "file": log_of("torch-symm-mem"),
                                        "line": 201,
                                        "text": "TorchSymmMemCommunicator: torch symmetric memory multicast "
                                        "operations are not supported.",
                                    }
                                ],
                            }
                        ],
                    },
                ),
                failed(
                    "nccl-tree-unscoped",
                    "collective_error",
                    388,
                    CRASH,
                    hypothesis="Tree has fewer hops than a ring of eight.",
                    change={"env": {"NCCL_ALGO": "Tree"}},
                    remedies=["Scope it: NCCL_ALGO=allreduce:tree; other collectives have no Tree."],
                    reopen_when=[
                        {
                            "when": "NCCL offers Tree for all-gather",
                            "source": "https://github.com/NVIDIA/nccl",
                        },
                        "the variable is scoped to all-reduce",
                    ],
                ),
                failed(
                    "ep8-flashinfer-a2a",
                    "invalid_configuration",
                    64,
                    "AssertionError: Flashinfer MoE A2A is only supported with dp_size == tp_size and "
                    "--enable-dp-attention",
                    hypothesis="One-sided all-to-all instead of all-reduce.",
                    change={
                        "flags": {"ep-size": 8, "moe-a2a-backend": "flashinfer", "disable-radix-cache": None}
                    },
                ),
                measured(
                    "deepep-low-latency",
                    "UNSTABLE",
                    1.071,
                    0.012,
                    reasons=["2 of 9 launches failed with collective_hang"],
                    cause="collective_hang",
                    hypothesis="The low-latency all-to-all takes the dispatch off the critical path.",
                ),
                variant(
                    "chunk-4096",
                    "OUTRUN",
                    reasons=["left behind after one block"],
                    hypothesis="Longer prefill chunks interrupt decoding less often.",
                ),
                variant(
                    "pcie-ipc-allreduce",
                    "PLANNED",
                    outcome="not_run",
                    engagement={"state": "unproven", "features": [], "note": None},
                    correctness={},
                    hypothesis="Writes over PCIe IPC beat NCCL below 256 KB.",
                    change={"flags": {"enable-pcie-ipc-allreduce": True}, "stack": "cu130"},
                ),
                variant(
                    "mscclpp",
                    "PLANNED",
                    outcome="not_run",
                    engagement={"state": "unproven", "features": [], "note": None},
                    correctness={},
                    hypothesis="One-shot all-reduce.",
                    change={"flags": {"enable-mscclpp": True}, "patch": "allow more than two PCIe GPUs"},
                ),
            ],
        }
    )


def profile(case: str) -> dict[str, Any]:
    """Return a recorded breakdown (data/README.md)."""
    breakdown: dict[str, Any] = json.loads((DATA / "profiles" / f"{case}.json").read_text(encoding="utf-8"))
    return breakdown


def sections() -> Sections:
    """Return every optional part of a report."""
    return Sections(
        environment={
            "hostname": "constructed-host",
            "class_digest": "9f31c07a",
            "os": "Ubuntu 24.04",
            "kernel": "6.8.0",
            "cpu": {"model": "AMD EPYC 9575F", "cores": 128, "governor": "performance"},
            "memory": {"total_gib": 1511.0},
            "gpus": [{"name": "NVIDIA RTX PRO 6000 Blackwell"} for _ in range(8)],
            "driver": {"version": "580.159.04", "cuda": "13.0"},
            "topology": {"summary": "8 GPUs, NODE and SYS, no NVLink"},
            "recorded_at": "2026-11-28T19:40:00+00:00",
            "unreadable": {"acs": "lspci needs root to show ACS"},
        },
        gate=[
            {
                "id": "pcie_link",
                "title": "PCIe link at its maximum",
                "passed": False,
                "severity": "warn",
                "scope": "host",
                "found": "GPU 5 trained at Gen4 x16, can do Gen5",
                "why": "all-reduce waits for the slowest link",
                "remedy": "reseat the card or its riser",
                "source": "nvidia-smi -q",
            },
            {
                "id": "driver_cuda",
                "title": "driver supports the stack's CUDA",
                "passed": True,
                "severity": "fail",
                "scope": "stack:cu130",
                "found": "driver 580.159.04, CUDA 13.0",
                "why": "an older driver cannot load the kernels",
                "remedy": "update the driver",
                "source": "CUDA compatibility guide",
            },
            {
                "id": "custom_allreduce_pcie",
                "title": "all GPUs linked by NVLink",
                "passed": False,
                "severity": "fail",
                "scope": "variant:mscclpp",
                "found": "8 GPUs without NVLink",
                "why": "SGLang disables it above two PCIe GPUs",
                "remedy": "patch the stack",
                "source": "custom_all_reduce.py",
            },
        ],
        launches=launches(),
        profiles={"graph-bs-128": profile("nccl"), "eagle3": profile("eagle3-random-draft")},
        explanations={
            "graph-bs-128": {
                "explained": True,
                "sentence": "The cycle's busy time went from 4.100 to 3.760 ms: copies in DECODE went from 0.420 to "
                "0.090 ms (97% of the change).",
                "moved": [
                    {
                        "phase": "DECODE",
                        "class": "copy",
                        "ms_before": 0.42,
                        "ms_after": 0.09,
                        "share_of_change": 0.97,
                    }
                ],
            },
            "eagle3": {
                "explained": False,
                "sentence": "The profile does not explain it: one arm speculates and the other does not.",
                "moved": [],
            },
        },
        speculation=economics(
            {"throughput": 82.0},
            [
                {"name": "eagle3", "throughput": 49.5, "accept_length": 1.62},
                {"name": "eagle3-simulated-3", "throughput": 90.1, "accept_length": 3.0, "simulated": True},
            ],
            n_steps=3,
            profiles={"variant": profile("eagle3-random-draft")},
        ),
        communication={
            "rows": [
                {
                    "variant": "graph-bs-128",
                    "kind": "DECODE",
                    "batch_size": 1,
                    "count": 65,
                    "bytes": 12288,
                    "us_alone": 5.9,
                    "us_profiled": 6.21,
                    "predicted_ms": 0.3835,
                    "profiled_ms": 0.4045,
                    "unexplained_ms": 0.021,
                    "skew_ms": 0.246,
                    "share_of_tpot": 0.0361,
                }
            ],
            "cliffs": [
                {
                    "setting": "default",
                    "mode": "graph",
                    "from_bytes": 131072,
                    "to_bytes": 262144,
                    "from_us": 31.0,
                    "to_us": 74.0,
                    "ratio": 2.39,
                    "exponent": 1.26,
                }
            ],
            "growth": {"sentence": "the growth of 2.7 x agrees with message size (2.6 x alone)"},
        },
        stacks={
            "a": "cu128",
            "b": "cu130",
            "rows": [
                {
                    "variant": "pcie-ipc-allreduce",
                    "status": "unblocked",
                    "ratio": None,
                    "ci95": None,
                    "a": {"verdict": "DEAD_END", "cause": "bad_flag", "ratio_to_baseline": None},
                    "b": {"verdict": "WIN", "cause": None, "ratio_to_baseline": 1.043},
                }
            ],
        },
        reopened=[
            {
                "variant": "fusion",
                "verdict": "DEAD_END",
                "why": "the limit fusion-old-jit is known for SGLang <0.5.14; cu130 has 0.5.23",
                "source": "https://github.com/sgl-project/sglang/issues/15650",
            }
        ],
        predictions=[
            {
                "variant": "mscclpp",
                "cause": "unsupported_hardware",
                "why": "needs NVLink or a patched topology check",
                "verdict": "DEAD_END",
                "source": "sglang issue 1234; custom_all_reduce.py:260 (0.5.23)",
                "seen": False,
                "remedy": "patch the gate, in a stack of its own",
                "reopens_when": "the gate leaves the source",
            }
        ],
        notes="Ask the vendor about the riser of GPU 5.\n\n- [ ] repeat after the driver update",
    )


def main() -> None:
    """Write data/verdicts.json."""
    DATA.mkdir(exist_ok=True)
    (DATA / "verdicts.json").write_text(json.dumps(verdicts(), indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
