"""Checks of the host itself, whatever runs on it. Each gives findings, or nothing where it has no object."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from sglang_sweep.gate.findings import Finding, finding, text_of
from sglang_sweep.host.gpus import SLOWING
from sglang_sweep.host.topology import pairs

Fingerprint = Mapping[str, Any]
BUSY_MIB = 1024  # the driver's own reserve and a display stay below this
DIRECT_LINKS = frozenset({"PHB", "NODE", "SYS"})  # through the CPU's root complex, no PCIe switch


def check_host(fp: Fingerprint, on_gpu: Sequence[str], on_many_gpus: Sequence[str]) -> list[Finding]:
    """All host checks. ``on_gpu`` are the variants that use GPUs, ``on_many_gpus`` those with several."""
    gpus = fp["gpus"]
    if gpus is None:
        reason = fp["unreadable"].get("gpus", "no reason was noted")
        return [finding("gpus_readable", False, reason, concerns=on_gpu), *_machine(fp)]
    found: list[Finding] = list(_machine(fp))
    if gpus:
        names = ", ".join(_inventory(gpus))
        found.append(finding("gpus_readable", True, f"{names}, driver {fp['driver']['version']}"))
        found += _mig(fp, on_many_gpus)
        for check in _GPU_CHECKS:
            found += check(fp, on_gpu)
        if len(gpus) > 1:
            for check in _FABRIC_CHECKS:
                found += check(fp, on_many_gpus)
        found += _shm(fp, on_many_gpus)
    return found


def direct_attached(fp: Fingerprint) -> bool | None:
    """Whether every pair of GPUs meets at a root complex: no NVLink, no switch. None where it is not known."""
    links = fp["topology"]["links"]
    return None if links is None else bool(pairs(links)) and set(pairs(links)) <= DIRECT_LINKS


def _machine(fp: Fingerprint) -> Iterator[Finding]:
    governor, machine = fp["cpu"]["governor"], fp["virtual_machine"]
    if governor is None:
        yield finding("governor", None, fp["unreadable"].get("cpu.governor", "not readable"))
    else:
        yield finding("governor", governor == "performance", governor)
    if machine is None:
        yield finding("bare_metal", None, fp["unreadable"].get("virtual_machine", "not readable"))
    else:
        yield finding("bare_metal", machine == "none", "bare metal" if machine == "none" else machine)


def _mig(fp: Fingerprint, concerns: Sequence[str]) -> Iterator[Finding]:
    on = [gpu["index"] for gpu in fp["gpus"] if gpu["mig"]]
    yield finding("mig_off", not on, f"on for GPU {_listed(on)}" if on else "off", concerns=concerns)


def _compute_mode(fp: Fingerprint, concerns: Sequence[str]) -> Iterator[Finding]:
    prohibited = [gpu["index"] for gpu in fp["gpus"] if gpu["compute_mode"] == 2]
    if prohibited:
        yield finding("compute_mode", False, f"prohibited on GPU {_listed(prohibited)}", concerns=concerns)


def _same_gpus(fp: Fingerprint, concerns: Sequence[str]) -> Iterator[Finding]:
    kinds = _inventory(fp["gpus"])
    yield finding("same_gpus", len(kinds) == 1, ", ".join(kinds), concerns=concerns)


def _pcie_link(fp: Fingerprint, concerns: Sequence[str]) -> Iterator[Finding]:
    """Width never shrinks to save power; generation does, so that it counts only on a GPU at work."""
    troubles, resting, unread = [], 0, 0
    for gpu in fp["gpus"]:
        link, now = gpu["pcie"], gpu["now"]
        if link["width"] is None or link["width_max"] is None:
            unread += 1
            continue
        if link["width"] < link["width_max"]:
            troubles.append(f"GPU {gpu['index']} x{link['width']} of x{link['width_max']}")
        if _below(link["generation_max"], link["generation_device_max"]):
            troubles.append(
                f"GPU {gpu['index']} in a generation {link['generation_max']} slot"
                f" (the card does {link['generation_device_max']})"
            )
        if _below(link["generation"], link["generation_max"]):
            if now["throttle_reasons"] is not None and "gpu_idle" in now["throttle_reasons"]:
                resting += 1
            elif now["sm_mhz"] and gpu["max_sm_mhz"] and now["sm_mhz"] > gpu["max_sm_mhz"] / 2:
                troubles.append(
                    f"GPU {gpu['index']} at work at generation {link['generation']} of {link['generation_max']}"
                )
    if troubles:
        yield finding("pcie_link", False, "; ".join(troubles), concerns=concerns)
    elif unread:
        yield finding("pcie_link", None, f"{unread} links not readable")
    else:
        first = fp["gpus"][0]["pcie"]
        note = f", {resting} idle at a lower generation (normal)" if resting else ""
        yield finding("pcie_link", True, f"x{first['width']}, generation {first['generation_max']}{note}")


def _idle(fp: Fingerprint, concerns: Sequence[str]) -> Iterator[Finding]:
    troubles, unread = [], 0
    for gpu in fp["gpus"]:
        processes, used = gpu["now"]["processes"], gpu["now"]["memory_used_mib"]
        if processes:
            names = ", ".join(f"{p['pid']} {p['name'] or '?'}" for p in processes)
            troubles.append(f"GPU {gpu['index']}: {used} MiB, processes {names}")
        elif used is not None and used > BUSY_MIB:
            troubles.append(f"GPU {gpu['index']}: {used} MiB by a process that is not shown")
        unread += used is None and processes is None
    if troubles:
        yield finding("gpus_idle", False, "; ".join(troubles), concerns=concerns)
    else:
        yield finding("gpus_idle", None if unread else True, f"{unread} not readable" if unread else "nobody")


def _throttling(fp: Fingerprint, concerns: Sequence[str]) -> Iterator[Finding]:
    slowed = {
        gpu["index"]: [reason for reason in gpu["now"]["throttle_reasons"] or [] if reason in SLOWING]
        for gpu in fp["gpus"]
    }
    found = "; ".join(f"GPU {index}: {', '.join(reasons)}" for index, reasons in slowed.items() if reasons)
    yield finding("not_throttling", not found, found or "none", concerns=concerns)


def _power_limit(fp: Fingerprint, concerns: Sequence[str]) -> Iterator[Finding]:
    changed = [
        f"GPU {gpu['index']}: {gpu['power_limit_w']:g} W instead of {gpu['power_limit_default_w']:g} W"
        for gpu in fp["gpus"]
        if gpu["power_limit_w"] and gpu["power_limit_default_w"] not in (None, gpu["power_limit_w"])
    ]
    if changed:
        yield finding("power_limit", False, "; ".join(changed), concerns=concerns)


def _persistence(fp: Fingerprint, concerns: Sequence[str]) -> Iterator[Finding]:
    off = [gpu["index"] for gpu in fp["gpus"] if gpu["persistence"] is False]
    yield finding("persistence", not off, f"off for GPU {_listed(off)}" if off else "on", concerns=concerns)


def _topology(fp: Fingerprint, concerns: Sequence[str]) -> Iterator[Finding]:
    summary = fp["topology"]["summary"]
    reason = fp["unreadable"].get("topology.links", "not readable")
    yield finding("topology_readable", summary is not None, summary or reason, concerns=concerns)


def _p2p(fp: Fingerprint, concerns: Sequence[str]) -> Iterator[Finding]:
    matrices = {kind: fp["topology"]["p2p"][kind] for kind in ("read", "write")}
    known = {kind: matrix for kind, matrix in matrices.items() if matrix is not None}
    if not known:
        yield finding("p2p_between_gpus", None, fp["unreadable"].get("topology.p2p.read", "not readable"))
        return
    refused = {
        f"{kind}: {state}" for kind, matrix in known.items() for state in pairs(matrix) if state != "ok"
    }
    found = "; ".join(sorted(refused)) or f"ok between all ({', '.join(known)})"
    yield finding("p2p_between_gpus", not refused, found, concerns=concerns)


def _sysmem_staging(fp: Fingerprint, concerns: Sequence[str]) -> Iterator[Finding]:
    blackwell = [gpu["index"] for gpu in fp["gpus"] if (gpu["compute_capability"] or "").startswith("12.")]
    if not blackwell or direct_attached(fp) is not True:
        return
    dwords = fp["driver"]["registry_dwords"]
    if dwords is None:
        reason = fp["unreadable"].get("driver.parameters", "the driver's parameters are not readable")
        yield finding("sysmem_staging", None, reason, concerns=concerns)
        return
    forced = {"RMForceP2PType", "RMPcieP2PType"} & set(dwords)
    text = "; ".join(f"{name}={value}" for name, value in dwords.items()) or "empty"
    found = f"SM120 without a PCIe switch ({fp['topology']['summary']}), RegistryDwords {text}"
    yield finding("sysmem_staging", bool(forced), found, concerns=concerns)


def _iommu(fp: Fingerprint, concerns: Sequence[str]) -> Iterator[Finding]:
    if _nvlink_everywhere(fp):
        return
    enabled, kinds = fp["iommu"]["enabled"], fp["iommu"]["group_types"]
    if enabled is None or (enabled and kinds is None):
        yield finding("iommu_passes_through", None, fp["unreadable"].get("iommu.group_types", "not readable"))
        return
    translating = [kind for kind in kinds or {} if kind != "identity"]
    found = (
        "off" if not enabled else ", ".join(f"{count} groups {kind}" for kind, count in (kinds or {}).items())
    )
    yield finding("iommu_passes_through", not (enabled and translating), found or "on", concerns=concerns)


def _acs(fp: Fingerprint, concerns: Sequence[str]) -> Iterator[Finding]:
    if _nvlink_everywhere(fp):
        return
    redirecting = fp["acs"]["redirecting"]
    if redirecting is None:
        yield finding("acs_off", None, fp["unreadable"].get("acs", "not readable"))
    else:
        found = f"{len(redirecting)} of {fp['acs']['bridges']} bridges redirect"
        yield finding("acs_off", not redirecting, found, concerns=concerns)


def _bar1(fp: Fingerprint, concerns: Sequence[str]) -> Iterator[Finding]:
    if _nvlink_everywhere(fp):
        return
    small = [gpu for gpu in fp["gpus"] if gpu["bar1_covers_memory"] is False]
    if small:
        found = "; ".join(f"GPU {g['index']}: {g['bar1_mib']} of {g['memory_mib']} MiB" for g in small)
        yield finding("bar1_size", False, found, concerns=concerns)
    elif any(gpu["bar1_covers_memory"] is None for gpu in fp["gpus"]):
        yield finding("bar1_size", None, "not readable")
    else:
        yield finding("bar1_size", True, f"{fp['gpus'][0]['bar1_mib']} MiB")


def _sockets(fp: Fingerprint, concerns: Sequence[str]) -> Iterator[Finding]:
    nodes = fp["topology"]["numa_affinity"]
    if nodes and None not in nodes:
        found = ", ".join(f"{nodes.count(node)} on node {node}" for node in dict.fromkeys(nodes))
        yield finding("one_socket", len(set(nodes)) == 1, found, concerns=concerns)


def _shm(fp: Fingerprint, concerns: Sequence[str]) -> Iterator[Finding]:
    size, text = fp["limits"]["shm_mib"], text_of("shm_size")
    if size is None:
        yield finding("shm_size", None, fp["unreadable"].get("limits.shm_mib", "not readable"))
        return
    severity = "fail" if size < text["fail_below_mib"] else "warn"
    passed = size >= text["warn_below_mib"]
    yield finding("shm_size", passed, f"{size} MiB", severity=severity, concerns=concerns)


def _nvlink_everywhere(fp: Fingerprint) -> bool:
    links = fp["topology"]["links"]
    return links is not None and all(link.startswith("NV") for link in pairs(links))


def _inventory(gpus: Sequence[Mapping[str, Any]]) -> list[str]:
    kinds = [f"{gpu['name'] or 'unnamed GPU'} {gpu['memory_mib'] or '?'} MiB" for gpu in gpus]
    return [f"{kinds.count(kind)}x {kind}" for kind in dict.fromkeys(kinds)]


def _below(value: int | None, maximum: int | None) -> bool:
    return value is not None and maximum is not None and value < maximum


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


_Check = Callable[[Fingerprint, Sequence[str]], Iterator[Finding]]
_GPU_CHECKS: tuple[_Check, ...] = (
    _compute_mode,
    _pcie_link,
    _idle,
    _throttling,
    _power_limit,
    _persistence,
)
_FABRIC_CHECKS: tuple[_Check, ...] = (
    _same_gpus,
    _topology,
    _p2p,
    _sysmem_staging,
    _iommu,
    _acs,
    _bar1,
    _sockets,
)
