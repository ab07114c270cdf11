"""The rows of verdicts.json that show rather than decide: every metric, every launch, everything removed."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from sglang_sweep.statistics.arms import Tested, baselines_of, compare_arm
from sglang_sweep.statistics.bootstrap import block_bootstrap
from sglang_sweep.statistics.launches import Arms, Measured
from sglang_sweep.statistics.metrics import METRICS
from sglang_sweep.verdict.decision import Design


def metric_rows(
    arms: Arms, arm: str, tested: Tested, primary: tuple[str, str], design: Design, baseline: str
) -> list[dict[str, Any]]:
    """Return ratio and 95 % interval of every workload and metric; only the primary one is tested.

    The others are shown to be understood, not mined, so they carry no p-value. Tail latencies and accept
    length get a block bootstrap interval. The means are over the blocks that the ratio is of, so that the three
    agree.
    """
    others = baselines_of(arm, baseline)
    mine = list(arms.get(arm, ()))
    beside = [launch for name in others for launch in arms.get(name, ())]
    workloads = dict.fromkeys(workload for launch in [*mine, *beside] for workload, _ in launch.raw)
    keys = [(w, m) for w in workloads for m in METRICS if any((w, m) in launch.raw for launch in mine)]
    rows = []
    for key in sorted(keys, key=lambda k: k != primary):
        shown = tested if key == primary else compare_arm(arms, arm, key, design, baseline)
        c = shown.comparison
        ci95 = c.ci95 if c else None
        if METRICS[key[1]].tail and key != primary:
            ci95 = block_bootstrap(list(shown.ratios.values()))
        blocks = set(shown.ratios) or {launch.block for launch in [*mine, *beside]}
        rows.append(
            {
                "workload": key[0],
                "metric": key[1],
                "unit": METRICS[key[1]].unit,
                "ratio": c.ratio if c else None,
                "ci95": list(ci95) if ci95 else None,
                "primary": key == primary,
                "baseline_mean": _mean(beside, key, blocks),
                "variant_mean": _mean(mine, key, blocks),
            }
        )
    return rows


def launch_row(launch: Measured, primary: tuple[str, str], stale: Collection[int]) -> dict[str, Any]:
    """Return one launch with its primary value, or with the rule that removed it."""
    return {
        "block": launch.block,
        "file": launch.file,
        "outcome": launch.outcome,
        "value": launch.raw.get(primary),
        "removed": "stale" if launch.block in stale else launch.lost,
    }


def removal_rows(arms: Arms) -> list[dict[str, Any]]:
    """Return every launch or window that a rule removed, with the rule and what it saw."""
    return [
        {
            "arm": name,
            "block": launch.block,
            "file": launch.file,
            "window": r.window,
            "rule": r.rule,
            "saw": r.saw,
        }
        for name, launches in arms.items()
        for launch in launches
        for r in launch.removed
    ]


def _mean(launches: Iterable[Measured], key: tuple[str, str], blocks: Collection[int]) -> float | None:
    values = [launch.raw[key] for launch in launches if key in launch.raw and launch.block in blocks]
    return sum(values) / len(values) if values else None
