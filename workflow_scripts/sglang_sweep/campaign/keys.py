"""The key of a launch: a digest of everything that can change its numbers."""

from pathlib import Path
from typing import Any

from sglang_sweep.campaign.contents import content_of, read_by_flags
from sglang_sweep.campaign.declared import Workload
from sglang_sweep.campaign.model import Campaign, Variant
from sglang_sweep.files.digest import digest
from sglang_sweep.files.redaction import redacted_environment, redacted_flags

MEASURING_VERSION = 2
"""Raised by hand when the way of measuring changes, so that a comment does not cost GPU hours.

Still 2: servers run below a keeper and want a key since 0.2, and their windows are timed as before. What is
measured anew is compared within its own blocks, never with older launches."""


def launch_identity(
    campaign: Campaign,
    variant: Variant,
    *,
    stack_digest: str,
    model_digests: dict[str, str],
    host_class: str,
    server_env: dict[str, str],
) -> dict[str, Any]:
    """What the key is made of, as plain data, so that ``plan`` can say which part moved.

    ``model_digests`` maps the canonical form of each model named by the variant to its digest.
    """
    read = read_by_flags(variant.flags)
    return {
        "measuring_version": MEASURING_VERSION,
        "stack": stack_digest,
        "models": model_digests,
        "flags": redacted_flags(variant.flags),
        "env": {**server_env, **redacted_environment(variant.env, digest=True)},
        "workloads": [_asked(workload) for workload in campaign.workloads],
        "windows": campaign.design.windows,
        "host_class": host_class,
        **({"files": read} if read else {}),
    }


_SINCE_LADDERS = ("turns", "first_turn_only", "ladder")


def _asked(workload: Workload) -> dict[str, Any]:
    """A data set is known by its content, wherever it lies. Keys added later are left out where unset, so that keys
    last."""
    asked = workload.model_dump(mode="json")
    asked = {name: value for name, value in asked.items() if value or name not in _SINCE_LADDERS}
    return asked | ({"path": content_of(Path(workload.path))} if workload.path else {})


def launch_key(identity: dict[str, Any]) -> str:
    """Ten hex digits."""
    return digest(identity)
