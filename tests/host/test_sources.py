"""Parameters, configuration space, secrets and the real host's own answers."""

import struct
from pathlib import Path

import pytest
import yaml
from sglang_sweep.host.driver import parse_parameters, split_dwords
from sglang_sweep.host.fingerprint import fingerprint
from sglang_sweep.host.pcie import acs_control
from sglang_sweep.host.recording import RecordedSources, main, shareable
from sglang_sweep.host.sources import Sources, Unreadable
from sglang_sweep.host.tools import relevant_variables


def test_registry_dwords_are_split_at_semicolons() -> None:
    text = 'RegistryDwords: "ForceP2P=0x11;RMForceP2PType=1;RMPcieP2PType=2"\nEnableMSI: 1\n'
    parameters = parse_parameters(text)
    assert parameters["EnableMSI"] == 1
    assert split_dwords(str(parameters["RegistryDwords"])) == {
        "ForceP2P": "0x11",
        "RMForceP2PType": "1",
        "RMPcieP2PType": "2",
    }
    assert split_dwords("") == {}


def test_acs_is_found_behind_another_capability() -> None:
    space = bytearray(4096)
    struct.pack_into("<I", space, 0x100, 0x14810001)  # advanced error reporting, next at 0x148
    struct.pack_into("<I", space, 0x148, 0x0001000D)
    struct.pack_into("<H", space, 0x148 + 6, 0x1D)
    assert acs_control(bytes(space)) == 0x1D


def test_a_bridge_without_acs_has_no_control_register_and_a_loop_ends() -> None:
    space = bytearray(4096)
    assert acs_control(bytes(space)) is None
    struct.pack_into("<I", space, 0x100, 0x10010001)  # its own next
    assert acs_control(bytes(space)) is None


def test_a_shortened_configuration_space_is_unreadable() -> None:
    with pytest.raises(Unreadable, match="root only"):
        acs_control(bytes(64))


def test_only_variables_that_reach_the_server_are_recorded() -> None:
    assert relevant_variables(
        {"HOME": "/h", "NCCL_ALGO": "Tree", "CUDA_VISIBLE_DEVICES": "0", "AWS_KEY": "x"}
    ) == {
        "CUDA_VISIBLE_DEVICES": "0",
        "NCCL_ALGO": "Tree",
    }


def test_a_missing_command_says_its_name() -> None:
    with pytest.raises(Unreadable, match="no-such-program: not found"):
        Sources().run(("no-such-program", "--version"))


def test_a_command_started_early_gives_the_same_answer() -> None:
    sources = Sources()
    sources.start([("echo", "one"), ("no-such-program",)])
    assert sources.run(("echo", "one")) == (0, "one\n")
    with pytest.raises(Unreadable):
        sources.run(("no-such-program",))


def test_a_recording_of_this_machine_replays_to_the_same_fingerprint(tmp_path: Path) -> None:
    main([str(tmp_path / "host.yaml")])
    document = yaml.safe_load((tmp_path / "host.yaml").read_text())
    replayed = fingerprint(RecordedSources(document), folders=["/"])
    real = fingerprint(folders=["/"])
    for volatile in ("recorded_at", "hostname", "memory", "disks", "limits", "environment"):
        replayed.pop(volatile), real.pop(volatile)
    assert replayed == real


def test_a_shared_recording_does_not_name_the_machine() -> None:
    uuid = "GPU-5895e020-7d50-0c08-6ec8-e543a425c76c"
    files = {
        "/proc/sys/kernel/hostname": "gpu7.example\n",
        "/proc/cmdline": "root=/dev/x iommu=pt secret=1\n",
    }
    shared = shareable({"nvml": {"gpus": [{"nvmlDeviceGetUUID": uuid}]}, "x": uuid, "files": files})
    assert uuid not in str(shared)
    assert shared["files"] == {"/proc/sys/kernel/hostname": "host\n", "/proc/cmdline": "iommu=pt\n"}


def test_a_folder_that_is_still_to_be_made_has_its_parents_room(tmp_path: Path) -> None:
    assert (
        Sources().disk_usage(str(tmp_path / "store" / "stacks"))[0] == Sources().disk_usage(str(tmp_path))[0]
    )
