"""Measures all-reduce alone, on the ranks and with the libraries a server would use.

Run by a stack's interpreter (it imports torch), never by the workflow's own:

    <stack python> communication_bench.py --spec spec.json --out out.json

The spec is written by ``sglang_sweep.costs.communication.make_spec``. NCCL reads its environment once, when it is
initialised, so each setting gets processes of its own. Every collective is timed on every rank and costs the
minimum over ranks; sizes and modes come in random order, several rounds each.
"""

import argparse
import json
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

GRAPH_CALLS = 20  # all-reduces captured in one CUDA graph, so that its launch does not count
# as SGLang sets them for its servers where the user has not (entrypoints/engine.py of 0.5.23)
SERVER_DEFAULTS = {"NCCL_CUMEM_ENABLE": "0", "NCCL_NVLS_ENABLE": "0"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spec", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rank", type=int, help="internal: run one rank")
    parser.add_argument("--port", type=int, help="internal: where the ranks meet")
    arguments = parser.parse_args()
    spec = json.loads(arguments.spec.read_text())
    if arguments.rank is not None:
        arguments.out.write_text(json.dumps(run_rank(spec, arguments.rank, arguments.port)))
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that finally ends the ranks
    settings = list(enumerate(spec["settings"]))
    random.Random(spec["seed"]).shuffle(settings)
    results: list[dict[str, Any]] = []
    errors: list[dict[str, str]] = []
    about: dict[str, Any] = {}
    for _, setting in settings:
        ranks = run_setting(spec, arguments.spec, setting)
        if isinstance(ranks, str):
            errors.append({"setting": setting["name"], "message": ranks})
            continue
        about = ranks[0]["about"]
        results += summary(setting, [rank["samples"] for rank in ranks])
    report = {"schema_version": 1, "spec": spec, "about": about, "results": results, "errors": errors}
    arguments.out.write_text(json.dumps(report, indent=1) + "\n")
    return 0 if results else 1


def run_setting(spec: dict[str, Any], spec_path: Path, setting: dict[str, Any]) -> list[dict[str, Any]] | str:
    """One process per rank; what they measured, or why they did not."""
    environment = SERVER_DEFAULTS | dict(os.environ) | setting["env"]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        outs = [Path(folder) / f"{rank}.json" for rank in range(spec["ranks"])]
        logs = [Path(folder) / f"{rank}.log" for rank in range(spec["ranks"])]
        processes = []
        try:
            for rank, (out, log) in enumerate(zip(outs, logs, strict=True)):
                command = [sys.executable, __file__, "--spec", str(spec_path), "--out", str(out)]
                command += ["--rank", str(rank), "--port", str(port)]
                with log.open("wb") as stream:
                    processes.append(subprocess.Popen(command, env=environment, stdout=stream, stderr=stream))
            deadline = time.monotonic() + spec["timeout_s"]
            while any(process.poll() is None for process in processes):
                if any(process.poll() not in (None, 0) for process in processes):
                    time.sleep(1)  # let the others say why, too
                    break
                if time.monotonic() > deadline:
                    return f"hung: not finished after {spec['timeout_s']} s"
                time.sleep(0.1)
        finally:
            for process in processes:
                if process.poll() is None:
                    process.kill()
                process.wait()
        if any(process.returncode for process in processes):
            lines = [line for log in logs for line in log.read_text(errors="replace").splitlines() if line]
            telling = [line for line in lines if "Error" in line or "error" in line]
            return (telling or lines or ["died without a word"])[-1].strip()[:400]
        return [json.loads(out.read_text()) for out in outs]


def summary(setting: dict[str, Any], ranks: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Per size and mode: median and quantiles of the minimum over ranks, us."""
    rows = []
    for group in zip(*ranks, strict=True):
        cost = [min(times) for times in zip(*(sample["us"] for sample in group), strict=True)]
        skew = [max(times) - min(times) for times in zip(*(sample["us"] for sample in group), strict=True)]
        rows.append((group[0]["mode"], group[0]["bytes"], group[0]["dtype"], cost, skew))
    merged: dict[tuple[str, int, str], tuple[list[float], list[float]]] = {}
    for mode, size, dtype, cost, skew in rows:
        costs, skews = merged.setdefault((mode, size, dtype), ([], []))
        costs += cost
        skews += skew
    return [
        {
            "setting": setting["name"],
            "env": setting["env"],
            "mode": mode,
            "bytes": size,
            "dtype": dtype,
            "samples": len(costs),
            "us_median": round(statistics.median(costs), 3),
            "us_p10": round(statistics.quantiles(costs, n=10)[0], 3),
            "us_p90": round(statistics.quantiles(costs, n=10)[8], 3),
            "skew_us_median": round(statistics.median(skews), 3),
        }
        for (mode, size, dtype), (costs, skews) in sorted(merged.items())
    ]


def run_rank(spec: dict[str, Any], rank: int, port: int) -> dict[str, Any]:
    import torch
    import torch.distributed as dist

    on_gpu = spec["device"] == "cuda"
    if on_gpu:
        torch.cuda.set_device(rank)
    else:
        torch.set_num_threads(1)
    dist.init_process_group(
        spec["backend"], init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=spec["ranks"]
    )
    dtype = getattr(torch, spec["dtype"])
    device = f"cuda:{rank}" if on_gpu else "cpu"
    try:
        dist.all_reduce(torch.ones(8, dtype=dtype, device=device))
    except RuntimeError:
        dtype = torch.float32  # gloo of some builds has no bf16: the same bytes, said in the result
        dist.all_reduce(torch.ones(8, dtype=dtype, device=device))
    order = random.Random(
        spec["seed"]
    )  # the same on every rank, or they would wait for different collectives
    samples = []
    for _ in range(spec["rounds"]):
        plan = [(size, mode) for size in spec["sizes"] for mode in spec["modes"]]
        order.shuffle(plan)
        for size, mode in plan:
            tensor = torch.zeros(max(size // dtype.itemsize, 1), dtype=dtype, device=device)
            time_all = time_graph if mode == "graph" else time_eager if on_gpu else time_host
            times = time_all(torch, dist, tensor, spec["repeats"], spec["warmup"])
            samples.append({"mode": mode, "bytes": size, "dtype": str(dtype).split(".")[1], "us": times})
    about = {
        "torch": torch.__version__,
        "nccl": ".".join(map(str, torch.cuda.nccl.version())) if on_gpu else None,
        "device": torch.cuda.get_device_name(rank) if on_gpu else "cpu",
        "backend": spec["backend"],
    }
    dist.destroy_process_group()
    return {"about": about, "samples": samples}


def time_host(torch: Any, dist: Any, tensor: Any, repeats: int, warmup: int) -> list[float]:
    times = []
    for number in range(warmup + repeats):
        dist.barrier()
        begin = time.perf_counter()
        dist.all_reduce(tensor)
        if number >= warmup:
            times.append(1e6 * (time.perf_counter() - begin))
    return times


def time_eager(torch: Any, dist: Any, tensor: Any, repeats: int, warmup: int) -> list[float]:
    events = [
        (torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(repeats)
    ]
    for _ in range(warmup):
        dist.all_reduce(tensor)
    torch.cuda.synchronize()
    for begin, end in events:
        begin.record()
        dist.all_reduce(tensor)
        end.record()
    torch.cuda.synchronize()
    return [1e3 * begin.elapsed_time(end) for begin, end in events]


def time_graph(torch: Any, dist: Any, tensor: Any, repeats: int, warmup: int) -> list[float]:
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            dist.all_reduce(tensor)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(GRAPH_CALLS):
            dist.all_reduce(tensor)
    for _ in range(warmup):
        graph.replay()
    torch.cuda.synchronize()
    times = []
    for _ in range(max(repeats // GRAPH_CALLS, 5)):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        dist.barrier()
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(1e3 * begin.elapsed_time(end) / GRAPH_CALLS)
    return times


if __name__ == "__main__":
    sys.exit(main())
