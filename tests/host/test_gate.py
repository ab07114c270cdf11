"""The environment gate on recorded and constructed hosts."""

from collections.abc import Callable
from typing import Any

import pytest
from sglang_sweep.campaign.model import Change, Variant
from sglang_sweep.gate.findings import Finding, knowledge
from sglang_sweep.gate.gate import fatal, gate, runnable

Host = Callable[[str], dict[str, Any]]

CU130 = {
    "cuda": "13.0",
    "built": {
        "sglang": "0.5.23",
        "torch": "2.14.1+cu130",
        "cuda": "13.0",
        "gpu_architectures": ["sm_80", "sm_90", "sm_100", "sm_120", "compute_120"],
        "nccl": "2.31.2",
        "flashinfer": "0.7.2",
        "serves": True,
        "reasons": {},
    },
}
CPU = {
    "cuda": None,
    "built": {
        "sglang": "0.5.23",
        "cuda": None,
        "serves": True,
        "reasons": {"cuda": "torch is not built for CUDA", "flashinfer": "No module named 'flashinfer'"},
    },
}


def variant(
    name: str = "v", *, stack: str = "cu130", env: dict[str, str] | None = None, **flags: Any
) -> Variant:
    named = {flag.replace("_", "-"): value for flag, value in flags.items()}
    return Variant(name, None, "", Change(), {"tp-size": 8, **named}, env or {}, stack, "m")


def built(**facts: Any) -> dict[str, Any]:
    return {**CU130, "built": {**CU130["built"], **facts}}  # type: ignore[dict-item]


def of(findings: list[Finding], check: str) -> Finding:
    (found,) = [finding for finding in findings if finding.id == check]
    return found


def ids(findings: list[Finding]) -> set[str]:
    return {finding.id for finding in findings}


def failing(findings: list[Finding]) -> set[str]:
    return {finding.id for finding in findings if finding.failed}


def test_a_sound_nvlink_host_passes_with_nothing_to_fail(host: Host) -> None:
    findings = gate(host("h200-x8"), {"cu130": CU130}, [variant()])
    assert failing(findings) == {"one_socket"}
    assert fatal(findings) == []


def test_eight_pcie_blackwells_are_warned_of_staging_iommu_and_acs_but_may_run(host: Host) -> None:
    findings = gate(host("rtx-pro-6000-x8"), {"cu130": CU130}, [variant()])
    assert failing(findings) == {"sysmem_staging", "iommu_passes_through", "acs_off", "one_socket"}
    assert fatal(findings) == []
    assert of(findings, "pcie_link").passed is True  # generation 1 on idle cards is normal


def test_forced_p2p_in_the_drivers_parameters_ends_the_suspicion_of_staging(host: Host) -> None:
    fp = host("rtx-pro-6000-x8")
    fp["driver"]["registry_dwords"] = {"ForceP2P": "0x11", "RMForceP2PType": "1", "RMPcieP2PType": "2"}
    assert of(gate(fp, {"cu130": CU130}, [variant()]), "sysmem_staging").passed is True


def test_cards_below_a_switch_are_not_suspected_of_staging(host: Host) -> None:
    fp = host("rtx-pro-6000-x8")
    fp["topology"]["links"] = [[cell and "PIX" for cell in row] for row in fp["topology"]["links"]]
    assert "sysmem_staging" not in ids(gate(fp, {"cu130": CU130}, [variant()]))


def test_a_gpu_campaign_is_refused_on_a_host_without_gpus_for_one_reason(host: Host) -> None:
    variants = [variant("baseline"), variant("tree", env={"NCCL_ALGO": "allreduce:tree"})]
    findings = gate(host("no-gpu"), {"cu130": CU130}, variants)
    (reason,) = fatal(findings)
    assert reason.id == "gpus_for_stack" and reason.concerns == ("baseline", "tree")


def test_a_cpu_campaign_runs_on_a_host_without_gpus_and_on_one_with_a_broken_driver(host: Host) -> None:
    for name in ("no-gpu", "broken-driver", "mig-on"):
        assert fatal(gate(host(name), {"cpu": CPU}, [variant(stack="cpu", device="cpu", tp_size=1)])) == []


def test_a_broken_driver_refuses_gpu_variants_with_the_drivers_own_words(host: Host) -> None:
    (reason,) = fatal(gate(host("broken-driver"), {"cu130": CU130}, [variant()]))
    assert reason.id == "gpus_readable" and "Driver/library version mismatch" in reason.found


def test_only_what_was_asked_to_run_is_fatal(host: Host) -> None:
    variants = [variant("on-cpu", stack="cpu", device="cpu", tp_size=1), variant("on-gpu")]
    findings = gate(host("no-gpu"), {"cu130": CU130, "cpu": CPU}, variants)
    assert fatal(findings, {"on-cpu"}) == []
    assert len(fatal(findings, {"on-gpu"})) == len(fatal(findings)) == 1
    assert {name: bool(reasons) for name, reasons in runnable(findings, variants).items()} == {
        "on-cpu": False,
        "on-gpu": True,
    }


def test_mig_forbids_several_gpus_only(host: Host) -> None:
    fp = host("h200-x8")
    fp["gpus"][0]["mig"] = True
    assert ids(fatal(gate(fp, {"cu130": CU130}, [variant()]))) == {"mig_off"}
    assert fatal(gate(host("mig-on"), {"cu130": CU130}, [variant(tp_size=1)])) == []


def test_a_mixed_host_shows_everything_that_is_wrong_with_it(host: Host) -> None:
    findings = gate(host("mixed-gpus"), {"cu130": CU130}, [variant(tp_size=2)])
    assert {"same_gpus", "pcie_link", "gpus_idle", "not_throttling", "p2p_between_gpus"} <= failing(findings)
    assert of(findings, "governor").found == "powersave"
    assert of(findings, "pcie_link").found == "GPU 1 x4 of x16"
    assert of(findings, "gpus_idle").found == "GPU 1: 12000 MiB, processes 4711 python3"


@pytest.mark.parametrize(
    ("driver", "spoken", "cuda", "starts", "compiles"),
    [
        ("580.95.05", "13.0", "13.0", True, True),
        ("580.95.05", "13.0", "12.8", True, True),  # newer drivers run older CUDA
        ("570.26", "12.8", "12.9", True, False),  # minor-version compatibility: machine code only
        ("570.124.06", "12.8", "13.0", False, True),
        ("550.54.14", "12.4", "12.8", True, False),
        ("515.43.04", "11.7", "12.8", False, True),
    ],
)
def test_the_drivers_cuda_is_compared_with_the_stacks(
    driver: str, spoken: str, cuda: str, starts: bool, compiles: bool, host: Host
) -> None:
    fp = host("h200-x8")
    fp["driver"] |= {"version": driver, "cuda": spoken}
    findings = gate(fp, {"cu130": built(cuda=cuda)}, [variant()])
    answer = of(findings, "driver_supports_cuda")
    assert answer.passed is starts and driver in answer.found
    assert ("driver_compiles_ptx" in failing(findings)) is not compiles


@pytest.mark.parametrize(
    ("architectures", "capability", "passed"),
    [
        (["sm_90", "sm_120"], "12.0", True),
        (["sm_120"], "12.1", True),
        (["sm_90a"], "12.0", False),
        (["sm_90a"], "9.0", True),
        (["sm_100f"], "10.3", True),
        (["sm_100a"], "10.3", False),
        (["sm_80", "compute_90"], "12.0", True),
        (["sm_80"], "8.9", True),
        (["sm_89"], "8.6", False),
    ],
)
def test_torchs_architectures_follow_the_rules_of_binary_compatibility(
    architectures: list[str], capability: str, passed: bool, host: Host
) -> None:
    fp = host("h200-x8")
    for gpu in fp["gpus"]:
        gpu["compute_capability"] = capability
    findings = gate(fp, {"cu130": built(gpu_architectures=architectures)}, [variant()])
    assert of(findings, "torch_knows_gpu").passed is passed


@pytest.mark.parametrize(
    ("nvcc", "flashinfer", "failed"),
    [
        ("13.0.88", "0.7.2", set()),
        ("12.9.41", "0.6.18", {"nvcc_matches_torch"}),
        ("12.8.61", "0.6.18", {"nvcc_matches_torch", "nvcc_for_flashinfer_sm120"}),
        ("12.8.61", "0.7.2", {"nvcc_matches_torch"}),
        ("12.4.99", "0.6.18", {"nvcc_matches_torch", "nvcc_knows_sm120"}),
    ],
)
def test_the_compiler_must_know_sm120_and_flashinfer_must_accept_it(
    nvcc: str, flashinfer: str, failed: set[str], host: Host
) -> None:
    fp = host("rtx-pro-6000-x8")
    fp["tools"]["nvcc"] = {"path": "/usr/local/cuda/bin/nvcc", "version": nvcc}
    findings = gate(fp, {"cu130": built(flashinfer=flashinfer)}, [variant()])
    assert {check for check in failing(findings) if check.startswith("nvcc")} == failed


def test_a_missing_compiler_is_a_warning(host: Host) -> None:
    fp = host("container-without-nvidia-smi")
    missing = of(gate(fp, {"cu130": CU130}, [variant(tp_size=2)]), "nvcc_for_jit")
    assert missing.failed and missing.severity == "warn"


def test_a_server_that_cannot_be_imported_refuses_the_stack(host: Host) -> None:
    error = "ImportError: libcudart.so.13: cannot open shared object file"
    stack = built(serves=False, reasons={"sglang.srt.managers.scheduler": error})
    (reason,) = fatal(gate(host("h200-x8"), {"cu130": stack}, [variant()]))
    assert reason.id == "imports" and reason.found == f"sglang.srt.managers.scheduler: {error}"


def test_a_kernel_package_that_is_missing_is_a_warning_where_the_server_starts(host: Host) -> None:
    stack = built(flashinfer=None, reasons={"flashinfer": "No module named 'flashinfer'"})
    findings = gate(host("h200-x8"), {"cu130": stack}, [variant()])
    assert of(findings, "kernel_packages").found == "flashinfer: No module named 'flashinfer'"
    assert of(findings, "imports").passed is True and fatal(findings) == []


def test_a_cpu_stack_misses_no_kernels(host: Host) -> None:
    findings = gate(host("no-gpu"), {"cpu": CPU}, [variant(stack="cpu", device="cpu", tp_size=1)])
    assert of(findings, "imports").passed is True and "kernel_packages" not in ids(findings)


def test_an_interpreter_that_was_not_asked_yet_counts_as_one_for_gpus(host: Host) -> None:
    mine = {"kind": "existing", "cuda": None}
    assert ids(fatal(gate(host("no-gpu"), {"mine": mine}, [variant(stack="mine")]))) == {"gpus_for_stack"}
    assert fatal(gate(host("h200-x8"), {"mine": mine}, [variant(stack="mine")])) == []


@pytest.mark.parametrize(
    ("nccl", "name", "reports"),
    [
        ("2.26.2", "rtx-pro-6000-x8", ["NVIDIA/nccl issue 2418", "vllm-project/vllm issues 40969 and 52504"]),
        ("2.30.4", "rtx-pro-6000-x8", ["local-inference-lab/rtx6kpro issue 15"]),
        ("2.31.2", "rtx-pro-6000-x8", []),
        ("2.26.2", "h200-x8", []),  # reported on SM120 only
    ],
)
def test_nccl_versions_with_known_trouble_are_named_with_their_source(
    nccl: str, name: str, reports: list[str], host: Host
) -> None:
    findings = gate(host(name), {"cu130": built(nccl=nccl)}, [variant()])
    assert [f.source for f in findings if f.id == "nccl_known" and f.failed] == reports
    assert fatal(findings) == []


def test_a_stack_that_is_not_built_leaves_its_checks_undecided(host: Host) -> None:
    findings = gate(host("h200-x8"), {"cu130": {"cuda": "13.0", "built": None}}, [variant()])
    for check in ("imports", "torch_knows_gpu", "nccl_known"):
        assert of(findings, check).passed is None and "not built" in of(findings, check).found
    assert fatal(findings) == []


def test_too_little_disk_refuses_a_stack_that_is_still_to_be_built(host: Host) -> None:
    fp = host("h200-x8")
    fp["disks"] = [{"folder": "/data", "total_gib": 100.0, "free_gib": 3.5}]
    assert ids(fatal(gate(fp, {"cu130": {"cuda": "13.0", "disk_gb": 30}}, [variant()]))) == {"disk_for_stack"}
    assert fatal(gate(fp, {"cu130": CU130}, [variant()])) == []


def test_default_container_shared_memory_refuses_several_gpus_and_one_gpu_not(host: Host) -> None:
    fp = host("container-without-nvidia-smi")
    assert "shm_size" in ids(fatal(gate(fp, {"cu130": CU130}, [variant(tp_size=2)])))
    assert fatal(gate(fp, {"cu130": CU130}, [variant(tp_size=1)])) == []


@pytest.mark.parametrize(
    ("flags", "env", "needed", "enough"),
    [
        ({"tp_size": 8}, {}, 8, True),
        ({"tp_size": 4, "pp_size": 2}, {}, 8, True),
        ({"tp_size": 8, "dp_size": 2}, {}, 16, False),
        ({"tp_size": 8, "dp_size": 8, "enable_dp_attention": True}, {}, 8, True),
        ({"tp_size": 8}, {"CUDA_VISIBLE_DEVICES": "0,1,2,3"}, 8, False),
        ({"tp_size": 4}, {"CUDA_VISIBLE_DEVICES": "4,5,6,7"}, 4, True),
    ],
)
def test_the_gpus_a_variant_needs_are_counted(
    flags: dict[str, Any], env: dict[str, str], needed: int, enough: bool, host: Host
) -> None:
    findings = gate(host("h200-x8"), {"cu130": CU130}, [variant(env=env, **flags)])
    answer = of(findings, "enough_gpus")
    assert answer.passed is enough and f"needs {needed}," in answer.found
    assert bool(fatal(findings)) is not enough


def test_uuids_in_cuda_visible_devices_are_warned_about_but_counted(host: Host) -> None:
    uuids = "GPU-00000000-0000-0000-0000-000000000000,GPU-00000000-0000-0000-0000-000000000001"
    findings = gate(
        host("h200-x2"), {"cu130": CU130}, [variant(env={"CUDA_VISIBLE_DEVICES": uuids}, tp_size=2)]
    )
    assert of(findings, "visible_devices_integers").failed
    assert of(findings, "enough_gpus").passed is True


@pytest.mark.parametrize(
    ("weights", "fraction", "passed", "severity"),
    [(400, None, True, "warn"), (400, 0.5, False, "warn"), (800, None, False, "fail")],
)
def test_weights_are_compared_with_the_memory_of_one_gpu(
    weights: float, fraction: float | None, passed: bool, severity: str, host: Host
) -> None:
    findings = gate(
        host("rtx-pro-6000-x8"),
        {"cu130": CU130},
        [variant(mem_fraction_static=fraction)],
        weights_gib={"v": weights},
    )
    answer = of(findings, "model_fits")
    assert (answer.passed, answer.severity) == (passed, severity)


@pytest.mark.parametrize(
    ("name", "flags", "env", "predicted"),
    [
        ("rtx-pro-6000-x8", {"enable_torch_symm_mem": True}, {}, {"known_limit", "multicast_for_variant"}),
        ("rtx-pro-6000-x8", {"flashinfer_allreduce_fusion_backend": "trtllm"}, {}, {"known_limit"}),
        ("rtx-pro-6000-x8", {"moe_a2a_backend": "flashinfer"}, {}, {"known_limit"}),
        ("rtx-pro-6000-x8", {"moe_a2a_backend": "deepep"}, {}, set()),
        ("rtx-pro-6000-x8", {}, {"SGLANG_ENABLE_PCIE_IPC_ALLREDUCE": "1"}, set()),
        ("rtx-pro-6000-x8", {}, {"SGLANG_OPT_USE_CUSTOM_ALL_REDUCE_V2": "1"}, {"known_limit"}),
        ("mixed-gpus", {"tp_size": 2}, {"SGLANG_ENABLE_PCIE_IPC_ALLREDUCE": "1"}, {"p2p_for_variant"}),
        ("mixed-gpus", {"tp_size": 2}, {"NCCL_P2P_LEVEL": "SYS"}, {"p2p_for_variant"}),
        ("mixed-gpus", {"tp_size": 2}, {"NCCL_P2P_LEVEL": "LOC"}, set()),
        ("h200-x8", {"enable_symm_mem": True}, {}, set()),
        ("h200-x8", {"flashinfer_allreduce_fusion_backend": "auto"}, {}, set()),
        ("h200-x8", {}, {"NCCL_ALGO": "Tree"}, {"known_limit"}),
    ],
)
def test_what_cannot_work_here_is_predicted_with_its_source_and_never_refused(
    name: str, flags: dict[str, Any], env: dict[str, str], predicted: set[str], host: Host
) -> None:
    findings = gate(host(name), {"cu130": CU130}, [variant(env=env, **flags)])
    failed = [f for f in findings if f.failed and f.scope == "variant:v"]
    assert {f.id for f in failed} == predicted
    assert all(f.source for f in failed) and fatal(findings) == []


def test_a_limit_of_another_version_is_not_predicted(host: Host) -> None:
    pcie_ipc = [variant(env={"SGLANG_ENABLE_PCIE_IPC_ALLREDUCE": "1"})]
    old = gate(host("rtx-pro-6000-x8"), {"cu130": built(sglang="0.5.16")}, pcie_ipc)
    assert of(old, "known_limit").found.startswith("NO_OP expected: SGLang before 0.5.21")
    assert "known_limit" not in ids(gate(host("rtx-pro-6000-x8"), {"cu130": CU130}, pcie_ipc))


def test_a_cpu_variant_has_limits_too(host: Host) -> None:
    ranks = [variant(stack="cpu", device="cpu", tp_size=2)]
    assert of(gate(host("no-gpu"), {"cpu": CPU}, ranks), "known_limit").found.startswith("DEAD_END expected")


def test_multicast_is_asked_of_cuda_and_not_inferred_from_nvlink(host: Host) -> None:
    ask = [variant(tp_size=2, enable_torch_symm_mem=True)]
    unknown = of(gate(host("h200-x2"), {"cu130": CU130}, ask), "multicast_for_variant")
    assert unknown.passed is None and "only CUDA can tell" in unknown.found
    told = of(gate(host("h200-x2"), {"cu130": built(multicast=False)}, ask), "multicast_for_variant")
    assert told.failed


def test_variants_that_need_a_patch_are_left_alone(host: Host) -> None:
    planned = Variant("p", None, "", Change(patch="remove a gate"), {"tp-size": 64}, {}, "cu130", "m")
    assert fatal(gate(host("h200-x8"), {"cu130": CU130}, [planned])) == []


def test_every_check_has_a_text_and_every_text_a_check(host: Host) -> None:
    import inspect

    from sglang_sweep.gate import host_checks, stack_checks, variant_checks

    code = "".join(inspect.getsource(module) for module in (host_checks, stack_checks, variant_checks))
    unused = [check for check in knowledge()["checks"] if f'"{check}"' not in code]
    assert unused == []


@pytest.mark.parametrize(
    "entry", knowledge()["nccl_known"] + knowledge()["needs"], ids=lambda entry: entry["id"]
)
def test_each_piece_of_knowledge_names_a_source(entry: dict[str, Any]) -> None:
    assert entry["source"] and entry["evidence"] in ("seen", "read")


def test_a_slot_of_an_older_generation_and_a_busy_card_at_generation_one_are_troubles(host: Host) -> None:
    fp = host("rtx-pro-6000-x8")
    fp["gpus"][2]["pcie"]["generation_max"] = 4
    fp["gpus"][5]["now"] |= {"throttle_reasons": [], "sm_mhz": 2400}
    assert of(gate(fp, {"cu130": CU130}, [variant()]), "pcie_link").found == (
        "GPU 2 in a generation 4 slot (the card does 5); GPU 5 at work at generation 1 of 5"
    )
