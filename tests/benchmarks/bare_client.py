"""Does the pipeline measure what SGLang's own benchmark measures? Both, in turn, on one and the same server.

    python tests/benchmarks/bare_client.py CAMPAIGN [--variant NAME] [--workload NAME] [--pairs N] [--configfile FILE]

A pair is one window of the pipeline and one ``python -m sglang.benchmark.serving`` in a process of its own, with the
same prompts and an equally cold prefix cache; which goes first alternates. Prints, for each workload, both
throughputs, their geometric-mean ratio and its 95 % paired t interval, and writes them to
``results/<campaign>/bare-client.json``. The stack, the model and ``results/environment.json`` must be there.
"""

import argparse
import json
import math
import subprocess
from pathlib import Path
from typing import Any

import yaml
from scipy import stats
from sglang_sweep.files import records as record
from sglang_sweep.launch.measure import INSTRUMENTS, own
from sglang_sweep.launch.run import Run
from sglang_sweep.launch.workload import benchmark_arguments, run_window
from sglang_sweep.plan.sweep import RESULTS, load_sweep


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("campaign")
    parser.add_argument("--variant", default="baseline")
    parser.add_argument("--workload", help="one of the campaign's; default, all of them")
    parser.add_argument("--pairs", type=int, default=6)
    parser.add_argument("--configfile", default="config/config.yaml")
    asked = parser.parse_args()
    sweep = load_sweep(asked.campaign, yaml.safe_load(Path(asked.configfile).read_text(encoding="utf-8")))
    arm = next(arm for arm in sweep.schedule.arms if arm.name == asked.variant)
    output = RESULTS / asked.campaign / "bare-client.json"
    measured: list[dict[str, Any]] = []
    run = own(
        sweep.launch_order(arm.folder, 1),
        output.parent / "bare-client",
        INSTRUMENTS,
        lambda run: measured.extend(pairs(run, asked.workload, asked.pairs)),
    )
    if run.outcome != "completed":
        raise SystemExit(f"{asked.variant} {run.outcome}: {run.reason}, see {run.folder}")
    summary = [
        summarise(name, [pair for pair in measured if pair["workload"] == name])
        for name in dict.fromkeys(pair["workload"] for pair in measured)
    ]
    record.write_json(output, {"variant": arm.name, "key": arm.key, "workloads": summary, "pairs": measured})
    for row in summary:
        print(
            f"{row['workload']}: pipeline {row['pipeline']:.1f} tok/s, bare {row['bare']:.1f} tok/s, ratio"
            f" {row['ratio']:.4f} [{row['ci'][0]:.4f}, {row['ci'][1]:.4f}] over {row['pairs']} pairs"
        )


def pairs(run: Run, asked: str | None, count: int) -> list[dict[str, Any]]:
    """Output throughput (tokens/s) of both clients, ``count`` times for each workload."""
    measured = []
    for index in range(count):
        for workload in run.launch.workloads:
            if asked not in (None, workload.name):
                continue
            clients = {"pipeline": _pipeline, "bare": _bare}
            order = list(clients) if index % 2 == 0 else list(reversed(clients))
            pair = {name: clients[name](run, workload, index) for name in order}
            measured.append({"workload": workload.name, "first": order[0], **pair})
    return measured


def _pipeline(run: Run, workload: Any, index: int) -> float:
    run.flush()
    target = {"url": run.server.url, "model": run.launch.model, "timeout_s": run.launch.limits.window_s}
    window = run.ask_client(
        run_window, run.client, workload, index, output=run.folder / "pipeline.jsonl", **target
    )
    return float(window["metrics"]["output_throughput"])


def _bare(run: Run, workload: Any, index: int) -> float:
    run.flush()
    output = run.folder / f"bare-{workload.name}-{index}.jsonl"
    arguments = benchmark_arguments(
        workload, url=run.server.url, model=run.launch.model, seed=workload.seed + index, output=output
    )
    with (run.folder / "bare.log").open("ab") as log:
        subprocess.run(
            [str(run.launch.client_python), "-m", "sglang.benchmark.serving", *arguments],
            env=run.launch.environment,
            stdout=log,
            stderr=log,
            check=True,
            timeout=run.launch.limits.window_s,
        )
    return float(json.loads(output.read_text(encoding="utf-8").splitlines()[-1])["output_throughput"])


def summarise(workload: str, measured: list[dict[str, Any]]) -> dict[str, Any]:
    """Geometric means, ratio pipeline / bare, and the paired t interval of the log ratio."""
    logs = [math.log(pair["pipeline"] / pair["bare"]) for pair in measured]
    mean, error = float(stats.tmean(logs)), float(stats.sem(logs))
    reach = float(stats.t.ppf(0.975, len(logs) - 1)) * error
    return {
        "workload": workload,
        "pairs": len(measured),
        "pipeline": float(stats.gmean([pair["pipeline"] for pair in measured])),
        "bare": float(stats.gmean([pair["bare"] for pair in measured])),
        "ratio": math.exp(mean),
        "ci": [math.exp(mean - reach), math.exp(mean + reach)],
    }


if __name__ == "__main__":
    main()
