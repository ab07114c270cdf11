"""What goes into the class, what stays out, and whether a launch notices that the host has changed."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
from recorded_hosts import NAMES
from sglang_sweep.host.host_class import class_digest, gpus_digest, host_class
from sglang_sweep.host.recording import RecordedSources
from sglang_sweep.host.sample import quick_check, quick_sample, sample_clocks

Host = Callable[[str], dict[str, Any]]
SourcesOf = Callable[[str], RecordedSources]


def test_each_host_has_a_class_of_its_own(host: Host) -> None:
    digests = {class_digest(host(name)) for name in NAMES}
    assert len(digests) == len(NAMES)
    assert all(len(text) == 12 and int(text, 16) >= 0 for text in digests)


@pytest.mark.parametrize(
    "change",
    [
        lambda fp: fp["gpus"][0]["now"].update(temperature_c=88, sm_mhz=2400, memory_used_mib=90000),
        lambda fp: fp["gpus"][0].update(uuid="GPU-another", pci_bus_id="00000000:99:00.0", persistence=False),
        lambda fp: fp["gpus"][0]["pcie"].update(generation=5),
        lambda fp: fp.update(hostname="other", kernel="7.0.0"),
        lambda fp: fp["memory"].update(available_gib=1, total_gib=fp["memory"]["total_gib"] - 0.1),
        lambda fp: fp["disks"].clear(),
        lambda fp: fp.update(recorded_at="2027-01-01T00:00:00Z", environment={"NCCL_DEBUG": "INFO"}),
        lambda fp: fp["iommu"]["group_types"].update({"DMA-FQ": 40}),
    ],
)
def test_volatile_facts_leave_the_class_alone(change: Callable[[dict[str, Any]], Any], host: Host) -> None:
    fp = host("rtx-pro-6000-x8")
    before = class_digest(fp)
    change(fp)
    assert class_digest(fp) == before


@pytest.mark.parametrize(
    "change",
    [
        lambda fp: fp["driver"].update(version="590.44.01"),
        lambda fp: fp["driver"]["parameters"].update(RegistryDwords="ForceP2P=0x11"),
        lambda fp: fp["gpus"][3].update(power_limit_w=450.0),
        lambda fp: fp["gpus"].pop(),
        lambda fp: fp["gpus"][2]["pcie"].update(width_max=8),
        lambda fp: fp["topology"]["links"][0].__setitem__(1, "PIX"),
        lambda fp: fp["topology"]["p2p"]["read"][0].__setitem__(1, "chipset not supported"),
        lambda fp: fp["iommu"].update(group_types={"identity": 2}),
        lambda fp: fp["acs"].update(redirecting=[]),
        lambda fp: fp["cpu"].update(governor="powersave"),
    ],
)
def test_facts_that_move_performance_change_the_class(
    change: Callable[[dict[str, Any]], Any], host: Host
) -> None:
    fp = host("rtx-pro-6000-x8")
    before = class_digest(fp)
    change(fp)
    assert class_digest(fp) != before


@pytest.mark.parametrize("name", NAMES)
def test_an_unchanged_host_passes_the_quick_check(name: str, host: Host, sources: SourcesOf) -> None:
    assert quick_check(host(name), sources(name)) == []


def test_a_launch_is_told_what_changed_since_its_key_was_made(host: Host, sources: SourcesOf) -> None:
    recorded = host("rtx-pro-6000-x8")
    now = sources("rtx-pro-6000-x8")
    now.document["nvml"]["nvmlSystemGetDriverVersion"] = "590.44.01"
    now.document["nvml"]["gpus"][3]["nvmlDeviceGetPowerManagementLimit"] = 450_000
    assert quick_check(recorded, now) == [
        "GPU 3 power limit (W) 600.0 -> 450.0",
        "driver 580.95.05 -> 590.44.01",
    ]


def test_a_driver_that_stopped_answering_fails_the_quick_check_with_the_reason(
    host: Host, sources: SourcesOf
) -> None:
    now = sources("h200-x2")
    now.document["nvml"] = {"error": "GPU is lost"}
    now.document["files"]["/proc/driver/nvidia/version"] = "Kernel Module 580.159.04"
    differences = quick_check(host("h200-x2"), now)
    assert "GPUs 2x NVIDIA H200 -> unreadable (the driver does not answer (NVML: GPU is lost))" in differences


def test_the_class_keeps_what_could_not_be_read_as_null(host: Host) -> None:
    assert host_class(host("broken-driver"))["gpus"] is None
    assert host_class(host("no-gpu"))["gpus"] == []


def test_a_sample_shows_what_the_gpus_are_doing(sources: SourcesOf) -> None:
    sample = quick_sample(sources("mixed-gpus"))
    hot = sample["gpus"][1]
    assert hot["throttle_reasons"] == ["hw_thermal_slowdown"]
    assert hot["memory_used_mib"] == 12000 and hot["processes"][0]["name"] == "python3"
    assert sample["load_average"] == [0.52, 0.40, 0.31]


def test_what_is_asked_during_a_window_is_part_of_the_sample(sources: SourcesOf) -> None:
    sample = quick_sample(sources("mixed-gpus"))["gpus"]
    clocks = sample_clocks(sources("mixed-gpus"))
    assert [{name: gpu[name] for name in one} for gpu, one in zip(sample, clocks, strict=True)] == clocks
    assert all("processes" not in one for one in clocks)
    assert sample_clocks(sources("no-gpu")) == []


def test_a_sample_without_gpus_says_why_there_are_none(sources: SourcesOf) -> None:
    sample = quick_sample(sources("no-gpu"))
    assert sample["gpus"] == [] and "NVML" in sample["unreadable"]["gpus"]


def test_two_fingerprints_of_one_host_are_not_changed_by_making_the_class(host: Host) -> None:
    fp = host("h200-x8")
    kept = copy.deepcopy(fp)
    host_class(fp)
    assert fp == kept


def test_memory_that_a_virtual_machine_grows_while_it_runs_is_the_same_host(host: Host) -> None:
    fp = host("h200-x2")
    grown = copy.deepcopy(fp)
    grown["memory"]["total_gib"] = 255.0
    assert class_digest(grown) == class_digest(fp)


def test_the_gpus_are_told_apart_where_the_class_is_the_same(host: Host) -> None:
    fp = host("h200-x2")
    swapped = copy.deepcopy(fp)
    swapped["gpus"].reverse()
    other = copy.deepcopy(fp)
    other["gpus"][1]["uuid"] = "GPU-00000000-0000-0000-0000-000000000000"
    assert gpus_digest(swapped) == gpus_digest(fp) != gpus_digest(other)
    assert class_digest(other) == class_digest(fp)
    unknown = copy.deepcopy(fp)
    unknown["gpus"][0]["uuid"] = None
    assert gpus_digest(unknown) is gpus_digest(host("no-gpu")) is gpus_digest(host("broken-driver")) is None
