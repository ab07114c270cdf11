"""Shows the host as fingerprinted: the facts a reader compares first, and what could not be read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from sglang_sweep.launch.environment import ambient
from sglang_sweep.report.facts import Fact, pick, plain
from sglang_sweep.report.numbers import MISSING, moment, quantity

# The keys of environment.json (its schema is config/schemas/environment.schema.yaml).
_PLAIN = (
    ("host name", "hostname"),
    ("host class", "class_digest"),
    ("operating system", "os"),
    ("kernel", "kernel"),
    ("virtual machine", "virtual_machine"),
    ("container", "container"),
    ("CPU", "cpu.model"),
    ("CPU cores", "cpu.cores"),
    ("CPU governor", "cpu.governor"),
    ("driver", "driver.version"),
    ("CUDA of the driver", "driver.cuda"),
    ("links between GPUs", "topology.summary"),
    ("IOMMU enabled", "iommu.enabled"),
    ("CUDA toolkit (nvcc)", "tools.nvcc.version"),
)


def environment_rows(environment: Mapping[str, Any]) -> list[Fact]:
    """Return the leading facts of a fingerprint; an unreadable one is shown with the reason."""
    rows = [("GPUs", _gpus(environment.get("gpus")))]
    rows += [
        (label, plain(value)) for label, path in _PLAIN if (value := pick(environment, path)) is not None
    ]
    for label, path, unit in (("memory", "memory.total_gib", "GiB"), ("/dev/shm", "limits.shm_mib", "MiB")):
        if (value := pick(environment, path)) is not None:
            rows.append((label, quantity(value, unit)))
    inherited = ambient(environment.get("environment") or {})
    if inherited:
        rows.append(
            ("inherited by servers", ", ".join(f"{name}={value}" for name, value in inherited.items()))
        )
    if environment.get("recorded_at"):
        rows.append(("recorded", moment(environment["recorded_at"])))
    rows += [
        (f"not readable: {path}", plain(why)) for path, why in (environment.get("unreadable") or {}).items()
    ]
    return rows


def _gpus(gpus: Any) -> str:
    if gpus is None:
        return MISSING
    names = Counter(str(gpu.get("name")) for gpu in gpus)
    return ", ".join(f"{number}x {name}" for name, number in names.items()) or "none"
