"""Checks of one stack on this host: CUDA against driver, architectures, compiler, imports, NCCL, disk."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from sglang_sweep.gate.findings import Finding, finding, knowledge, text_of
from sglang_sweep.gate.subjects import StackView, version_of

Fingerprint = Mapping[str, Any]


def check_stack(
    fp: Fingerprint, stack: StackView, concerns: Sequence[str], on_many_gpus: Sequence[str] = ()
) -> list[Finding]:
    """All checks of a stack. ``concerns`` are the variants in it, ``on_many_gpus`` those with several GPUs."""
    found: list[Finding] = list(_disk(fp, stack, concerns))
    if not stack.on_gpu:
        return [*found, *_imports(stack, concerns)]
    if fp["gpus"] == []:
        host = f"this host has none, and the stack is built for CUDA {stack.cuda or 'or was not asked yet'}"
        return [*found, finding("gpus_for_stack", False, host, subject=stack.name, concerns=concerns)]
    found += _driver(fp, stack, concerns)
    found += _imports(stack, concerns)
    if fp["gpus"]:
        found += _architectures(fp, stack, concerns)
        found += _compiler(fp, stack, concerns)
        found += _nccl(fp, stack, on_many_gpus)
    return found


def runs_on(architectures: Sequence[str], capability: str) -> str | None:
    """The entry of torch's architecture list that serves a GPU, or None.

    Machine code (``sm_86``) serves GPUs of its major version with an equal or higher minor; an
    architecture-specific one (``sm_90a``) its own GPU only, a family's (``sm_100f``) its major version;
    PTX (``compute_90``) every later GPU.
    """
    major, minor = (int(part) for part in capability.split("."))
    ptx = None
    for entry in architectures:
        match = re.fullmatch(r"(sm|compute)_(\d+)(\d)([af]?)", entry)
        if match is None:
            continue
        kind, theirs, suffix = match[1], (int(match[2]), int(match[3])), match[4]
        if (
            kind == "sm"
            and theirs[0] == major
            and (theirs[1] == minor if suffix == "a" else theirs[1] <= minor)
        ):
            return entry
        if kind == "compute" and not suffix and theirs <= (major, minor):
            ptx = entry
    return ptx


def _driver(fp: Fingerprint, stack: StackView, concerns: Sequence[str]) -> Iterator[Finding]:
    driver, wanted = version_of(fp["driver"]["version"]), version_of(stack.cuda)
    if driver is None or wanted is None:
        reason = fp["unreadable"].get("driver.version", "the driver's version is not known")
        yield finding("driver_supports_cuda", None, reason, subject=stack.name, concerns=concerns)
        return
    oldest = knowledge()["oldest_driver"].get(str(wanted.major))
    own = knowledge()["driver_of_cuda"].get(f"{wanted.major}.{wanted.minor}")
    spoken = version_of(fp["driver"]["cuda"])
    starts = (spoken is not None and spoken >= wanted) or (oldest is not None and driver >= Version(oldest))
    shown = fp["driver"]["version"]  # not the parsed version, which drops leading zeros
    found = f"driver {shown} (CUDA {spoken or '?'}), the stack's CUDA is {stack.cuda}"
    needed = f", which needs driver {oldest} or newer" if oldest and not starts else ""
    known = oldest is not None or starts
    yield finding(
        "driver_supports_cuda",
        starts if known else None,
        found + needed,
        subject=stack.name,
        concerns=concerns,
    )
    if starts and own is not None and driver < Version(own):
        yield finding(
            "driver_compiles_ptx",
            False,
            f"driver {shown}; CUDA {stack.cuda} came with {own}",
            subject=stack.name,
            concerns=concerns,
        )


def _architectures(fp: Fingerprint, stack: StackView, concerns: Sequence[str]) -> Iterator[Finding]:
    capabilities = sorted({gpu["compute_capability"] for gpu in fp["gpus"] if gpu["compute_capability"]})
    if stack.architectures is None or not capabilities:
        reason = "the stack is not built yet" if not stack.built else "torch's list was not recorded"
        yield finding("torch_knows_gpu", None, reason, subject=stack.name, concerns=concerns)
        return
    serving = {capability: runs_on(stack.architectures, capability) for capability in capabilities}
    missing = [capability for capability, entry in serving.items() if entry is None]
    if missing:
        found = f"nothing for compute capability {', '.join(missing)} in {', '.join(stack.architectures)}"
    else:
        found = ", ".join(f"{entry} for {capability}" for capability, entry in serving.items())
    yield finding("torch_knows_gpu", not missing, found, subject=stack.name, concerns=concerns)


def _compiler(fp: Fingerprint, stack: StackView, concerns: Sequence[str]) -> Iterator[Finding]:
    host = fp["tools"]["nvcc"]
    nvcc = version_of(host and host["version"])
    if nvcc is None:
        reason = fp["unreadable"].get("tools.nvcc", "none found")
        yield finding("nvcc_for_jit", False, reason, subject=stack.name, concerns=concerns)
        return
    found = f"nvcc {nvcc} ({host['path']})"
    yield finding("nvcc_for_jit", True, found, subject=stack.name, concerns=concerns)
    torch_cuda = version_of(stack.cuda)
    if torch_cuda is not None and torch_cuda.major != nvcc.major:
        detail = f"{found}, torch is built for CUDA {stack.cuda}"
        yield finding("nvcc_matches_torch", False, detail, subject=stack.name, concerns=concerns)
    if not any((gpu["compute_capability"] or "").startswith("12.") for gpu in fp["gpus"]):
        return
    knows = nvcc >= Version(text_of("nvcc_knows_sm120")["minimum"])
    yield finding("nvcc_knows_sm120", knows, found, subject=stack.name, concerns=concerns)
    reported = text_of("nvcc_for_flashinfer_sm120")
    flashinfer = version_of(stack.flashinfer)
    affected = flashinfer is None or flashinfer <= Version(reported["flashinfer_up_to"])
    if knows and nvcc < Version(reported["minimum"]) and affected:
        detail = f"{found}, FlashInfer {flashinfer or 'of unknown version'}"
        yield finding("nvcc_for_flashinfer_sm120", False, detail, subject=stack.name, concerns=concerns)


def _imports(stack: StackView, concerns: Sequence[str]) -> Iterator[Finding]:
    if stack.broken is None:
        reason = "the stack is not built yet"
        yield finding("imports", None, reason, subject=stack.name, concerns=concerns)
        return
    found = _told(stack.broken) or f"SGLang {stack.sglang}"
    yield finding("imports", not stack.broken, found, subject=stack.name, concerns=concerns)
    if stack.missing_kernels is not None:
        found = _told(stack.missing_kernels) or "all there"
        passed = not stack.missing_kernels
        yield finding("kernel_packages", passed, found, subject=stack.name, concerns=concerns)


def _told(reasons: Mapping[str, str]) -> str:
    return "; ".join(f"{module}: {reason}" for module, reason in reasons.items())


def _nccl(fp: Fingerprint, stack: StackView, concerns: Sequence[str]) -> Iterator[Finding]:
    if not concerns or len(fp["gpus"]) < 2:
        return
    nccl = version_of(stack.nccl)
    if nccl is None:
        reason = "the stack is not built yet" if not stack.built else "the version was not recorded"
        yield finding("nccl_known", None, reason, subject=stack.name, concerns=concerns)
        return
    majors = {int(gpu["compute_capability"].split(".")[0]) for gpu in fp["gpus"] if gpu["compute_capability"]}
    known = [
        entry
        for entry in knowledge()["nccl_known"]
        if majors & set(entry["majors"]) and SpecifierSet(entry["nccl"]).contains(nccl)
    ]
    if not known:
        yield finding("nccl_known", True, f"NCCL {nccl}", subject=stack.name, concerns=concerns)
    for entry in known:
        yield finding(
            "nccl_known",
            False,
            f"NCCL {nccl}: {entry['says']}",
            subject=stack.name,
            concerns=concerns,
            remedy=entry["remedy"],
            source=entry["source"],
            evidence=entry["evidence"],
        )


def _disk(fp: Fingerprint, stack: StackView, concerns: Sequence[str]) -> Iterator[Finding]:
    if stack.built or stack.disk_gb is None or not fp["disks"]:
        return
    disk = fp["disks"][-1]  # the last folder asked for is the store, or the user's cache
    if disk["free_gib"] is None:
        yield finding("disk_for_stack", None, "not readable", subject=stack.name, concerns=concerns)
        return
    free = disk["free_gib"] * 1.024**3  # GB, as the declaration counts
    found = f"{free:.1f} GB free in {disk['folder']}, building needs up to {stack.disk_gb:g} GB"
    yield finding("disk_for_stack", free >= stack.disk_gb, found, subject=stack.name, concerns=concerns)
