"""Whole launch records for tests: what a launch writes, sealed, with the parts that a test is about replaced."""

import json
from pathlib import Path
from typing import Any

from sglang_sweep.files.digest import digest
from sglang_sweep.files.launches import sealed

AT = "2026-11-30T12:00:00+00:00"


def window(**changed: Any) -> dict[str, Any]:
    """A valid window of eight requests."""
    metrics = {"output_throughput": 100.0, "completed": 8, "failed": 0, "goodput": None}
    return {"workload": "shared-prefix", "window": 0, "started_at": AT, "duration_s": 1.0, "valid": True,
            "invalid": [], "metrics": metrics | changed.pop("metrics", {}), **changed}  # fmt: skip


def answer(**changed: Any) -> dict[str, Any]:
    """An answer of the probe."""
    return {"prompt": "p", "text": "x", "output_ids": [1], "logprobs": [-0.5], "prompt_tokens": 4,
            "completion_tokens": 1, "cached_tokens": 0, "finish_reason": "length", **changed}  # fmt: skip


def launch(**changed: Any) -> dict[str, Any]:
    """A completed launch, not yet sealed; ``stack``, ``host``, ``timeline`` and ``files`` are merged."""
    identity = changed.pop("identity", {"measuring_version": 2})
    whole = {
        "schema_version": 2, "measuring_version": 2, "campaign": "cpu-demo", "variant": "baseline",
        "key": digest(identity), "identity": identity, "block": 1, "position": 0,
        "started_at": AT, "finished_at": AT,
        "stack": {"name": "cpu", "digest": "d", "sglang_version": "0.5.16", "python": None},
        "host": {"hostname": "here", "class_digest": "h"},
        "command": ["python", "-m", "sglang.launch_server"], "environment": {},
        "outcome": "completed", "cause": None, "reason": None, "exit": {"code": 0, "stopped_by": "TERM"},
        "timeline": {"spawned": 0.0, "ready_s": 1.0, "stop_s": 1.0}, "files": {},
        "probe": [answer()], "windows": [window()],
        "host_samples": {"before": {}, "after": {}},
        "clean_room": {when: {"processes": [], "ports": []} for when in ("before", "after")},
    }  # fmt: skip
    for part in ("stack", "host", "timeline", "files"):
        whole[part] |= changed.pop(part, {})
    return whole | changed


def write(path: Path, **changed: Any) -> Path:
    """A sealed record at ``path``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(sealed(launch(**changed), path.parent)))
    return path
