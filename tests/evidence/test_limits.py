import json
from pathlib import Path
from typing import Any

import pytest
from sglang_sweep.evidence.knowledge import load
from sglang_sweep.gate.limits import host_facts, predict

RTX = {
    "platform": "cuda",
    "compute_capability": "12.0",
    "compute_major": 12,
    "gpu_count": 8,
    "nvlink": False,
    "p2p": True,
}
H200 = {
    "platform": "cuda",
    "compute_capability": "9.0",
    "compute_major": 9,
    "gpu_count": 2,
    "nvlink": True,
    "p2p": True,
}
CPU = {"platform": "cpu", "numa_nodes": 1}


def predicted(
    version: str, host: dict[str, Any], flags: dict[str, Any] | None = None, env: dict[str, str] | None = None
):  # type: ignore[no-untyped-def]
    return predict(
        {"flags": {"tp-size": 8 if host is RTX else 2, **(flags or {})}, "env": env or {}}, version, host
    )


@pytest.mark.parametrize(
    ("version", "host", "flags", "env", "verdict", "cause"),
    [
        (
            "0.5.23",
            RTX,
            {"flashinfer-allreduce-fusion-backend": "trtllm"},
            {},
            "DEAD_END",
            "unsupported_hardware",
        ),
        ("0.5.9", RTX, {"enable-flashinfer-allreduce-fusion": True}, {}, "DEAD_END", "unsupported_hardware"),
        ("0.5.23", RTX, {"enable-torch-symm-mem": True}, {}, "NO_OP", None),
        ("0.5.23", RTX, {"enable-symm-mem": True}, {}, "NO_OP", None),
        ("0.5.23", RTX, {"enable-mscclpp": True}, {}, "NO_OP", None),
        (
            "0.5.23",
            RTX,
            {"moe-a2a-backend": "flashinfer", "ep-size": 8},
            {},
            "DEAD_END",
            "invalid_configuration",
        ),
        (
            "0.5.23",
            RTX,
            {"moe-a2a-backend": "flashinfer", "attn-dp-size": 8},
            {},
            "DEAD_END",
            "unsupported_hardware",
        ),
        (
            "0.5.16",
            H200,
            {"moe-a2a-backend": "flashinfer", "ep-size": 2},
            {},
            "DEAD_END",
            "invalid_configuration",
        ),
        ("0.5.16", H200, {"attention-backend": "trtllm_mha"}, {}, "DEAD_END", "unsupported_hardware"),
        ("0.5.23", RTX, {}, {"NCCL_ALGO": "Tree"}, "DEAD_END", "collective_error"),
        ("0.5.20", RTX, {}, {"SGLANG_ENABLE_PCIE_IPC_ALLREDUCE": "1"}, "NO_OP", None),
        ("0.5.23", RTX, {"enable-symm-mem": True}, {"SGLANG_ENABLE_PCIE_IPC_ALLREDUCE": "1"}, "NO_OP", None),
        ("0.5.23", RTX, {}, {"NCCL_MAX_NCHANNELS": "4"}, "LOSS", None),
        ("0.5.23", CPU, {}, {}, "DEAD_END", "invalid_configuration"),
        (
            "0.5.23",
            CPU,
            {"tp-size": 1, "speculative-algorithm": "EAGLE3"},
            {},
            "DEAD_END",
            "unsupported_framework",
        ),
        ("0.5.23", CPU, {"tp-size": 1, "enable-mscclpp": True}, {}, "NO_OP", None),
    ],
)
def test_what_is_known_to_fail_is_predicted_with_its_source(
    version: str,
    host: dict[str, Any],
    flags: dict[str, Any],
    env: dict[str, str],
    verdict: str,
    cause: str | None,
) -> None:
    first = predicted(version, host, flags, env)[0]
    assert (first.verdict, first.cause) == (verdict, cause)
    assert first.source and first.reopens_when and first.source[0] in first.sentence


@pytest.mark.parametrize(
    ("version", "host", "flags", "env"),
    [
        ("0.5.23", RTX, {}, {}),
        ("0.5.23", RTX, {}, {"NCCL_ALGO": "allreduce:tree"}),
        ("0.5.23", RTX, {}, {"SGLANG_ENABLE_PCIE_IPC_ALLREDUCE": "1"}),
        ("0.5.23", RTX, {"cuda-graph-max-bs-decode": 128}, {}),
        ("0.5.16", H200, {"flashinfer-allreduce-fusion-backend": "auto"}, {}),
        ("0.5.23", H200, {"enable-torch-symm-mem": True}, {}),
        ("0.5.23", CPU, {"tp-size": 2}, {"SGLANG_CPU_OMP_THREADS_BIND": "0|1"}),
        ("0.5.23", {"platform": "cuda"}, {"flashinfer-allreduce-fusion-backend": "auto"}, {}),
    ],
)
def test_what_is_not_known_to_fail_is_not_predicted(
    version: str, host: dict[str, Any], flags: dict[str, Any], env: dict[str, str]
) -> None:
    assert predicted(version, host, flags, env) == []


BY_ID: dict[str, tuple[str, dict[str, Any], dict[str, Any], dict[str, str]]] = {
    "fusion-needs-sm90-or-sm10x": ("0.5.16", RTX, {"enable-flashinfer-allreduce-fusion": True}, {}),
    "fusion-old-jit": ("0.5.12", RTX, {"enable-flashinfer-allreduce-fusion": True}, {}),
    "custom-ar-more-than-two-pcie": ("0.5.23", RTX, {}, {"SGLANG_SKIP_P2P_CHECK": "1"}),
    "torch-symm-mem-architecture": ("0.5.23", RTX, {"enable-torch-symm-mem": True}, {}),
    "torch-symm-mem-multicast": ("0.5.9", RTX, {"enable-torch-symm-mem": True}, {}),
    "nccl-symm-mem-nvlink": ("0.5.23", RTX, {"enable-symm-mem": True}, {}),
    "nvls-nvswitch": ("0.5.23", RTX, {"enable-nccl-nvls": True}, {}),
    "a2a-old-dp-attention": ("0.5.21", H200, {"moe-a2a-backend": "flashinfer"}, {}),
    "a2a-new-dp-attention": ("0.5.22", H200, {"moe-a2a-backend": "flashinfer"}, {}),
    "a2a-fabric": ("0.5.23", RTX, {"moe-a2a-backend": "flashinfer", "attn-dp-size": 8}, {}),
    "a2a-dp-confound": ("0.5.23", H200, {"moe-a2a-backend": "flashinfer", "attn-dp-size": 2}, {}),
    "nccl-tree-unscoped": ("0.5.6", H200, {}, {"NCCL_ALGO": "tree"}),
    "pcie-ipc-version": ("0.5.20", H200, {}, {"SGLANG_ENABLE_PCIE_IPC_ALLREDUCE": "1"}),
    "pcie-ipc-symm": ("0.5.21", H200, {"enable-mscclpp": True}, {"SGLANG_ENABLE_PCIE_IPC_ALLREDUCE": "1"}),
    "mscclpp-deps": ("0.5.21", RTX, {"enable-mscclpp": True}, {}),
    "communication-single-rank": ("0.5.23", H200, {"tp-size": 1, "enable-symm-mem": True}, {}),
    "nccl-env-single-rank": ("0.5.23", H200, {"tp-size": 1}, {"NCCL_PROTO": "LL"}),
    "cpu-ranks": ("0.5.23", CPU, {}, {}),
    "cpu-speculation": ("0.5.23", CPU, {"tp-size": 1, "speculative-algorithm": "EAGLE"}, {}),
    "trtllm-mha-needs-sm100": ("0.5.16", H200, {"attention-backend": "trtllm_mha"}, {}),
    "fp8-kv-trtllm": ("0.5.23", RTX, {"kv-cache-dtype": "fp8_e4m3", "attention-backend": "trtllm_mha"}, {}),
    "short-channels": ("0.5.23", RTX, {}, {"NCCL_MAX_NCHANNELS": "2"}),
}


@pytest.mark.parametrize("limit", [limit.id for limit in load().limits])
def test_every_limit_is_met_by_its_case_and_not_by_a_plain_variant(limit: str) -> None:
    if limit == "custom-ar-patch":
        found = predict({"flags": {"tp-size": 8}, "change": {"patch": "x"}}, "0.5.23", RTX)
    else:
        found = predicted(*BY_ID[limit])
        host = BY_ID[limit][1]
        plain = {"tp-size": 1} if host is CPU else {}
        assert limit not in [prediction.limit for prediction in predicted(BY_ID[limit][0], host, plain)]
    assert limit in [prediction.limit for prediction in found]


def test_a_patch_is_predicted_on_what_it_reopens() -> None:
    assert [
        p.verdict for p in predict({"flags": {"tp-size": 8}, "change": {"patch": "x"}}, "0.5.23", RTX)
    ] == ["LOSS"]


def test_host_facts_speak_of_the_gpus_a_variant_uses() -> None:
    gpu = {"compute_capability": "12.0"}
    links = [["X", "NV18", "PHB"], ["NV18", "X", "PHB"], ["PHB", "PHB", "X"]]
    ok = [[None, "ok", "ok"], ["ok", None, "ok"], ["ok", "ok", None]]
    fingerprint = {
        "gpus": [gpu] * 3,
        "topology": {"links": links, "p2p": {"read": ok}},
        "cpu": {"numa_nodes": [1, 2]},
    }
    two = host_facts(fingerprint, {"tp-size": 2})
    assert (two["nvlink"], two["gpu_count"], two["compute_major"], two["numa_nodes"]) == (True, 2, 12, 2)
    assert host_facts(fingerprint, {"tp-size": 3})["nvlink"] is False
    assert host_facts(fingerprint, {"tp-size": 3})["p2p"] is True


def test_what_cannot_be_read_is_left_out() -> None:
    assert host_facts(None, {"device": "cpu"}) == {"platform": "cpu"}
    assert host_facts({"gpus": None, "cpu": None}, {}) == {"platform": "cuda"}
    unread = {"gpus": [{"compute_capability": None}] * 2, "topology": {"links": None}}
    assert host_facts(unread, {"tp-size": 2}) == {"platform": "cuda", "gpu_count": 2}


def test_a_recorded_host_gives_facts() -> None:
    files = sorted(Path("tests/recordings/hosts").glob("*/environment.json"))
    for file in files:
        facts = host_facts(json.loads(file.read_text()), {"tp-size": 1})
        assert facts["platform"] == "cuda"
