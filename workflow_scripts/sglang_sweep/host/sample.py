"""What the host is doing now: taken before and after every launch, kept beside its numbers."""

from typing import Any

from . import gpus, system
from .sources import Readings, Sources, Unreadable


def quick_sample(sources: Sources | None = None) -> dict[str, Any]:
    """Per GPU: MHz, degrees Celsius, watts, MiB used, throttle reasons, processes; load; CPU clocks in MHz.

    Volatile facts only, a few milliseconds. What cannot be read is null, with the reason in ``unreadable``.
    """
    readings = Readings(sources or Sources())
    count = 0
    try:
        count = int(readings.sources.nvml("nvmlDeviceGetCount"))
    except (Unreadable, OSError, ValueError, TypeError) as error:
        readings.missing("gpus", str(error))
    return {
        "at": readings.sources.now(),
        "gpus": [gpus.sample_gpu(readings, index, root=f"gpus.{index}") for index in range(count)],
        "load_average": system.load_average(readings),
        "cpu_mhz": system.cpu_mhz(readings),
        "unreadable": readings.unreadable,
    }
