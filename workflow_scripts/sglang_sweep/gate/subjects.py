"""What is asked of the host: stacks and variants, reduced to the facts that the gate compares with it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from packaging.version import InvalidVersion, Version

from sglang_sweep.campaign.flags import gpus_here
from sglang_sweep.campaign.model import Variant


@dataclass(frozen=True)
class StackView:
    """A stack as declared, and as found on this host once it is built (None: not known yet).

    ``broken`` holds what its server needs and cannot import, ``missing_kernels`` the kernel packages that
    it can start without; both map a module to the reason.
    """

    name: str
    on_gpu: bool
    cuda: str | None
    sglang: str | None
    disk_gb: float | None
    built: bool
    architectures: tuple[str, ...] | None = None
    nccl: str | None = None
    flashinfer: str | None = None
    broken: Mapping[str, str] | None = None
    missing_kernels: Mapping[str, str] | None = None
    multicast: bool | None = None


@dataclass(frozen=True)
class VariantView:
    """A variant's demand: GPUs in all, GPUs of one tensor-parallel group, those it may see."""

    name: str
    stack: str
    on_gpu: bool
    flags: Mapping[str, Any]
    env: Mapping[str, str]
    gpus: int
    visible: tuple[str, ...] | None
    weights_gib: float | None = None


# Reasons in stack.json that say what a stack is, not what is wrong with it.
_NOT_MODULES = frozenset({"cuda", "nccl"})
_KERNELS = ("sgl_kernel", "flashinfer")


def stack_view(name: str, facts: Mapping[str, Any]) -> StackView:
    """From a stack's declaration (stack.yaml), and under ``built`` the contents of its stack.json."""
    built: Mapping[str, Any] = facts.get("built") or {}
    # A lock file that declares no CUDA needs none, although torch's Linux wheel is a CUDA build.
    declared_cpu = facts.get("kind", "lock") == "lock" and facts.get("cuda") is None
    cuda = built.get("cuda") if built and not declared_cpu else facts.get("cuda")
    # An interpreter or image of somebody else's is known only once it was asked.
    unknown = not built and facts.get("kind", "lock") != "lock" and cuda is None
    reasons = {key: text for key, text in built.get("reasons", {}).items() if key not in _NOT_MODULES}
    kernels = {module: reasons[module] for module in _KERNELS if module in reasons}
    return StackView(
        name=name,
        on_gpu=cuda is not None or unknown,
        cuda=None if cuda is None else str(cuda),
        sglang=built.get("sglang") or facts.get("sglang"),
        disk_gb=facts.get("disk_gb"),
        built=bool(built),
        architectures=tuple(built.get("gpu_architectures") or facts.get("gpu_architectures") or ()) or None,
        nccl=built.get("nccl"),
        flashinfer=built.get("flashinfer"),
        broken=None if not built else _broken(built, reasons),
        missing_kernels=kernels if built and cuda is not None else None,
        multicast=built.get("multicast"),
    )


def _broken(built: Mapping[str, Any], reasons: Mapping[str, str]) -> dict[str, str]:
    """Nothing where a server starts all the same: optional packages are then simply not there."""
    if built.get("serves", True):
        return {}
    return {module: text for module, text in reasons.items() if module not in _KERNELS} or dict(reasons)


def variant_view(
    variant: Variant,
    stack: StackView,
    server_env: Mapping[str, str] | None = None,
    weights_gib: float | None = None,
) -> VariantView:
    """What a variant's resolved flags and environment ask of the host."""
    env = {**(server_env or {}), **variant.env}
    flags = variant.flags
    devices = env.get("CUDA_VISIBLE_DEVICES")
    return VariantView(
        name=variant.name,
        stack=variant.stack,
        on_gpu=stack.on_gpu and flags.get("device", "cuda") == "cuda",
        flags=flags,
        env=env,
        gpus=gpus_here(flags),
        visible=None
        if devices is None
        else tuple(part.strip() for part in devices.split(",") if part.strip()),
        weights_gib=weights_gib,
    )


def chosen_gpus(gpus: Sequence[Mapping[str, Any]], variant: VariantView) -> list[int]:
    """Indices of the GPUs a variant uses: the first ones it sees, as CUDA numbers them."""
    if variant.visible is None:
        seen = list(range(len(gpus)))
    else:
        by_name = {str(gpu["index"]): gpu["index"] for gpu in gpus} | {
            gpu["uuid"]: gpu["index"] for gpu in gpus if gpu["uuid"]
        }
        seen = [by_name[word] for word in variant.visible if word in by_name]
    first, step = variant.flags.get("base-gpu-id") or 0, variant.flags.get("gpu-id-step") or 1
    return seen[int(first) :: int(step)][: variant.gpus]


def version_of(text: str | None) -> Version | None:
    """``2.28.9+cuda13.0`` as a version; None for what is none."""
    try:
        return None if text is None else Version(re.split(r"[+ ]", text, maxsplit=1)[0])
    except InvalidVersion:
        return None
