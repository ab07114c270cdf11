"""GPUs through NVML: what they are, how they are set, what they are doing."""

from collections.abc import Callable
from typing import Any

from sglang_sweep.host.sources import Readings, Sources, Unreadable

MIB = 1024**2

# NVML constants (nvml.h), written out so that a recording needs no NVML.
CLOCK_SM, CLOCK_MEMORY = 1, 2
TEMPERATURE_CORE = 0
THROTTLE_BITS = {
    0x1: "gpu_idle",
    0x2: "applications_clocks_setting",
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal_slowdown",
    0x40: "hw_thermal_slowdown",
    0x80: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
}
# Reasons that make a sample slower than its neighbours. Idle and a clock that the owner has set do not;
# a software power cap is ordinary under load on cards with a low limit, and is judged apart.
SLOWING = ("hw_slowdown", "sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown")

NVIDIA = "10de"


def read_gpus(readings: Readings) -> list[dict[str, Any]] | None:
    """One dict per GPU in NVML's order; an empty list where there is none; None where that cannot be told."""
    sources = readings.sources
    try:
        count = int(sources.nvml("nvmlDeviceGetCount"))
    except (Unreadable, OSError, ValueError, TypeError) as error:
        return _without_nvml(readings, str(error))
    return [_read_gpu(readings, index) for index in range(count)]


def _without_nvml(readings: Readings, reason: str) -> list[dict[str, Any]] | None:
    """No NVML: a host with neither NVIDIA devices nor a loaded driver has no GPUs; any other has trouble."""
    try:
        devices = nvidia_pci_devices(readings.sources)
    except (Unreadable, OSError) as error:
        readings.missing("gpus", f"{reason}; PCI devices cannot be listed either ({error})")
        return None
    if not devices and not _driver_is_loaded(readings.sources):
        return []
    what = f"{len(devices)} NVIDIA PCI device(s) present, but " if devices else ""
    readings.missing("gpus", f"{what}the driver does not answer ({reason})")
    return None


def nvidia_pci_devices(sources: Sources) -> list[str]:
    """PCI devices made by NVIDIA. A kernel without a PCI bus has none."""
    try:
        rows = [line.split() for line in sources.read_text("/proc/bus/pci/devices").splitlines()]
        return [row[0] for row in rows if len(row) > 1 and row[1].startswith(NVIDIA)]
    except FileNotFoundError:
        pass
    try:
        devices = sources.list_folder("/sys/bus/pci/devices")
    except FileNotFoundError:
        return []
    vendor = "/sys/bus/pci/devices/{}/vendor"
    return [name for name in devices if sources.read_text(vendor.format(name)).strip() == f"0x{NVIDIA}"]


def _driver_is_loaded(sources: Sources) -> bool:
    try:
        return bool(sources.read_text("/proc/driver/nvidia/version"))
    except (Unreadable, OSError):
        return False


def _asker(readings: Readings, index: int, root: str) -> Callable[..., Any]:
    """``ask(key, function, *arguments)``: what NVML's function answers of this GPU, noted under ``<root>.<key>``."""

    def ask(key: str, function: str, *arguments: Any) -> Any:
        return readings.take(f"{root}.{key}", lambda: readings.sources.nvml_gpu(index, function, *arguments))

    return ask


def _read_gpu(readings: Readings, index: int) -> dict[str, Any]:
    root = f"gpus.{index}"
    ask = _asker(readings, index, root)

    def mib(key: str, function: str, field: str) -> int | None:
        return readings.take(
            f"{root}.{key}", lambda: readings.sources.nvml_gpu(index, function)[field] // MIB
        )

    def watts(key: str, function: str) -> float | None:
        milliwatts = ask(key, function)
        return None if milliwatts is None else round(milliwatts / 1000, 1)

    capability = ask("compute_capability", "nvmlDeviceGetCudaComputeCapability")
    memory = mib("memory_mib", "nvmlDeviceGetMemoryInfo", "total")
    bar1 = mib("bar1_mib", "nvmlDeviceGetBAR1MemoryInfo", "bar1Total")
    return {
        "index": index,
        "name": ask("name", "nvmlDeviceGetName"),
        "uuid": ask("uuid", "nvmlDeviceGetUUID"),
        "pci_bus_id": readings.take(
            f"{root}.pci_bus_id", lambda: readings.sources.nvml_gpu(index, "nvmlDeviceGetPciInfo")["busId"]
        ),
        "compute_capability": f"{capability[0]}.{capability[1]}" if capability else None,
        "vbios": ask("vbios", "nvmlDeviceGetVbiosVersion"),
        "memory_mib": memory,
        "bar1_mib": bar1,
        "bar1_covers_memory": None if memory is None or bar1 is None else bar1 >= memory,
        "power_limit_w": watts("power_limit_w", "nvmlDeviceGetPowerManagementLimit"),
        "power_limit_default_w": watts("power_limit_default_w", "nvmlDeviceGetPowerManagementDefaultLimit"),
        "max_sm_mhz": ask("max_sm_mhz", "nvmlDeviceGetMaxClockInfo", CLOCK_SM),
        "max_memory_mhz": ask("max_memory_mhz", "nvmlDeviceGetMaxClockInfo", CLOCK_MEMORY),
        "application_sm_mhz": ask("application_sm_mhz", "nvmlDeviceGetApplicationsClock", CLOCK_SM),
        "ecc": _on(ask("ecc", "nvmlDeviceGetEccMode")),
        "mig": _on(ask("mig", "nvmlDeviceGetMigMode")),
        "persistence": _on(ask("persistence", "nvmlDeviceGetPersistenceMode")),
        "compute_mode": ask("compute_mode", "nvmlDeviceGetComputeMode"),
        "pcie": {
            "generation": ask("pcie.generation", "nvmlDeviceGetCurrPcieLinkGeneration"),
            "generation_max": ask("pcie.generation_max", "nvmlDeviceGetMaxPcieLinkGeneration"),
            "generation_device_max": ask(
                "pcie.generation_device_max", "nvmlDeviceGetGpuMaxPcieLinkGeneration"
            ),
            "width": ask("pcie.width", "nvmlDeviceGetCurrPcieLinkWidth"),
            "width_max": ask("pcie.width_max", "nvmlDeviceGetMaxPcieLinkWidth"),
        },
        "now": sample_gpu(readings, index, root=f"{root}.now"),
    }


def sample_gpu(readings: Readings, index: int, root: str) -> dict[str, Any]:
    """What a GPU is doing now: ``clocks_of``, and memory (MHz, MiB used), PCIe generation, processes."""
    ask = _asker(readings, index, root)
    return {
        **clocks_of(readings, index, root),
        "memory_mhz": ask("memory_mhz", "nvmlDeviceGetClockInfo", CLOCK_MEMORY),
        "memory_used_mib": readings.take(
            f"{root}.memory_used_mib",
            lambda: readings.sources.nvml_gpu(index, "nvmlDeviceGetMemoryInfo")["used"] // MIB,
        ),
        "pcie_generation": ask("pcie_generation", "nvmlDeviceGetCurrPcieLinkGeneration"),
        "processes": readings.take(f"{root}.processes", lambda: _processes(readings, index)),
    }


def clocks_of(readings: Readings, index: int, root: str) -> dict[str, Any]:
    """How fast a GPU runs now and what holds it back: MHz, degrees Celsius, watts, throttle reasons."""
    ask = _asker(readings, index, root)
    power = ask("power_w", "nvmlDeviceGetPowerUsage")
    return {
        "index": index,
        "sm_mhz": ask("sm_mhz", "nvmlDeviceGetClockInfo", CLOCK_SM),
        "temperature_c": ask("temperature_c", "nvmlDeviceGetTemperature", TEMPERATURE_CORE),
        "power_w": None if power is None else round(power / 1000, 1),
        "throttle_reasons": readings.take(
            f"{root}.throttle_reasons", lambda: _throttle_reasons(readings, index)
        ),
    }


def _throttle_reasons(readings: Readings, index: int) -> list[str]:
    try:
        mask = readings.sources.nvml_gpu(index, "nvmlDeviceGetCurrentClocksEventReasons")
    except Unreadable:  # the name before driver 535
        mask = readings.sources.nvml_gpu(index, "nvmlDeviceGetCurrentClocksThrottleReasons")
    return [name for bit, name in THROTTLE_BITS.items() if mask & bit]


def _processes(readings: Readings, index: int) -> list[dict[str, Any]]:
    """Process id, program and MiB (null where the driver does not say, as in a container)."""
    found = []
    for process in readings.sources.nvml_gpu(index, "nvmlDeviceGetComputeRunningProcesses"):
        used = process.get("usedGpuMemory")
        try:
            name = readings.sources.read_text(f"/proc/{process['pid']}/comm").strip()
        except (Unreadable, OSError):
            name = None  # another user's namespace, or already gone
        found.append(
            {"pid": process["pid"], "name": name, "memory_mib": None if used is None else used // MIB}
        )
    return found


def _on(mode: Any) -> bool | None:
    """NVML answers with the mode, or with the current and the pending one."""
    current = mode[0] if isinstance(mode, list) and mode else mode
    return None if current is None else bool(current)
