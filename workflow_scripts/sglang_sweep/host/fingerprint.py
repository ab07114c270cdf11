"""The host's fingerprint: everything environment.json holds, each fact read or null with the reason."""

import os
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema

from sglang_sweep.files.yaml_files import schema
from sglang_sweep.host import driver, gpus, pcie, system, tools, topology
from sglang_sweep.host.host_class import (
    class_digest as class_digest,  # a fingerprint and its name are asked for together
)
from sglang_sweep.host.sources import Readings, Sources

SCHEMA_VERSION = 1


def fingerprint(
    sources: Sources | None = None, folders: Sequence[str | Path] | None = None
) -> dict[str, Any]:
    """Look at the host and return environment.json, checked against its schema.

    ``folders`` are those whose free disk space matters; by default where we are, the temporary folder and
    the user's cache. About 0.2 s without GPUs; with them as long as the slowest ``nvidia-smi topo``.
    """
    sources = sources or Sources()
    readings = Readings(sources)
    # nvidia-smi is slow and its four questions are independent: asked while the rest is read.
    sources.start([*tools.commands(sources), *(topology.COMMANDS if sources.which("nvidia-smi") else ())])
    facts = read_quick_facts(readings)
    count = None if facts["gpus"] is None else len(facts["gpus"])
    facts |= {
        "topology": topology.read_topology(readings, count),
        "acs": pcie.read_acs(readings, count),
        "tools": tools.read_tools(readings),
        "libraries": tools.read_libraries(readings),
        "disks": tools.read_disks(readings, [str(folder) for folder in folders or _usual_folders()]),
        "limits": system.read_limits(readings),
        "environment": tools.relevant_variables(sources.environment()),
    }
    document = {
        "schema_version": SCHEMA_VERSION,
        "recorded_at": sources.now(),
        "class_digest": class_digest(facts),
        **facts,
        "unreadable": dict(sorted(readings.unreadable.items())),
    }
    validate(document)
    return document


def read_quick_facts(readings: Readings) -> dict[str, Any]:
    """The part that costs a few milliseconds: files and NVML, and one ``lscpu``."""
    devices = gpus.read_gpus(readings)
    count = None if devices is None else len(devices)
    return {
        **system.read_system(readings),
        "cpu": system.read_cpu(readings),
        "memory": system.read_memory(readings),
        "gpus": devices,
        "driver": driver.read_driver(readings, count),
        "iommu": pcie.read_iommu(readings),
    }


def validate(document: dict[str, Any]) -> None:
    """Raise ``jsonschema.ValidationError`` where the document breaks environment.schema.yaml: our mistake."""
    _validator().validate(document)


@cache
def _validator() -> Any:
    return jsonschema.Draft202012Validator(schema("environment"))


def _usual_folders() -> list[Path]:
    cache_home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    existing = next((folder for folder in (cache_home, *cache_home.parents) if folder.exists()), Path("/"))
    return [Path.cwd(), Path(tempfile.gettempdir()), existing]
