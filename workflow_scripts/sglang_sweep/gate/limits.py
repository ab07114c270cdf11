"""Predicts, from what is known of hardware and versions, which variants cannot run or cannot act on this host."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sglang_sweep.campaign.flags import gpus_here
from sglang_sweep.evidence.conditions import holds
from sglang_sweep.evidence.knowledge import Entry, Knowledge, known_version, load


@dataclass(frozen=True)
class Prediction:
    """What will come of a variant, why, who says so, and what would make it worth another try."""

    limit: str
    verdict: str
    cause: str | None
    why: str
    source: tuple[str, ...]
    reopens_when: str
    remedy: str | None
    seen: bool

    @property
    def sentence(self) -> str:
        """For `plan`: the verdict, the reason and the first citation."""
        cause = f" ({self.cause})" if self.cause else ""
        return f"{self.verdict}{cause}: {self.why} [{'; '.join(self.source[:2])}]"

    def as_dict(self) -> dict[str, Any]:
        """For the report's predictions."""
        return {**vars(self), "source": "; ".join(self.source)}


HostFacts = Mapping[str, Any]


def host_facts(fingerprint: Mapping[str, Any] | None, flags: Mapping[str, Any]) -> dict[str, Any]:
    """The facts that limits speak of, for the GPUs a variant uses, from results/environment.json.

    What the fingerprint could not read is left out, and then satisfies no condition. ``nvlink`` and ``p2p`` are
    true only when every pair of the GPUs used has them.
    """
    cpu = str(flags.get("device", "")) == "cpu"
    facts: dict[str, Any] = {"platform": "cpu" if cpu else "cuda"}
    nodes = ((fingerprint or {}).get("cpu") or {}).get("numa_nodes")
    if nodes is not None:
        facts["numa_nodes"] = len(nodes) if isinstance(nodes, list | dict) else nodes
    gpus = (fingerprint or {}).get("gpus")
    if cpu or not gpus:
        return facts
    used = gpus[: gpus_here(flags)]
    capability = [gpu.get("compute_capability") for gpu in used]
    if capability and all(value == capability[0] and value for value in capability):
        text = (
            ".".join(map(str, capability[0]))
            if isinstance(capability[0], list | tuple)
            else str(capability[0])
        )
        facts["compute_capability"] = text
        facts["compute_major"] = int(float(text))
    facts["gpu_count"] = len(used)
    topology = (fingerprint or {}).get("topology") or {}
    nvlink = _every_pair(topology.get("links"), len(used), lambda cell: cell.startswith("NV"))
    p2p = _every_pair((topology.get("p2p") or {}).get("read"), len(used), lambda cell: cell.lower() == "ok")
    return facts | {name: known for name, known in (("nvlink", nvlink), ("p2p", p2p)) if known is not None}


def _every_pair(table: Any, count: int, good: Callable[[str], bool]) -> bool | None:
    """Whether every pair of the first ``count`` GPUs is good; None for one GPU or a table that is not readable."""
    if count < 2 or not table:
        return None
    try:
        cells = [table[i][j] for i in range(count) for j in range(count) if i != j]
    except (TypeError, KeyError, IndexError):
        return None
    return None if None in cells else all(good(str(cell)) for cell in cells)


def predict(
    variant: Mapping[str, Any],
    stack_version: str | None,
    host: HostFacts,
    knowledge: Knowledge | None = None,
) -> list[Prediction]:
    """Every limit that a variant meets, dead ends first.

    ``variant`` holds the resolved ``flags`` and ``env`` and, where declared, ``change.patch``; ``host`` comes
    from host_facts.
    """
    knowledge = knowledge or load()
    version, _ = known_version(stack_version)
    found = [
        _prediction(limit)
        for limit in knowledge.limits
        if limit.known_for(version) and speaks_of(limit, variant) and _met(limit, host)
    ]
    order = {"DEAD_END": 0, "NO_OP": 1, "CONFOUNDED": 2, "LOSS": 3}
    return sorted(found, key=lambda prediction: order[prediction.verdict])


def speaks_of(limit: Entry, variant: Mapping[str, Any]) -> bool:
    """Whether the variant asks for what the limit is about, on whatever host."""
    asks = limit.data["asks"]
    flags, env = variant.get("flags") or {}, variant.get("env") or {}
    change = variant.get("change") or {}
    if asks.get("patch") and not change.get("patch"):
        return False
    needed = [(flags, asks.get("flags", {})), (env, asks.get("env", {}))]
    if not all(holds(values.get(name), wanted) for values, asked in needed for name, wanted in asked.items()):
        return False
    either = [(flags, asks.get("any_flags", {})), (env, asks.get("any_env", {}))]
    options = [(values, name, wanted) for values, asked in either for name, wanted in asked.items()]
    return not options or any(holds(values.get(name), wanted) for values, name, wanted in options)


def _met(limit: Entry, host: HostFacts) -> bool:
    return all(
        name in host and holds(host[name], wanted) for name, wanted in limit.data.get("host", {}).items()
    )


def _prediction(limit: Entry) -> Prediction:
    data = limit.data
    return Prediction(
        limit=limit.id,
        verdict=data["verdict"],
        cause=data.get("cause"),
        why=data["why"],
        source=tuple(data["source"]),
        reopens_when=data["reopens_when"],
        remedy=data.get("remedy"),
        seen=bool(limit.seen),
    )
