"""The NVIDIA driver: version, CUDA it speaks, kernel module, parameters it was loaded with."""

import re
from typing import Any

from sglang_sweep.host.sources import Readings, Unreadable

PARAMETERS = "/proc/driver/nvidia/params"
VERSION = "/proc/driver/nvidia/version"


def read_driver(readings: Readings, gpu_count: int | None) -> dict[str, Any]:
    """``parameters`` are the file's own names and values; ``registry_dwords`` its RegistryDwords, split."""
    nothing = {
        "version": None,
        "cuda": None,
        "kernel_module": None,
        "parameters": None,
        "registry_dwords": None,
    }
    if gpu_count == 0:
        readings.missing("driver", "no GPUs")
        return nothing
    sources = readings.sources
    parameters = readings.take("driver.parameters", lambda: parse_parameters(sources.read_text(PARAMETERS)))
    return {
        "version": readings.take("driver.version", lambda: _version(readings)),
        "cuda": readings.take(
            "driver.cuda", lambda: _cuda(sources.nvml("nvmlSystemGetCudaDriverVersion_v2"))
        ),
        "kernel_module": readings.take(
            "driver.kernel_module",
            lambda: "open" if "Open Kernel Module" in sources.read_text(VERSION) else "proprietary",
        ),
        "parameters": parameters,
        "registry_dwords": None
        if parameters is None
        else split_dwords(str(parameters.get("RegistryDwords", ""))),
    }


def parse_parameters(text: str) -> dict[str, int | str]:
    """Lines ``Name: 1`` and ``Name: "text"`` of /proc/driver/nvidia/params."""
    values: dict[str, int | str] = {}
    for name, value in re.findall(r"^(\w+): (.*)$", text, re.MULTILINE):
        values[name] = int(value) if value.isdigit() else value.strip('"')
    if not values:
        raise Unreadable(f"{PARAMETERS}: no parameters in it")
    return values


def split_dwords(text: str) -> dict[str, str]:
    """``ForceP2P=0x11;RMForceP2PType=1`` as a dict; an empty text is an empty dict."""
    pieces = filter(None, (piece.strip() for piece in text.split(";")))
    return {name: value for name, _, value in (piece.partition("=") for piece in pieces)}


def _version(readings: Readings) -> str:
    try:
        return str(readings.sources.nvml("nvmlSystemGetDriverVersion"))
    except Unreadable as error:
        # A driver that does not answer still shows what is loaded.
        try:
            text = readings.sources.read_text(VERSION)
        except OSError:
            raise error from None
        match = re.search(r"\b(\d{3}\.\d+(?:\.\d+)?)\b", text)
        if match is None:
            raise error from None
        return match[1]


def _cuda(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"
