"""What every launch asks the host: is it still the one in the key, and what is it doing now?"""

from collections.abc import Mapping
from typing import Any

from sglang_sweep.host import gpus, system
from sglang_sweep.host.drift import in_words, reason_for
from sglang_sweep.host.fingerprint import read_quick_facts
from sglang_sweep.host.host_class import differences, host_class
from sglang_sweep.host.sources import Readings, Sources, Unreadable

# Topology needs nvidia-smi (seconds) and ACS needs root: a launch does not ask for them again.
SLOW_FACTS = ("topology", "acs")


def quick_check(fp_recorded: Mapping[str, Any], sources: Sources | None = None) -> list[str]:
    """What no longer holds of the recorded class, among the facts that cost little to read again.

    An empty list means: this is still the host in the key. A fact that was readable when recorded and is
    not now counts as a difference, with the reason: a driver that stopped answering is no driver to measure.
    """
    readings = Readings(sources or Sources())
    facts = {name: value for name, value in host_class(fp_recorded).items() if name not in SLOW_FACTS}
    now = host_class(read_quick_facts(readings))
    found = []
    for path, old, new in differences(facts, now):
        reason = reason_for(path, readings.unreadable)
        found.append(in_words(path, old, new) + (f" ({reason})" if new is None and reason else ""))
    return found


def quick_sample(sources: Sources | None = None) -> dict[str, Any]:
    """Per GPU: MHz, degrees Celsius, watts, MiB used, throttle reasons, processes; load; CPU clocks in MHz.

    Volatile facts only, a few milliseconds. What cannot be read is null, with the reason in ``unreadable``.
    """
    readings = Readings(sources or Sources())
    return {
        "at": readings.sources.now(),
        "gpus": [gpus.sample_gpu(readings, index, f"gpus.{index}") for index in range(_count(readings))],
        "load_average": system.load_average(readings),
        "cpu_mhz": system.cpu_mhz(readings),
        "unreadable": readings.unreadable,
    }


def sample_clocks(sources: Sources | None = None) -> list[dict[str, Any]]:
    """Per GPU: MHz, degrees Celsius, watts, throttle reasons. Cheap enough to ask while something is measured: reading
    the processors' clocks interrupts each of them on some hosts."""
    readings = Readings(sources or Sources())
    return [gpus.clocks_of(readings, index, f"gpus.{index}") for index in range(_count(readings))]


def _count(readings: Readings) -> int:
    try:
        return int(readings.sources.nvml("nvmlDeviceGetCount"))
    except (Unreadable, OSError, ValueError, TypeError) as error:
        readings.missing("gpus", str(error))
        return 0
