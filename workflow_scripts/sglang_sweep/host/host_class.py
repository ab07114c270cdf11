"""The host's class: the facts that move performance, and their digest, which goes into every launch's key.

A fact belongs here when changing it can change a number, and when it stays put while nobody changes the
machine. So temperature, current clocks, host name, UUIDs and free disk are left out;
main memory too, which virtual machines grow while they run (one with two H200 went from 31 to 255 GiB); the
kernel's version (security updates would void every campaign) and the CUDA toolkit (its kernels stay in JIT
caches, and a stack's own is in the stack's digest). Drift still reports those two.
"""

from collections.abc import Mapping
from typing import Any

from sglang_sweep.files.digest import digest

GPU_FACTS = (
    "name",
    "compute_capability",
    "memory_mib",
    "bar1_mib",
    "power_limit_w",
    "max_sm_mhz",
    "max_memory_mhz",
    "application_sm_mhz",
    "ecc",
    "mig",
)
PCIE_FACTS = ("generation_max", "width_max")

# Driver parameters that change how GPUs reach each other or host memory.
DRIVER_PARAMETERS = (
    "NvLinkDisable",
    "EnablePCIeGen3",
    "EnablePCIERelaxedOrderingMode",
    "EnableResizableBar",
    "EnableStreamMemOPs",
    "DmaRemapPeerMmio",
    "GrdmaPciTopoCheckOverride",
    "CoherentGPUMemoryMode",
    "RegistryDwords",
    "RegistryDwordsPerDevice",
)


def host_class(fp: Mapping[str, Any]) -> dict[str, Any]:
    """The class facts of a fingerprint; a fact that was unreadable is null here too."""
    cpu, driver, gpus = fp["cpu"], fp["driver"], fp["gpus"]
    parameters = driver["parameters"]
    nodes = cpu["numa_nodes"]
    facts: dict[str, Any] = {
        "architecture": fp["architecture"],
        "virtual_machine": fp["virtual_machine"],
        "cpu": {
            **{name: cpu[name] for name in ("model", "sockets", "cores", "threads", "governor")},
            "numa_nodes": None if nodes is None else len(nodes),
        },
        "gpus": None if gpus is None else [_gpu_class(gpu) for gpu in gpus],
        "driver": {
            **{name: driver[name] for name in ("version", "cuda", "kernel_module")},
            "parameters": None
            if parameters is None
            else {name: parameters.get(name) for name in DRIVER_PARAMETERS},
        },
        "iommu": _iommu_class(fp["iommu"]) if gpus != [] else None,
    }
    if "topology" in fp:
        facts["topology"] = {name: fp["topology"][name] for name in ("links", "p2p", "numa_affinity")}
        redirecting = fp["acs"]["redirecting"]
        facts["acs"] = {"redirecting": None if redirecting is None else len(redirecting)}
    return facts


def class_digest(fp: Mapping[str, Any]) -> str:
    """Twelve hex digits that name the class."""
    return digest(host_class(fp), length=12)


def gpus_digest(fp: Mapping[str, Any]) -> str | None:
    """Twelve hex digits that name these very GPUs, or None without GPUs that tell their UUIDs.

    Two hosts of one class may differ by more than launches do (2.3 % between two with H200), and a lent host is
    another one each time: launches are compared within one set of cards.
    """
    uuids = [gpu["uuid"] for gpu in fp["gpus"] or []]
    return digest(sorted(uuids), length=12) if uuids and all(uuids) else None


def host_identity(fp: Mapping[str, Any]) -> dict[str, Any]:
    """How launches and reports name the host."""
    return {"hostname": fp["hostname"], "class_digest": class_digest(fp), "gpus_digest": gpus_digest(fp)}


def differences(old: Any, new: Any, path: str = "") -> list[tuple[str, Any, Any]]:
    """Facts of two classes (or fingerprints) that differ: path, old value, new value."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        keys = dict.fromkeys([*old, *new])
        return [
            row
            for key in keys
            for row in differences(old.get(key), new.get(key), f"{path}.{key}" if path else str(key))
        ]
    if (
        isinstance(old, list)
        and isinstance(new, list)
        and len(old) == len(new)
        and all(isinstance(item, Mapping) for item in [*old, *new])
    ):
        return [
            row
            for number, (a, b) in enumerate(zip(old, new, strict=True))
            for row in differences(a, b, f"{path}.{number}")
        ]
    return [] if old == new else [(path, old, new)]


def _gpu_class(gpu: Mapping[str, Any]) -> dict[str, Any]:
    return {name: gpu[name] for name in GPU_FACTS} | {
        f"pcie_{name}": gpu["pcie"][name] for name in PCIE_FACTS
    }


def _iommu_class(iommu: Mapping[str, Any]) -> dict[str, Any]:
    """How many groups translate in which way changes with plugged devices; that there is a way does not."""
    kinds = iommu["group_types"]
    return {"enabled": iommu["enabled"], "group_types": None if kinds is None else sorted(kinds)}
