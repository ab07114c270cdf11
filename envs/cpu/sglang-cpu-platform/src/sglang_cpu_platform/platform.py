"""The platform itself: SGLang's CPU device operations with pure-torch maths and no sgl_kernel.

SGLang 0.5.23 has a native (pure torch) path for everything a dense model needs, but reaches it on a CPU
only when the platform is out of tree: its own CPU platform imports the CPU build of sgl_kernel, which is
not on PyPI. See sglang/srt/platforms/interface.py for what each method is asked for.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from sglang.srt.platforms.cpu import CpuDeviceMixin
from sglang.srt.platforms.device_mixin import PlatformEnum
from sglang.srt.platforms.interface import PlatformCapabilities, SRTPlatform

from sglang_cpu_platform import threads

MEMORY_FRACTION = 0.3
"""Of the host's memory, for weights and KV cache. SGLang's own default is meant for a GPU that it has to itself:
here it would fill the host's memory with a KV cache of millions of tokens."""


def has_bfloat16_arithmetic() -> bool:
    """Whether the CPU multiplies bfloat16 in hardware (AMX, AVX512-BF16, or Arm's bf16 extension)."""
    if torch.cpu._is_amx_tile_supported() or torch.cpu._is_avx512_bf16_supported():
        return True
    try:
        return " bf16" in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False


class PortableCpuPlatform(CpuDeviceMixin, SRTPlatform):
    """Serves with torch's own CPU kernels: attention by SDPA, sampling by torch, no graphs, no Triton."""

    _enum = PlatformEnum.OOT
    device_name = "cpu"
    device_type = "cpu"
    capabilities = PlatformCapabilities()

    def is_pin_memory_available(self, device: Any = None) -> bool:
        return False

    def get_torch_profiler_activity_str(self) -> str:
        return "CPU"

    def get_torch_profiler_activity(self) -> torch.profiler.ProfilerActivity:
        return torch.profiler.ProfilerActivity.CPU

    def apply_server_args_defaults(self, server_args: Any) -> None:
        """Fill in what the user left open, so that ``--device cpu`` (or nothing at all) is enough."""
        if server_args.attention_backend is None:
            server_args.attention_backend = "torch_native"
        if server_args.sampling_backend is None:
            server_args.sampling_backend = "pytorch"
        if server_args.dtype == "auto" and not has_bfloat16_arithmetic():
            server_args.dtype = "float32"  # auto would choose a half type, which this CPU can only emulate
        if server_args.mem_fraction_static is None and server_args.max_total_tokens is None:
            server_args.mem_fraction_static = MEMORY_FRACTION

    def get_default_attention_backend(self) -> str:
        return "torch_native"

    def get_dispatch_key_name(self) -> str:
        return "native"

    def get_compile_backend(self, mode: str | None = None) -> str:
        return "eager"

    def init_backend(self) -> None:
        """Runs in each worker before the model: gives Arm the two sgl_kernel ops it calls unconditionally."""
        threads.define_missing_kernel_ops()

    def get_group_coordinator_device(self, local_rank: int) -> torch.device:
        """The only hook that knows the rank before weights are loaded, so threads are bound here."""
        threads.bind_rank(local_rank)
        return torch.device("cpu")
