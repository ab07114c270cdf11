"""What the collectives cost alone, and what that predicts for a step.

The measurement itself is ``workflow_scripts/communication_bench.py``, run by a stack's interpreter; here its spec
is made, its command built, its result read, interpolated and set beside a profile.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sglang_sweep.errors import UserError

SCRIPT = Path(__file__).resolve().parents[2] / "communication_bench.py"
KIB, MIB = 1 << 10, 1 << 20
SIZES = [4 * KIB, 8 * KIB, 16 * KIB, 32 * KIB, 64 * KIB, 128 * KIB, 256 * KIB, 512 * KIB]
SIZES += [MIB, 4 * MIB, 16 * MIB, 64 * MIB]

# a doubling of the message may double the time when bandwidth rules; more than this exponent is something else
_SUPERLINEAR = 1.15
# or a step: steeper by this much than both before and after; and always by this factor beyond the noise
_STEEPER, _BEYOND_NOISE = 0.35, 1.3


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


def allreduce_bytes(tokens: int, hidden_size: int, element_bytes: int = 2) -> int:
    """Message of one all-reduce: the hidden states of the tokens in flight (bf16: 2 bytes an element)."""
    return tokens * hidden_size * element_bytes


def cliffs(curve: Curve) -> list[dict[str, Any]]:
    """Where latency grows faster than the message alone explains: another algorithm, protocol or path begins.

    Per pair of neighbouring sizes, exponent = log(latency ratio) / log(size ratio): 0 when latency rules, 1 when
    bandwidth does. Above 1.15, or steeper by 0.35 than both neighbours and beyond the noise, is a cliff.
    """
    exponent = np.diff(np.log(curve.latency)) / np.diff(np.log(curve.sizes))
    found = []
    for number, value in enumerate(exponent):
        beyond = curve.low[number + 1] / curve.high[number] >= _BEYOND_NOISE
        # at the ends one cannot tell a step from the point where bandwidth begins to rule
        inner = 0 < number < len(exponent) - 1
        step = inner and value - max(exponent[number - 1], exponent[number + 1]) > _STEEPER
        if beyond and (value > _SUPERLINEAR or step):
            found.append(
                {
                    "setting": curve.setting,
                    "mode": curve.mode,
                    "from_bytes": int(curve.sizes[number]),
                    "to_bytes": int(curve.sizes[number + 1]),
                    "from_us": round(float(curve.latency[number]), 2),
                    "to_us": round(float(curve.latency[number + 1]), 2),
                    "ratio": round(float(curve.latency[number + 1] / curve.latency[number]), 2),
                    "exponent": round(float(value), 2),
                }
            )
    return found


def compare(
    curve: Curve,
    breakdown: dict[str, Any],
    bytes_by_kind: dict[str, int],
    tpot_ms: float | None = None,
    accept_length: float = 1.0,
) -> list[dict[str, Any]]:
    """Predicted beside profiled communication, per kind of step, and the share of TPOT.

    ``bytes_by_kind``: message size per kind of step (``allreduce_bytes``). A cycle of ``accept_length`` tokens
    takes ``tpot_ms * accept_length``. ``unexplained_ms`` is what the profile shows beyond the prediction.
    """
    rows = []
    for step in breakdown["steps"]:
        reduces, size = step["allreduce"], bytes_by_kind.get(step["kind"])
        if not reduces["count_per_step"] or size is None:
            continue
        alone = curve.at(size)
        predicted = reduces["count_per_step"] * alone / 1e3
        rows.append(
            {
                "kind": step["kind"],
                "batch_size": step["batch_size"],
                "count": reduces["count_per_step"],
                "bytes": size,
                "us_alone": round(alone, 3),
                "us_profiled": reduces["us_median"],
                "predicted_ms": round(predicted, 4),
                "profiled_ms": reduces["ms_per_step"],
                "unexplained_ms": round(reduces["ms_per_step"] - predicted, 4),
                "skew_ms": reduces["skew_ms"],
                "share_of_tpot": (
                    round(reduces["ms_per_step"] / (tpot_ms * accept_length), 4) if tpot_ms else None
                ),
            }
        )
    return rows


def growth(
    curves: Sequence[Curve], setting: str, small: tuple[int, float], large: tuple[int, float]
) -> dict[str, Any]:
    """What changed between two message sizes: ``small`` and ``large`` are (bytes, observed us per all-reduce).

    Answers the founding question (at most 92 us per all-reduce in decode, 246 us in verify): is it the size, the
    graph that verify does not run in, or neither, so that the collective is not at fault?
    """
    own = {curve.mode: curve for curve in curves if curve.setting == setting}
    if not own:
        raise UserError(f"no measurement of setting {setting!r}", key="communication")
    inside = own.get("graph", own.get("eager"))
    assert inside is not None
    observed = large[1] / small[1]
    before = inside.at(small[0])
    candidates = {"message size": inside.at(large[0]) / before}
    if "graph" in own and "eager" in own:
        candidates["large one outside a CUDA graph"] = own["eager"].at(large[0]) / before
    fit = {name: abs(math.log(ratio / observed)) for name, ratio in candidates.items()}
    best = min(fit, key=lambda name: fit[name])
    explained = fit[best] < math.log(1.3)
    return {
        "observed_ratio": round(observed, 3),
        "alone_ratio": {name: round(ratio, 3) for name, ratio in candidates.items()},
        "explained_by": best if explained else None,
        "absolute": {
            "small_us_alone": round(before, 2),
            "large_us_alone": round(inside.at(large[0]), 2),
        },
        "sentence": (
            f"the growth of {observed:.1f} x agrees with {best} ({candidates[best]:.1f} x alone)"
            if explained
            else f"the collectives alone grow {candidates['message size']:.1f} x where {observed:.1f} x was observed: "
            "look for waiting (skew between ranks), another path in the server, or work that is no all-reduce"
        ),
    }
