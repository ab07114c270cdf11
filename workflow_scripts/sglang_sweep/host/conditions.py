"""Limits (config/knowledge/limits.yaml) against a host, a stack and what a variant asks for."""

from collections.abc import Mapping, Sequence
from typing import Any

from packaging.specifiers import SpecifierSet

from sglang_sweep.evidence.conditions import holds

from .subjects import version_of
from .topology import pairs


def host_conditions(
    fp: Mapping[str, Any], used: Sequence[int] | None = None, on_gpu: bool = True
) -> dict[str, Any]:
    """The facts that a limit's ``host`` part names, for the GPUs a variant uses (by index; None: all).

    Keys: platform, compute_major, compute_capability, gpu_count, nvlink, p2p, numa_nodes; None is unknown.
    """
    nodes = fp["cpu"]["numa_nodes"]
    gpus = fp["gpus"] or []
    chosen = [gpu for gpu in gpus if used is None or gpu["index"] in used]
    known: dict[str, Any] = {
        "platform": "cuda" if on_gpu else "cpu",
        "numa_nodes": None if nodes is None else len(nodes),
        "gpu_count": len(chosen) if fp["gpus"] is not None else None,
        "compute_capability": None,
        "compute_major": None,
        "nvlink": None,
        "p2p": None,
    }
    if not on_gpu or not chosen:
        return known
    capabilities = {gpu["compute_capability"] for gpu in chosen}
    if len(capabilities) == 1 and (capability := capabilities.pop()):
        known["compute_capability"] = capability
        known["compute_major"] = int(capability.split(".")[0])
    indices = [gpu["index"] for gpu in chosen]
    links = _between(fp["topology"]["links"], indices)
    known["nvlink"] = None if links is None else bool(links) and all(link.startswith("NV") for link in links)
    reach = _between(fp["topology"]["p2p"]["read"], indices)
    known["p2p"] = None if reach is None else all(state == "ok" for state in reach)
    return known


def asks(
    limit: Mapping[str, Any], flags: Mapping[str, Any], env: Mapping[str, str], patch: bool = False
) -> bool:
    """Whether a variant's resolved flags and environment are what the limit speaks of."""
    wanted = limit["asks"]
    tests = [
        *(holds(flags.get(name), condition) for name, condition in wanted.get("flags", {}).items()),
        *(holds(env.get(name), condition) for name, condition in wanted.get("env", {}).items()),
    ]
    for given, key in ((flags, "any_flags"), (env, "any_env")):
        if key in wanted:
            tests.append(any(holds(given.get(name), condition) for name, condition in wanted[key].items()))
    if "patch" in wanted:
        tests.append(patch is wanted["patch"])
    return all(tests)


def version_in(limit: Mapping[str, Any], sglang_version: str | None) -> bool | None:
    """Whether the limit is known for this SGLang; None where the version is not known."""
    version = version_of(sglang_version)
    return None if version is None else SpecifierSet(limit["versions"]).contains(version, prereleases=True)


def unmet(limit: Mapping[str, Any], host: Mapping[str, Any]) -> list[str]:
    """The host conditions of a limit that are known not to hold, in words."""
    return [
        f"{name} is {_word(host[name])}, the limit is for {_word(condition)}"
        for name, condition in limit.get("host", {}).items()
        if host.get(name) is not None and not holds(host[name], condition)
    ]


def met(limit: Mapping[str, Any], host: Mapping[str, Any]) -> bool:
    """Whether every host condition is known to hold; a fact that is not known satisfies none."""
    return all(
        host.get(name) is not None and holds(host[name], condition)
        for name, condition in limit.get("host", {}).items()
    )


def _word(value: Any) -> str:
    if isinstance(value, list):
        return " or ".join(map(_word, value))
    return {True: "yes", False: "no"}.get(value, str(value)) if isinstance(value, bool) else str(value)


def _between(matrix: list[list[str | None]] | None, indices: Sequence[int]) -> list[str] | None:
    if matrix is None:
        return None
    return pairs([[matrix[i][j] for j in indices] for i in indices])
