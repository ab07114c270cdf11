"""What changed between two fingerprints, in words that say what it means for a campaign."""

from collections.abc import Mapping
from typing import Any

from sglang_sweep.host.host_class import differences, host_class

MEASURED_AGAIN = "all launches of this campaign will be measured again"

# Worth telling although results stay valid: they change what can be built, and what a fault may come from.
OUTSIDE_THE_CLASS = (
    "kernel",
    "os",
    "container",
    "kernel_arguments",
    "tools.nvcc",
    "limits.shm_mib",
)

NAMES = {
    "virtual_machine": "virtual machine",
    "cpu.model": "CPU",
    "cpu.governor": "CPU governor",
    "cpu.cores": "CPU cores",
    "cpu.threads": "CPU threads",
    "cpu.sockets": "CPU sockets",
    "cpu.numa_nodes": "NUMA nodes",
    "driver.version": "driver",
    "driver.cuda": "CUDA of the driver",
    "driver.kernel_module": "driver's kernel module",
    "iommu.enabled": "IOMMU enabled",
    "iommu.group_types": "IOMMU translation",
    "topology.links": "links between GPUs",
    "topology.numa_affinity": "NUMA affinity of GPUs",
    "topology.p2p.read": "peer-to-peer read",
    "topology.p2p.write": "peer-to-peer write",
    "topology.p2p.nvlink": "peer-to-peer over NVLink",
    "acs.redirecting": "PCIe bridges whose ACS redirects peer traffic",
    "power_limit_w": "power limit (W)",
    "memory_mib": "memory (MiB)",
    "bar1_mib": "BAR1 (MiB)",
    "max_sm_mhz": "maximum SM clock (MHz)",
    "max_memory_mhz": "maximum memory clock (MHz)",
    "application_sm_mhz": "application SM clock (MHz)",
    "ecc": "ECC",
    "mig": "MIG",
    "pcie_generation_max": "maximum PCIe generation",
    "pcie_width_max": "maximum PCIe width",
    "compute_capability": "compute capability",
    "os": "operating system",
    "kernel_arguments": "kernel arguments",
    "tools.nvcc": "CUDA toolkit (nvcc)",
    "limits.shm_mib": "/dev/shm (MiB)",
}


def drift(old_fp: Mapping[str, Any], new_fp: Mapping[str, Any]) -> list[str]:
    """One sentence per difference that matters; first those that make launches missing. Empty: no drift."""
    changes = [
        *(
            (path, old, new, MEASURED_AGAIN)
            for path, old, new in differences(host_class(old_fp), host_class(new_fp))
        ),
        *_outside_the_class(old_fp, new_fp),
    ]
    return _same_change_on_many_gpus(changes, new_fp["unreadable"])


def _outside_the_class(
    old_fp: Mapping[str, Any], new_fp: Mapping[str, Any]
) -> list[tuple[str, Any, Any, str]]:
    rows = []
    for path in OUTSIDE_THE_CLASS:
        section, _, name = path.partition(".")
        old, new = old_fp[section], new_fp[section]
        if name:
            old, new = old[name], new[name]
        if old != new:
            rows.append((path, old, new, "results stay valid, the change is recorded"))
    return rows


def _same_change_on_many_gpus(
    changes: list[tuple[str, Any, Any, str]], unreadable: Mapping[str, str]
) -> list[str]:
    """A power limit lowered on eight GPUs is one sentence, not eight."""
    grouped: dict[tuple[str, str, str], tuple[list[str], tuple[str, Any, Any, str]]] = {}
    for path, old, new, consequence in changes:
        section, _, rest = path.partition(".")
        number, _, fact = rest.partition(".")
        on_gpu = section == "gpus" and number.isdigit()
        key = (fact if on_gpu else path, repr(old), repr(new))
        grouped.setdefault(key, ([], (path, old, new, consequence)))[0].append(number if on_gpu else "")
    sentences = []
    for numbers, (path, old, new, consequence) in grouped.values():
        if new is None and (reason := reason_for(path, unreadable)):
            consequence = f"it could be read before and cannot now ({reason}); mend this before measuring"
        many = f"GPUs {', '.join(numbers)}" if len(numbers) > 1 else None
        sentences.append(f"{in_words(path, old, new, gpus=many)}: {consequence}")
    return sentences


def in_words(path: str, old: Any, new: Any, gpus: str | None = None) -> str:
    """``driver 570.124 -> 580.65``; for one GPU's fact ``GPU 3 power limit (W) 600 -> 450``."""
    parts = path.split(".")
    if path == "gpus":
        return f"GPUs {_inventory(old)} -> {_inventory(new)}"
    if parts[0] == "gpus" and len(parts) > 2:
        fact = ".".join(parts[2:])
        return f"{gpus or f'GPU {parts[1]}'} {NAMES.get(fact, fact)} {_shown(old)} -> {_shown(new)}"
    if parts[:2] == ["driver", "parameters"] and len(parts) > 2:
        return f"driver parameter {parts[2]} {_shown(old)} -> {_shown(new)}"
    return f"{NAMES.get(path, path)} {_shown(old)} -> {_shown(new)}"


def _inventory(gpus: Any) -> str:
    if gpus is None:
        return "unreadable"
    names = [gpu["name"] or "unnamed" for gpu in gpus]
    return " + ".join(f"{names.count(name)}x {name}" for name in dict.fromkeys(names)) or "none"


def _shown(value: Any) -> str:
    if value is None:
        return "unreadable"
    if isinstance(value, bool):
        return "on" if value else "off"
    if value == "":
        return "empty"
    if isinstance(value, list) and value and isinstance(value[0], list):  # a matrix: its kinds, counted
        cells = [cell or "unknown" for i, row in enumerate(value) for cell in row[i + 1 :]]
        return ", ".join(f"{cells.count(kind)}x {kind}" for kind in sorted(set(cells))) or "empty"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, Mapping):
        return str(value.get("version") or dict(value))
    return str(value)


def reason_for(path: str, unreadable: Mapping[str, str]) -> str | None:
    """The reason noted for a path or for what contains it."""
    parts = path.split(".")
    prefixes = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
    return next((unreadable[prefix] for prefix in prefixes if prefix in unreadable), None)
