"""Which algorithm and protocol NCCL chose by message size, from its TUNING log; and nsys, where it is installed."""

import gzip
import re
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

# NCCL 2.28.9, recorded: AllReduce: 8192 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..1}
# older releases print numbers:  AllReduce: 8192 Bytes -> Algo 1 proto 0 time 12.3
_LINE = re.compile(
    r"\b(?P<operation>[A-Z]\w+): (?P<bytes>\d+) Bytes -> Algo (?P<algo>\w+) proto (?P<proto>\w+)"
    r"(?: channel\{Lo\.\.Hi\}=\{(?P<low>\d+)\.\.(?P<high>\d+)\})?"
)
_ALGORITHMS = ("TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT")
_PROTOCOLS = ("LL", "LL128", "SIMPLE")


def tuning_environment(folder: str | Path) -> dict[str, str]:
    """Variables that make NCCL write its choices, one file per process, into ``folder``.

    Thousands of lines while graphs are captured: for a profile launch only, never for a measured one.
    """
    return {
        "NCCL_DEBUG": "INFO",
        "NCCL_DEBUG_SUBSYS": "TUNING",
        "NCCL_DEBUG_FILE": str(Path(folder) / "nccl-%h-%p.log"),
    }


def nccl_tuning(log: str | Path, operation: str = "AllReduce") -> dict[int, dict[str, Any]]:
    """``{bytes: {algo, proto, channels, count}}`` for one operation; empty where the log holds no choice.

    ``log`` may be gzipped, or a folder of such logs. Where NCCL chose several ways for one size, the most
    frequent counts and ``also`` lists the others.
    """
    choices: dict[int, Counter[tuple[str, str, int | None]]] = {}
    log = Path(log)
    for path in sorted(log.glob("nccl-*.log*")) if log.is_dir() else [log]:
        with (
            gzip.open(path, "rt", errors="replace") if _zipped(path) else path.open(errors="replace") as lines
        ):
            for line in lines:
                if " Bytes -> Algo " not in line:
                    continue
                for found in _LINE.finditer(line):
                    if found["operation"] == operation:
                        choices.setdefault(int(found["bytes"]), Counter())[_choice(found)] += 1
    return {size: _chosen(choices[size]) for size in sorted(choices)}


def _zipped(path: Path) -> bool:
    with path.open("rb") as raw:
        return raw.read(2) == b"\x1f\x8b"


def _choice(found: re.Match[str]) -> tuple[str, str, int | None]:
    channels = int(found["high"]) - int(found["low"]) + 1 if found["high"] else None
    return _named(found["algo"], _ALGORITHMS), _named(found["proto"], _PROTOCOLS), channels


def _named(text: str, names: tuple[str, ...]) -> str:
    return names[int(text)] if text.isdigit() and int(text) < len(names) else text.upper()


def _chosen(counter: Counter[tuple[str, str, int | None]]) -> dict[str, Any]:
    ((algorithm, protocol, channels), _), *others = counter.most_common()
    chosen: dict[str, Any] = {
        "algo": algorithm,
        "proto": protocol,
        "channels": channels,
        "count": counter.total(),
    }
    if others:
        chosen["also"] = [{"algo": a, "proto": p, "channels": c, "count": n} for (a, p, c), n in others]
    return chosen


def nsys_prefix(out: str | Path, executable: str = "nsys") -> list[str]:
    """What to put before a server's command to record it with Nsight Systems; [] where nsys is not installed.

    Records between cudaProfilerStart and -Stop, which /start_profile calls for the activity CUDA_PROFILER.
    """
    nsys = shutil.which(executable)
    if nsys is None:
        return []
    return [
        nsys,
        "profile",
        "--trace=cuda,nvtx",
        "--cuda-graph-trace=node",
        "--trace-fork-before-exec=true",
        "--capture-range=cudaProfilerApi",
        "--capture-range-end=stop",
        "--force-overwrite=true",
        "--output",
        str(out),
    ]
