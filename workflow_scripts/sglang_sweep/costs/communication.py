"""Measures the collectives alone, on a server's ranks and stack, and reads what was measured.

The measurement itself is ``workflow_scripts/communication_bench.py``, run by a stack's interpreter; here its spec
is made, its command built and run, and its result read.
"""

import json
import math
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sglang_sweep.errors import InfrastructureFault, UserError

SCRIPT = Path(__file__).resolve().parents[2] / "communication_bench.py"
KIB, MIB = 1 << 10, 1 << 20
SIZES = [4 * KIB, 8 * KIB, 16 * KIB, 32 * KIB, 64 * KIB, 128 * KIB, 256 * KIB, 512 * KIB]
SIZES += [MIB, 4 * MIB, 16 * MIB, 64 * MIB]


@dataclass(frozen=True)
class Curve:
    """Latency (us, median of the minimum over ranks) by message size, for one setting and mode."""

    setting: str
    mode: str
    sizes: np.ndarray
    latency: np.ndarray
    low: np.ndarray
    high: np.ndarray

    def at(self, size: float) -> float:
        """Latency at ``size`` bytes, interpolated on logarithms; beyond the ends, the end's own latency per size.

        Below the smallest size latency is flat; above the largest it grows with the message.
        """
        if size >= self.sizes[-1]:
            return float(self.latency[-1] * size / self.sizes[-1])
        return float(np.exp(np.interp(math.log(size), np.log(self.sizes), np.log(self.latency))))


def make_spec(
    *,
    device: str,
    ranks: int,
    settings: Sequence[dict[str, Any]] = ({"name": "default", "env": {}},),
    sizes: Sequence[int] = tuple(SIZES),
    repeats: int = 100,
    rounds: int = 3,
    seed: int = 7,
    timeout_s: int = 300,
) -> dict[str, Any]:
    """The spec of a measurement: bf16 all-reduce on ``ranks`` GPUs (NCCL, eager and in a graph) or CPUs (gloo).

    Each setting is ``{"name", "env"}``; sizes in bytes.
    """
    gpu = device != "cpu"
    return {
        "device": "cuda" if gpu else "cpu",
        "backend": "nccl" if gpu else "gloo",
        "ranks": ranks,
        "dtype": "bfloat16",
        "sizes": sorted(sizes),
        "modes": ["eager", "graph"] if gpu else ["eager"],
        "repeats": repeats,
        "warmup": max(repeats // 10, 3),
        "rounds": rounds,
        "seed": seed,
        "settings": [{"name": s["name"], "env": {k: str(v) for k, v in s["env"].items()}} for s in settings],
        "timeout_s": timeout_s,
    }


def bench_command(python: str | Path, spec: str | Path, out: str | Path) -> list[str]:
    """The command that measures ``spec`` with a stack's interpreter and writes ``out``."""
    return [str(python), str(SCRIPT), "--spec", str(spec), "--out", str(out)]


def measure(
    python: str | Path,
    out: str | Path,
    *,
    device: str,
    ranks: int,
    settings: Mapping[str, Mapping[str, str]] | None = None,
    sizes: Sequence[int] | None = None,
    repeats: int = 100,
    timeout_s: int = 300,
    environment: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Measures and writes ``out`` (JSON); the spec stays beside it. Returns the result.

    ``settings`` maps names to environments (default: one, empty), each given ``timeout_s``. ``environment`` is that
    of the server. Raises InfrastructureFault when the measurement cannot run at all; a setting that fails is in
    ``errors``.
    """
    out = Path(out)
    spec_file = out.with_suffix(".spec.json")
    named = [{"name": name, "env": dict(env)} for name, env in (settings or {"default": {}}).items()]
    spec = make_spec(
        device=device,
        ranks=ranks,
        settings=named,
        sizes=tuple(sizes or SIZES),
        repeats=repeats,
        timeout_s=timeout_s,
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    spec_file.write_text(json.dumps(spec, indent=1) + "\n")
    out.unlink(missing_ok=True)
    process = subprocess.Popen(
        bench_command(python, spec_file, out),
        env=dict(os.environ if environment is None else environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        told, _ = process.communicate(timeout=(timeout_s + 30) * len(named))
    except BaseException:
        process.terminate()  # it ends its ranks on TERM
        process.wait(30)
        raise
    if not out.exists():
        raise InfrastructureFault(
            f"communication_bench.py wrote nothing (status {process.returncode}): {told.strip()[-400:]}",
            remedy=f"run it by hand: {' '.join(process.args)}",  # type: ignore[arg-type]
        )
    result: dict[str, Any] = json.loads(out.read_text())
    return result


def read_curves(path: str | Path) -> list[Curve]:
    """The curves of a result file. Raises UserError when it is none, or holds no measurement."""
    path = Path(path)
    try:
        content = json.loads(path.read_text())
        rows = content["results"]
        keys = sorted({(row["setting"], row["mode"]) for row in rows})
        curves = [_curve(key, [row for row in rows if (row["setting"], row["mode"]) == key]) for key in keys]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"is not a result of communication_bench.py ({error})", file=path, remedy="measure again"
        ) from None
    if not curves:
        why = "; ".join(f"{row['setting']}: {row['message']}" for row in content.get("errors", []))
        raise UserError(f"holds no measurement ({why or 'no reason given'})", file=path)
    return curves


def _curve(key: tuple[str, str], rows: list[dict[str, Any]]) -> Curve:
    rows = sorted(rows, key=lambda row: row["bytes"])
    columns = [np.array([float(row[name]) for row in rows]) for name in _COLUMNS]
    return Curve(key[0], key[1], *columns)


_COLUMNS = ("bytes", "us_median", "us_p10", "us_p90")
