from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version
from sglang_sweep.evidence import knowledge as module
from sglang_sweep.evidence.artifacts import Artifacts
from sglang_sweep.evidence.engagement import DeclaredChange, EngagementReport, assess

from .conftest import recorded

KNOWLEDGE = module.load()
V = Version("0.5.16")
EAGLE = {
    "speculative-algorithm": "EAGLE3",
    "speculative-draft-model-path": "/models/draft",
    "speculative-num-steps": 3,
    "speculative-eagle-topk": 1,
    "speculative-num-draft-tokens": 4,
}


def assessed(case: str, profile: str | None = None, version: Version = V, **change: Any) -> EngagementReport:
    artifacts = [recorded(case)]
    if profile:
        artifacts.append(replace(recorded(profile), label="profile launch"))
    return assess(DeclaredChange(**change), artifacts, version, KNOWLEDGE)


@pytest.mark.parametrize(
    ("case", "change", "state"),
    [
        ("torch-symm-mem", {"flags": {"enable-torch-symm-mem": True}}, "not_engaged"),
        ("nccl", {"flags": {"disable-custom-all-reduce": True}}, "engaged"),
        ("custom-allreduce", {"flags": {"disable-custom-all-reduce": None}}, "engaged"),
        ("custom-allreduce", {"flags": {"disable-custom-all-reduce": True}}, "not_engaged"),
        ("nccl-tree", {"env": {"NCCL_ALGO": "allreduce:tree"}}, "engaged"),
        ("nccl", {"env": {"NCCL_ALGO": "allreduce:tree"}}, "not_engaged"),
        ("nccl", {"env": {"NCCL_ALGO": "Ring"}}, "engaged"),
        ("nccl-tree", {"env": {"NCCL_ALGO": "Ring"}}, "not_engaged"),
        ("eagle3-random-draft", {"flags": EAGLE}, "engaged"),
        ("nccl", {"flags": EAGLE}, "not_engaged"),
        ("kv-retraction", {"flags": {"enable-mscclpp": True}}, "not_engaged"),
        ("kv-retraction", {"flags": {"disable-cuda-graph": True}}, "engaged"),
        ("kv-retraction", {"flags": {"max-total-tokens": 4096}}, "engaged"),
        ("nccl", {"flags": {"disable-cuda-graph": True}}, "not_engaged"),
        ("nccl", {"flags": {"cuda-graph-max-bs-decode": 256}}, "engaged"),
        ("nccl", {"flags": {"cuda-graph-max-bs-decode": 128}}, "not_engaged"),
        ("nccl", {"flags": {"cuda-graph-max-bs": 256}}, "engaged"),
        ("nccl", {"flags": {"disable-radix-cache": True}}, "not_engaged"),
        ("nccl", {"flags": {"disable-overlap-schedule": True}}, "not_engaged"),
        ("nccl", {"flags": {"chunked-prefill-size": 8192}}, "engaged"),
        ("nccl", {"flags": {"mem-fraction-static": "0.50"}}, "engaged"),
        ("nccl", {"flags": {"mem-fraction-static": 0.8}}, "not_engaged"),
        ("nccl", {"flags": {"schedule-policy": "lpm"}}, "not_engaged"),
        ("nccl", {"flags": {"schedule-policy": "fcfs"}}, "engaged"),
        ("nccl", {"flags": {"max-running-requests": 64}}, "not_engaged"),
        ("nccl", {"flags": {"a-flag-of-tomorrow": 1}}, "unproven"),
        ("nccl", {"env": {"SOME_VARIABLE": "1"}}, "unproven"),
        ("nccl", {"env": {"NCCL_MAX_NCHANNELS": "4"}}, "unproven"),
        ("nccl", {"env": {"SGLANG_ENABLE_PCIE_IPC_ALLREDUCE": "1"}}, "not_engaged"),
        ("fusion-jit-slow-start", {"flags": {"enable-flashinfer-allreduce-fusion": True}}, "unproven"),
        ("custom-allreduce", {"flags": {"flashinfer-allreduce-fusion-backend": "auto"}}, "not_engaged"),
        ("eagle3-random-draft", {"env": {"SGLANG_SIMULATE_ACC_LEN": "1"}}, "engaged"),
        ("eagle3-random-draft", {"env": {"SGLANG_SIMULATE_ACC_LEN": "3"}}, "not_engaged"),
        ("nccl", {"patch": "both gates"}, "unproven"),
        ("nccl", {"patch": "both gates", "proof": ("custom_all_reduce",)}, "not_engaged"),
        ("custom-allreduce", {"patch": "both gates", "proof": ("custom_all_reduce",)}, "engaged"),
        ("nccl", {"stack": "cu130", "sglang_version": "0.5.16"}, "engaged"),
        ("nccl", {"stack": "cu130", "sglang_version": "0.5.23"}, "not_engaged"),
        ("nccl", {"model": "llama"}, "engaged"),
        ("nccl", {}, "engaged"),
        ("cpu-mscclpp-one-rank", {"flags": {"enable-mscclpp": True}}, "not_engaged"),
        ("cpu-radix-off", {"flags": {"disable-radix-cache": True}}, "engaged"),
        ("cpu-radix-off", {"flags": {"max-running-requests": 4}}, "engaged"),
    ],
)
def test_a_change_is_followed_to_what_shows_it(case: str, change: dict[str, Any], state: str) -> None:
    report = assessed(case, **change)
    assert report.state == state, report


def test_an_old_name_taken_away_does_not_turn_the_new_name_around() -> None:
    flags = {"flashinfer-allreduce-fusion-backend": None, "enable-flashinfer-allreduce-fusion": True}
    part = assessed("custom-allreduce", flags=flags).features[0]
    assert (part.feature, part.state) == ("flashinfer_allreduce_fusion", "not_engaged")


def test_every_claim_has_a_file_and_a_text() -> None:
    for case in ("torch-symm-mem", "nccl", "eagle3-random-draft"):
        for part in assessed(
            case, flags={**EAGLE, "enable-torch-symm-mem": True, "schedule-policy": "lpm"}
        ).features:
            assert part.evidence
            assert all(shown.file and shown.text for shown in part.evidence)


def test_proof_from_a_profile_launch_says_so() -> None:
    quiet = replace(recorded("nccl-tree"), log=None, kernels=[])
    report = assess(
        DeclaredChange(env={"NCCL_ALGO": "allreduce:tree"}),
        [quiet, replace(recorded("nccl-tree"), label="profile launch")],
        V,
        KNOWLEDGE,
    )
    assert report.state == "engaged"
    assert report.features[0].source == "profile launch"


def test_without_a_profile_launch_nccls_choice_is_unproven() -> None:
    quiet = replace(recorded("nccl-tree"), log=None, kernels=[])
    report = assess(DeclaredChange(env={"NCCL_ALGO": "allreduce:tree"}), [quiet], V, KNOWLEDGE)
    assert report.state == "unproven"


def test_accepting_nothing_is_said_beside_engaged() -> None:
    assert "no draft token is accepted" in (assessed("eagle3-random-draft", flags=EAGLE).note or "")


def test_a_part_that_did_not_take_effect_makes_the_whole_unproven_and_is_named() -> None:
    report = assessed("eagle3-random-draft", flags={**EAGLE, "speculative-num-steps": 5})
    assert report.state == "unproven"
    assert "speculative-num-steps" in (report.note or "")


def test_a_feature_that_cannot_act_shows_the_setting_that_forbids_it() -> None:
    part = assessed("kv-retraction", flags={"enable-torch-symm-mem": True}).features[0]
    assert part.state == "not_engaged"
    assert part.evidence[0].text == "tp_size = 1"


def test_resolved_settings_are_quoted_from_server_info() -> None:
    shown = assessed("eagle3-random-draft", flags={"max-running-requests": 48}).features[0].evidence[0]
    assert Path(shown.file).name == "server_info_after.json"
    assert (shown.line, shown.text) == (None, "max_running_requests = 48")


def test_an_effective_limit_below_the_asked_one_is_not_engaged() -> None:
    one = Artifacts("measured launch")
    one.server_info = {
        "max_running_requests": 512,
        "internal_states": [{"effective_max_running_requests_per_dp": 96}],
    }
    one.server_info_file = Path("server_info.json")
    report = assess(DeclaredChange(flags={"max-running-requests": 512}), [one], V, KNOWLEDGE)
    assert report.state == "not_engaged"
    assert "96" in report.features[0].evidence[0].text


def test_an_environment_that_sglang_overrode_is_not_engaged() -> None:
    one = Artifacts("measured launch")
    one.server_info = {"internal_states": [{"env_vars": {"CUDA_DEVICE_MAX_CONNECTIONS": "8"}}]}
    one.server_info_file = Path("server_info.json")
    report = assess(DeclaredChange(env={"CUDA_DEVICE_MAX_CONNECTIONS": "1"}), [one], V, KNOWLEDGE)
    assert report.state == "not_engaged"


PCIE_IPC = (
    "[2026-11-30 09:13:15 TP0] FlashInfer PCIe-IPC all-reduce enabled (world=8, workspace sized on first reduction)\n",
    "[2026-11-30 09:13:15 TP0] FlashInfer PCIe-IPC workspace built (world=8, max_numel=786432, hidden=6144)\n",
    "[2026-11-30 09:13:15 TP0] FlashInfer PCIe-IPC all-reduce autotuned 12 shape(s) (hidden=6144, rows=[1])\n",
)


@pytest.mark.parametrize(
    ("lines", "state"),
    [
        (PCIE_IPC, "engaged"),
        (PCIE_IPC[:2], "unproven"),
        (PCIE_IPC[:1], "unproven"),
        ((), "unproven"),
        (
            (
                *PCIE_IPC[:1],
                "[x] FlashInfer PCIe-IPC workspace (max_numel=1) failed: oom; reductions stay on NCCL\n",
            ),
            "not_engaged",
        ),
        (
            (*PCIE_IPC[:2], "[x] FlashInfer PCIe-IPC autotune failed (x); keeping the seed policy.\n"),
            "engaged",
        ),
    ],
)
def test_pcie_ipc_needs_more_than_its_intention(tmp_path: Path, lines: tuple[str, ...], state: str) -> None:
    from sglang_sweep.evidence.artifacts import from_files

    log = tmp_path / "server.log"
    log.write_text("[2026-11-30 09:00:00] server_args=ServerArgs(tp_size=8)\n" + "".join(lines))
    one = from_files("measured launch", KNOWLEDGE, log=log)
    change = DeclaredChange(env={"SGLANG_ENABLE_PCIE_IPC_ALLREDUCE": "1"})
    assert assess(change, [one], Version("0.5.23"), KNOWLEDGE).state == state
