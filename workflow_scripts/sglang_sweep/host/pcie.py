"""IOMMU and ACS: the two settings of the PCIe fabric that make peer-to-peer traffic slow, or hang it."""

import struct
from typing import Any

from sglang_sweep.host.sources import Readings, Unreadable

DEVICES = "/sys/bus/pci/devices"
GROUPS = "/sys/kernel/iommu_groups"
BRIDGE_CLASS = "0x0604"

# PCI Express Base Specification: extended capabilities begin at 0x100; ACS has id 0x000d, its control
# register at offset 6; bits 2, 3, 4 redirect peer requests, completions, and forward upstream.
EXTENDED_START, ACS_ID, ACS_CONTROL = 0x100, 0x000D, 6
ACS_REDIRECTS = 0b11100


def read_iommu(readings: Readings) -> dict[str, Any]:
    """Whether an IOMMU is active, and how its groups translate (``identity`` is pass-through)."""

    def groups() -> dict[str, int]:
        counts: dict[str, int] = {}
        for group in readings.sources.list_folder(GROUPS):
            kind = readings.sources.read_text(f"{GROUPS}/{group}/type").strip()
            counts[kind] = counts.get(kind, 0) + 1
        return dict(sorted(counts.items()))

    return {
        "enabled": readings.take(
            "iommu.enabled", lambda: bool(readings.sources.list_folder("/sys/class/iommu"))
        ),
        "group_types": readings.take("iommu.group_types", groups),
    }


def read_acs(readings: Readings, gpu_count: int | None) -> dict[str, Any]:
    """PCIe bridges with ACS, and those whose ACS redirects peer traffic to the root complex."""
    nothing = {"bridges": None, "with_acs": None, "redirecting": None}
    if not gpu_count:
        readings.missing("acs", "no GPUs" if gpu_count == 0 else "the GPUs cannot be read")
        return nothing
    return readings.take("acs", lambda: _count_acs(readings)) or nothing


def _count_acs(readings: Readings) -> dict[str, Any]:
    sources = readings.sources
    bridges, able, redirecting = 0, 0, []
    for device in sources.list_folder(DEVICES):
        if not sources.read_text(f"{DEVICES}/{device}/class").startswith(BRIDGE_CLASS):
            continue
        bridges += 1
        control = acs_control(sources.read_bytes(f"{DEVICES}/{device}/config"))
        if control is not None:
            able += 1
            if control & ACS_REDIRECTS:
                redirecting.append(device)
    return {"bridges": bridges, "with_acs": able, "redirecting": redirecting}


def acs_control(config: bytes) -> int | None:
    """The ACS control register in a PCI configuration space of 4096 bytes; None where there is no ACS.

    Raises :class:`Unreadable` for a shortened space: the kernel shows 64 bytes of it to others than root.
    """
    if len(config) <= 64:
        raise Unreadable("PCI configuration space beyond 64 bytes is shown to root only")
    offset, seen = EXTENDED_START, set()
    while EXTENDED_START <= offset <= len(config) - 8 and offset not in seen:
        seen.add(offset)
        (header,) = struct.unpack_from("<I", config, offset)
        if header & 0xFFFF == ACS_ID:
            return int(struct.unpack_from("<H", config, offset + ACS_CONTROL)[0])
        offset = header >> 20
    return None
