"""environment.json from recorded hosts: what is read, what is null, and why."""

import copy
import json
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded_hosts import HOSTS, NAMES
from sglang_sweep.campaign.model import Change, Variant
from sglang_sweep.gate.gate import gate
from sglang_sweep.gate.survey import environment_report
from sglang_sweep.host.drift import drift
from sglang_sweep.host.fingerprint import fingerprint, validate
from sglang_sweep.host.recording import RecordedSources, recorded_host
from sglang_sweep.host.sample import quick_check

Host = Callable[[str], dict[str, Any]]


@pytest.mark.parametrize("name", NAMES)
def test_every_recorded_host_says_whether_it_was_recorded_or_constructed(name: str) -> None:
    document = recorded_host(HOSTS / name / "host.yaml").document
    assert document["kind"] in ("recorded", "constructed")
    assert document["label"].startswith("Constructed") == (document["kind"] == "constructed")


@pytest.mark.parametrize("name", NAMES)
def test_a_fingerprint_is_valid_json_and_the_same_each_time(name: str, host: Host) -> None:
    again = fingerprint(recorded_host(HOSTS / name / "host.yaml"), folders=["/"])
    assert json.loads(json.dumps(host(name))) == again


@pytest.mark.parametrize("name", NAMES)
def test_every_null_among_the_gpu_and_driver_facts_has_a_reason(name: str, host: Host) -> None:
    fp = host(name)

    def nulls(value: Any, path: str) -> list[str]:
        if isinstance(value, dict):
            return [found for key, item in value.items() for found in nulls(item, f"{path}.{key}")]
        return [path] if value is None else []

    missing = nulls(fp["driver"], "driver") + nulls(fp["cpu"], "cpu")
    for gpu in fp["gpus"] or []:
        missing += nulls(gpu, f"gpus.{gpu['index']}")
    for path in missing:
        parts = path.split(".")
        prefixes = [".".join(parts[:length]) for length in range(1, len(parts) + 1)]
        derived = path.endswith(("bar1_covers_memory", "registry_dwords"))
        assert derived or any(prefix in fp["unreadable"] for prefix in prefixes), path


def test_two_real_h200_are_read_as_nvidia_smi_shows_them(host: Host) -> None:
    fp = host("h200-x2")
    gpu = fp["gpus"][1]
    assert (gpu["name"], gpu["compute_capability"], gpu["memory_mib"]) == ("NVIDIA H200", "9.0", 143771)
    assert (gpu["power_limit_w"], gpu["max_sm_mhz"], gpu["ecc"], gpu["mig"]) == (700.0, 1980, True, False)
    assert (gpu["pcie"]["generation_max"], gpu["pcie"]["width"]) == (5, 16)
    assert gpu["bar1_covers_memory"] is True
    assert gpu["now"]["throttle_reasons"] == ["gpu_idle"]
    assert (fp["driver"]["version"], fp["driver"]["cuda"]) == ("580.159.04", "13.0")
    assert fp["driver"]["parameters"]["EnableStreamMemOPs"] == 0
    assert fp["driver"]["registry_dwords"] == {}
    assert fp["topology"]["links"] == [[None, "NV18"], ["NV18", None]]
    assert fp["topology"]["cpu_affinity"] == ["0-31", "0-31"]
    assert fp["topology"]["p2p"]["read"] == [[None, "ok"], ["ok", None]]


def test_one_real_h200_reads_as_it_was_recorded_through_nvml(host: Host) -> None:
    assert host("h200-x1") == json.loads((HOSTS / "h200-x1" / "environment.json").read_text())


def test_what_was_not_recorded_of_the_h200_host_is_null_and_not_guessed(host: Host) -> None:
    fp = host("h200-x2")
    assert fp["topology"]["p2p"]["write"] is None
    assert "not found" in fp["unreadable"]["topology.p2p.write"]
    assert fp["cpu"]["model"] is None and fp["unreadable"]["cpu.model"]
    assert fp["tools"]["nvcc"] is None and "nvcc" in fp["unreadable"]["tools.nvcc"]


def test_eight_pcie_gpus_show_their_sockets_iommu_and_redirecting_bridges(host: Host) -> None:
    fp = host("rtx-pro-6000-x8")
    assert fp["topology"]["summary"] == "12x NODE, 16x SYS"
    assert fp["topology"]["numa_affinity"] == ["0"] * 4 + ["1"] * 4
    assert fp["iommu"] == {"enabled": True, "group_types": {"DMA-FQ": 2}}
    assert fp["acs"] == {"bridges": 1, "with_acs": 1, "redirecting": ["0000:00:01.1"]}
    assert fp["driver"]["kernel_module"] == "open"
    assert fp["cpu"]["sockets"] == 2 and fp["cpu"]["cores"] == 128 and fp["cpu"]["governor"] == "performance"
    assert fp["virtual_machine"] == "none"


def test_a_host_without_gpus_has_an_empty_list_and_a_broken_driver_has_null(host: Host) -> None:
    assert host("no-gpu")["gpus"] == []
    broken = host("broken-driver")
    assert broken["gpus"] is None
    assert broken["unreadable"]["gpus"] == (
        "2 NVIDIA PCI device(s) present, but the driver does not answer "
        "(NVML: Driver/library version mismatch)"
    )
    assert broken["driver"]["version"] == "580.95.05"  # what is loaded is still to be seen


def test_nvidia_smi_missing_in_a_container_costs_the_topology_but_not_the_gpus(host: Host) -> None:
    fp = host("container-without-nvidia-smi")
    assert len(fp["gpus"]) == 2 and fp["topology"]["links"] is None
    assert fp["unreadable"]["topology.links"] == "nvidia-smi: not found"
    assert fp["container"] == "docker"
    assert (fp["cpu"]["model"], fp["cpu"]["threads"]) == ("Intel(R) Xeon(R) Platinum 8558", 4)
    assert fp["cpu"]["sockets"] is None


def test_mig_foreign_processes_and_narrow_slots_are_seen(host: Host) -> None:
    assert host("mig-on")["gpus"][0]["mig"] is True
    second = host("mixed-gpus")["gpus"][1]
    assert second["now"]["processes"] == [{"pid": 4711, "name": "python3", "memory_mib": 11800}]
    assert (second["pcie"]["width"], second["pcie"]["width_max"]) == (4, 16)
    assert second["now"]["throttle_reasons"] == ["hw_thermal_slowdown"]


def test_secrets_never_reach_environment_json(host: Host) -> None:
    fp = host("container-without-nvidia-smi")
    assert fp["environment"]["HF_TOKEN"] == "<redacted>"
    assert "hf_not_a_real_one" not in json.dumps(fp)


def test_this_machine_can_be_read_without_a_recording() -> None:
    fp = fingerprint()
    assert fp["cpu"]["threads"] and fp["memory"]["total_gib"]


def test_the_schema_refuses_a_link_class_that_does_not_exist(host: Host) -> None:
    fp = host("h200-x2")
    fp["topology"]["links"][0][1] = "NVLINK"
    with pytest.raises(jsonschema.ValidationError):
        validate(fp)


MAIMED = {
    name: recorded_host(HOSTS / name / "host.yaml").document
    for name in ("rtx-pro-6000-x8", "h200-x2", "no-gpu")
}


@settings(max_examples=40)
@given(st.sampled_from(sorted(MAIMED)), st.data())
def test_any_subset_of_missing_tools_and_unreadable_files_still_gives_a_valid_document(
    name: str, data: st.DataObject
) -> None:
    document = copy.deepcopy(MAIMED[name])
    ways = {
        "gone": None,
        "forbidden": {"unreadable": "Permission denied"},
        "empty": "",
        "garbage": "\x00not what anybody expects 7: 7 = 7\n\t\tGPU0\n",
    }
    for kind in ("files", "folders", "resolved", "programs", "commands", "disks", "limits"):
        answers = document.get(kind) or {}
        for key in data.draw(st.sets(st.sampled_from(sorted(answers)))) if answers else ():
            way = ways[data.draw(st.sampled_from(sorted(ways)))]
            if way is None or kind in ("programs", "disks", "limits"):
                del answers[key]
            elif kind == "commands" and isinstance(way, str):
                answers[key] = {"code": data.draw(st.integers(0, 9)), "output": way}
            elif kind == "folders" and isinstance(way, str):
                answers[key] = []
            else:
                answers[key] = way
    for gpu in (document["nvml"] or {}).get("gpus", []):
        for key in data.draw(st.sets(st.sampled_from(sorted(gpu)))):
            del gpu[key]
    if data.draw(st.booleans()):
        document["nvml"] = {
            "error": data.draw(st.sampled_from(["NVML Shared Library Not Found", "Unknown Error"]))
        }
    fp = fingerprint(RecordedSources(document), folders=["/"])  # validates
    assert all(reason.strip() for reason in fp["unreadable"].values())
    # ... and everything that reads it copes with every gap.
    stacks = {"cu130": {"cuda": "13.0", "disk_gb": 30}, "cpu": {"cuda": None}}
    variants = [
        Variant("a", None, "", Change(), {"tp-size": 8, "enable-torch-symm-mem": True}, {}, "cu130", "m"),
        Variant("b", None, "", Change(), {"device": "cpu"}, {}, "cpu", "m"),
    ]
    text, _ = environment_report(fp, gate(fp, stacks, variants), variants)
    assert "b: can run here" in text or "a, b: can run here" in text
    whole = fingerprint(RecordedSources(MAIMED[name]), folders=["/"])
    assert isinstance(drift(whole, fp), list) and isinstance(
        quick_check(whole, RecordedSources(document)), list
    )
