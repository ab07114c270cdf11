"""An out-of-tree SGLang platform that serves on any x86-64 or Arm CPU.

SGLang calls `activate` through the entry-point group ``sglang.srt.platforms``. This module must stay
cheap and must not import SGLang: it is loaded by every process that asks which platform it is on.
"""

from __future__ import annotations

import os

NAME = "portable_cpu"
PLATFORM_CLASS = "sglang_cpu_platform.platform.PortableCpuPlatform"

__all__ = ["NAME", "PLATFORM_CLASS", "activate"]


def activate() -> str | None:
    """Return the platform class to use, or None where a better platform is at hand.

    Stands back when ``SGLANG_USE_CPU_ENGINE=1`` asks for SGLang's own CPU engine (Xeon with AMX and a CPU
    build of sgl_kernel) or when torch sees an accelerator, so that installing this package next to a GPU
    build changes nothing there. ``SGLANG_PLATFORM=portable_cpu`` insists.
    """
    if os.environ.get("SGLANG_PLATFORM") == NAME:
        return PLATFORM_CLASS
    if os.environ.get("SGLANG_USE_CPU_ENGINE") == "1":
        return None
    import torch

    return None if torch.accelerator.is_available() else PLATFORM_CLASS
