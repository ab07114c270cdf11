"""Truths that a mean hides, drawn as whole launch records: windows, failures, removals, hosts.

Each is a campaign of one variant whose verdict would be wrong if what was thrown away, failed or happened elsewhere did
not reach it. The product itself judges the records; nothing is repeated here.
"""

from __future__ import annotations

import math
import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import numpy as np

from sglang_sweep.verdict.analysis import analyse
from sglang_sweep.verdict.settled import decide_arms
from sglang_sweep.verdict.verdicts import measured_on

Launch = dict[str, Any]

ARMS = ("baseline", "baseline-prime", "v")
START = datetime(2026, 12, 1, tzinfo=UTC)
CLAIMS = ("WIN", "NO_DIFFERENCE")


@dataclass(frozen=True)
class Truth:
    """What is true of the variant. ``levels`` are of the baseline's windows, ``variant`` of the variant's (default the
    same); the rest happens to the variant alone.

    Windows by index ``retract`` or ``fail`` a request; ``crash`` is a share of launches, ``time_out`` fails those in
    the slower half so often; ``zero`` is the share of launches whose goodput is nothing; ``slow`` the share that is
    ``slow_by``; ``second`` is the level of a second workload with that spread from launch to launch, ``second_fails``
    the requests that fail in each of its windows; ``ttft`` multiplies TTFT; ``host_sd`` is how much hosts differ in
    what the variant gains, of which one is measured. ``wrong`` are the verdicts that would mislead, ``told`` is what a
    claim must say.
    """

    name: str
    wrong: Sequence[str] = CLAIMS
    levels: Sequence[float] = (1.0, 1.0, 1.0)
    variant: Sequence[float] | None = None
    retract: Sequence[int] = ()
    fail: Sequence[int] = ()
    crash: float = 0.0
    time_out: float = 0.0
    zero: float = 0.0
    slow: float = 0.0
    slow_by: float = 0.22
    second: float | None = None
    second_sd: float = 0.01
    second_fails: int = 0
    ttft: float = 1.0
    host_sd: float = 0.0
    metric: str = "output_throughput"
    blocks: int = 10
    told: str = ""


def campaign(truth: Truth, blocks: int, noise: Mapping[str, float], rng: np.random.Generator) -> list[Launch]:
    """Draw the launch records of one campaign. ``noise`` has ``launch_sd`` and ``window_sd`` on the log scale."""
    here = rng.normal(0, truth.host_sd) if truth.host_sd else 0.0
    return [
        _launch(truth, arm, block, position, here, noise, rng)
        for block in range(1, blocks + 1)
        for position, arm in enumerate(rng.permutation(ARMS))
    ]


def _launch(
    truth: Truth,
    arm: str,
    block: int,
    position: int,
    here: float,
    noise: Mapping[str, float],
    rng: np.random.Generator,
) -> Launch:
    v = arm == "v"
    luck = rng.normal(0, noise["launch_sd"])
    level = luck + (here + math.log1p(-truth.slow_by) * (rng.random() < truth.slow) if v else 0.0)
    failed = v and (rng.random() < truth.crash or (luck < 0 and rng.random() < truth.time_out))
    began = START + timedelta(minutes=2 * (block * len(ARMS) + position))
    gone = v and rng.random() < truth.zero
    windows = []
    for index, base in enumerate((truth.variant or truth.levels) if v else truth.levels):
        rate = 100 * base * math.exp(level + rng.normal(0, noise["window_sd"]))
        ttft = 50 * (truth.ttft if v else 1.0) * math.exp(rng.normal(0, 0.05))
        windows.append(
            _window("chat", index, rate, ttft, 0.0 if gone else rate / 64, int(v and index in truth.fail))
            | {"retracted_requests": 2 * int(v and index in truth.retract)}
        )
    if truth.second is not None:
        apart = rng.normal(0, truth.second_sd)
        for index in range(len(truth.levels)):
            rate = 400 * (truth.second if v else 1.0) * math.exp(apart + rng.normal(0, noise["window_sd"]))
            windows.append(_window("batch", index, rate, 90.0, rate / 64, truth.second_fails if v else 0))
    return {
        "variant": arm,
        "key": "simulated",
        "block": block,
        "started_at": began.isoformat(),
        "outcome": "failed" if failed else "completed",
        "cause": ("client_hang" if truth.time_out else "crashed") if failed else None,
        "timeline": {"ready_s": 40.0},
        "host": {"hostname": "host-1", "class_digest": "c", "gpus_digest": "g1"},
        "windows": [] if failed else windows,
    }


def _window(
    workload: str, index: int, rate: float, ttft: float, goodput: float, failed: int
) -> dict[str, Any]:
    metrics = {
        "output_throughput": rate, "mean_ttft_ms": ttft, "goodput": goodput, "completed": 16 - failed, "failed": failed,
    }  # fmt: skip
    return {"workload": workload, "window": index, "duration_s": 4.0, "metrics": metrics}


def fixed(truth: Truth, design: Mapping[str, Any], draw: Callable[[int], list[Launch]]) -> list[Launch]:
    """The launches of a fixed design."""
    return draw(truth.blocks)


def adaptive(truth: Truth, design: Mapping[str, Any], draw: Callable[[int], list[Launch]]) -> list[Launch]:
    """The launches of an adaptive design: it stops where the product says."""
    made: list[Launch] = []
    live = set(ARMS)
    for launch in sorted(draw(design["max_blocks"]), key=lambda r: r["block"]):
        if made and launch["block"] > max(2, made[-1]["block"]):
            decided = decide_arms(made, {}, design, variants=["v"])
            live = {name for name, decision in decided.items() if decision.go_on}
        if not live:
            break
        made += [launch] if launch["variant"] in live else []
    return made


def study_holes(config: Mapping[str, Any], workers: int = 1) -> list[dict[str, Any]]:
    """Return a row per truth and mode: how often each verdict came, ``wrong`` (share of misleading verdicts) and
    ``silent`` (share of claims that say nothing of what is hidden). Every truth has its own random stream."""
    with ProcessPoolExecutor(max_workers=workers) as pool:
        rows = list(pool.map(study_hole, config["holes"], [config] * len(config["holes"])))
    return [row for pair in rows for row in pair]


def study_hole(settings: Mapping[str, Any], config: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return both rows of one truth."""
    truth, many, rows = Truth(**settings), config["hole_replications"], []
    for mode, made in (("fixed", fixed), ("adaptive", adaptive)):
        design = {
            "mode": mode,
            "blocks": truth.blocks,
            "max_blocks": config["max_blocks"],
            "smallest_effect": config["smallest_effect"],
            "alpha": config["alpha"],
            "primary": {"workload": "chat", "metric": truth.metric},
        }
        rng = np.random.default_rng([config["seed"], zlib.crc32(truth.name.encode()), mode == "fixed"])
        verdicts: Counter[str] = Counter()
        silent = 0
        for _ in range(many):
            records = made(truth, design, partial(campaign, truth, noise=config["host"], rng=rng))
            row = analyse(records, {}, design, variants=["v"])["variants"][0]
            verdicts[row["verdict"]] += 1
            silent += row["verdict"] in CLAIMS and not _told(truth, row, records)
        rows.append(
            {
                "truth": truth.name,
                "mode": mode,
                "verdicts": {name: count / many for name, count in verdicts.most_common()},
                "wrong": sum(verdicts[name] for name in truth.wrong) / many,
                "silent": silent / many,
            }
        )
    return rows


def _told(truth: Truth, row: Mapping[str, Any], records: Sequence[Launch]) -> bool:
    """Whether a claim says what ``truth.told`` names: another objective, an unseen slow mode, one host, a reason."""
    elsewhere = [e for e in row["elsewhere"] if e["kind"] in ("worse", "not_excluded")]
    if truth.told == "unseen":
        return bool(row["spread"]["unseen_share"] >= max(truth.slow, truth.crash, truth.zero))
    if truth.told == "host":
        return str(measured_on(records)["measured_on"]).startswith("one host only")
    if truth.told == "reasons":
        return bool(row["reasons"])
    return not truth.told or any(truth.told in (e["workload"], e["metric"]) for e in elsewhere)
