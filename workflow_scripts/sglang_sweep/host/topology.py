"""How GPUs reach each other: ``nvidia-smi topo`` matrices as link classes and peer-to-peer states."""

import re
from collections import Counter
from typing import Any

from sglang_sweep.host.sources import Readings, Unreadable

TOPOLOGY = ("nvidia-smi", "topo", "-m")
P2P = {
    "read": ("nvidia-smi", "topo", "-p2p", "r"),
    "write": ("nvidia-smi", "topo", "-p2p", "w"),
    "nvlink": ("nvidia-smi", "topo", "-p2p", "n"),
}
COMMANDS = (TOPOLOGY, *P2P.values())

# From near to far; the legend of `nvidia-smi topo -m`.
LINK = re.compile(r"NV\d+|PIX|PXB|PHB|NODE|SYS")
P2P_STATES = {
    "OK": "ok",
    "CNS": "chipset not supported",
    "GNS": "GPU not supported",
    "TNS": "topology not supported",
    "NS": "not supported",
    "U": "unknown",
}
_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


def read_topology(readings: Readings, gpu_count: int | None) -> dict[str, Any]:
    """Matrices indexed by GPU (``links[0][1]`` is how GPU 0 reaches GPU 1; None on the diagonal).

    ``summary`` counts pairs of GPUs by link class. All is null on a host without GPUs.
    """
    nothing: dict[str, Any] = {
        "links": None,
        "summary": None,
        "numa_affinity": None,
        "cpu_affinity": None,
        "p2p": dict.fromkeys(P2P),
    }
    if not gpu_count:
        readings.missing("topology", "no GPUs" if gpu_count == 0 else "the GPUs cannot be read")
        return nothing
    table = readings.take("topology.links", lambda: parse_topology(_answer(readings, TOPOLOGY)))
    p2p = {
        kind: readings.take(f"topology.p2p.{kind}", lambda c=command: parse_p2p(_answer(readings, c)))  # type: ignore[misc]
        for kind, command in P2P.items()
    }
    return {**nothing, **(table or {}), "p2p": p2p}


def parse_topology(text: str) -> dict[str, Any]:
    """The matrix of ``nvidia-smi topo -m``; network cards and the legend are left out."""
    header, rows = _table(text)
    count = sum(1 for name in header if name.startswith("GPU") and name[3:].isdigit())
    if not count:
        raise Unreadable(f"nvidia-smi topo -m: no matrix in its answer: {text.strip()[:160]!r}")
    links: list[list[str | None]] = []
    affinity: dict[str, list[str | None]] = {"CPU Affinity": [], "NUMA Affinity": []}
    for _, cells in rows[:count]:
        links.append([cell if LINK.fullmatch(cell) else None for cell in cells[:count]])
        row = dict(zip(header, cells, strict=False))
        for name, column in affinity.items():
            column.append(row.get(name) if row.get(name) not in ("", "N/A") else None)
    if len(links) != count or any(len(row) != count for row in links):
        raise Unreadable(f"nvidia-smi topo -m: {count} GPUs named, but the matrix has another shape")
    return {
        "links": links,
        "summary": summary(links),
        "cpu_affinity": affinity["CPU Affinity"],
        "numa_affinity": affinity["NUMA Affinity"],
    }


def parse_p2p(text: str) -> list[list[str | None]]:
    """The matrix of ``nvidia-smi topo -p2p``, in words of :data:`P2P_STATES`; None on the diagonal."""
    header, rows = _table(text)
    count = len(header)
    matrix = [
        [None if cell == "X" else P2P_STATES.get(cell, "unknown") for cell in cells[:count]]
        for _, cells in rows[:count]
    ]
    if not count or len(matrix) != count or any(len(row) != count for row in matrix):
        raise Unreadable(f"nvidia-smi topo -p2p: no matrix in its answer: {text.strip()[:160]!r}")
    return matrix


def pairs(matrix: list[list[str | None]]) -> list[str]:
    """The values above the diagonal, ``unknown`` where the cell says nothing."""
    size = len(matrix)
    return [matrix[i][j] or "unknown" for i in range(size) for j in range(i + 1, size)]


def summary(matrix: list[list[str | None]]) -> str:
    """``12x NODE, 16x SYS``: pairs by what the matrix says of them."""
    counts = sorted(Counter(pairs(matrix)).items())
    return ", ".join(f"{count}x {kind}" for kind, count in counts) or "a single GPU"


def _answer(readings: Readings, command: tuple[str, ...]) -> str:
    code, text = readings.sources.run(command)
    if code != 0:
        raise Unreadable(f"{' '.join(command)}: {first_line(text) or f'exit code {code}'}")
    return text


def first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def _table(text: str) -> tuple[list[str], list[tuple[str, list[str]]]]:
    """Column names and (row name, cells), up to the first line after the matrix."""
    header: list[str] = []
    rows: list[tuple[str, list[str]]] = []
    for line in _ESCAPE.sub("", text).splitlines():
        # Real output is tab-separated; what people paste into issues has runs of blanks.
        cells = [cell.strip() for cell in (line.split("\t") if "\t" in line else re.split(r"\s{2,}", line))]
        if not header and any(re.fullmatch(r"GPU\d+", cell) for cell in cells):
            header = [cell for cell in cells if cell]
        elif header and re.fullmatch(r"(GPU|NIC)\d+", name := next((cell for cell in cells if cell), "")):
            rows.append((name, cells[cells.index(name) + 1 :]))
        elif header and rows:
            break
    return header, rows
