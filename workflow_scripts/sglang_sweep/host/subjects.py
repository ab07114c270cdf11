"""What is asked of the host: stacks and variants, reduced to the facts that the gate compares with it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from packaging.version import InvalidVersion, Version

from sglang_sweep.campaign import Variant

# Spellings of one flag that SGLang accepts; the first is the current one.
TP, PP, DP = (
    ("tp-size", "tensor-parallel-size", "tp"),
    ("pp-size", "pipeline-parallel-size"),
    ("dp-size", "data-parallel-size", "dp"),
)


@dataclass(frozen=True)
class StackView:
    """A stack as declared, and as found on this host once it is built (None: not known yet)."""

    name: str
    on_gpu: bool
    cuda: str | None = None
    torch: str | None = None
    architectures: tuple[str, ...] | None = None
    nccl: str | None = None
    flashinfer: str | None = None
    imports: Mapping[str, str | None] | None = None
    nvcc: str | None = None
    multicast: bool | None = None
    built: bool = False


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


def stack_view(name: str, facts: Mapping[str, Any]) -> StackView:
    """From a stack's declaration with, once it is built, the contents of its stack.json over it."""
    built = facts.get("built") or {}
    merged = {**facts, **{key: value for key, value in built.items() if value is not None}}
    packages = merged.get("packages") or {}
    cuda = merged.get("cuda")
    architectures = merged.get("architectures")

    def version(*names: str) -> str | None:
        values = (merged.get(name) or packages.get(name) for name in names)
        return next((value for value in values if isinstance(value, str)), None)

    return StackView(
        name=name,
        on_gpu=cuda is not None,
        cuda=None if cuda is None else str(cuda),
        torch=version("torch"),
        architectures=None if architectures is None else tuple(architectures),
        nccl=version("nccl", "nvidia-nccl-cu13", "nvidia-nccl-cu12"),
        flashinfer=version("flashinfer", "flashinfer-python", "flashinfer_python"),
        imports=merged.get("imports"),
        nvcc=version("nvcc"),
        multicast=merged.get("multicast"),
        built=bool(built),
    )


def variant_view(
    variant: Variant,
    stack: StackView,
    server_env: Mapping[str, str] | None = None,
    weights_gib: float | None = None,
) -> VariantView:
    """What a variant's resolved flags and environment ask of the host."""
    env = {**(server_env or {}), **variant.env}
    flags = variant.flags
    nodes = _number(flags, ("nnodes",))
    replicas = 1 if flags.get("enable-dp-attention") else _number(flags, DP)
    demand = -(-_number(flags, TP) * _number(flags, PP) * replicas // nodes)
    devices = env.get("CUDA_VISIBLE_DEVICES")
    return VariantView(
        name=variant.name,
        stack=variant.stack,
        on_gpu=stack.on_gpu and flags.get("device", "cuda") == "cuda",
        flags=flags,
        env=env,
        gpus=demand,
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
    first = _number(variant.flags, ("base-gpu-id",), default=0)
    step = _number(variant.flags, ("gpu-id-step",))
    return seen[first :: max(1, step)][: variant.gpus]


def version_of(text: str | None) -> Version | None:
    """``2.28.9+cuda13.0`` as a version; None for what is none."""
    try:
        return None if text is None else Version(re.split(r"[+ ]", text, maxsplit=1)[0])
    except InvalidVersion:
        return None


def _number(flags: Mapping[str, Any], names: Sequence[str], default: int = 1) -> int:
    value = next((flags[name] for name in names if flags.get(name) is not None), default)
    try:
        return int(value)
    except (TypeError, ValueError):
        return default
