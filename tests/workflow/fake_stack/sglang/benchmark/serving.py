"""SGLang's load client without the load: the same command line and JSON line, numbers from what the server says.

Without the prefix cache everything takes twice as long; a launch varies by a percent, the same in every run.
"""

import argparse
import json
import random
from pathlib import Path

import requests


def cli_main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("--base-url", "--output-file"):
        parser.add_argument(name)
    for name in ("--num-prompts", "--seed", "--random-input-len", "--random-output-len"):
        parser.add_argument(name, type=int, default=8)
    args, _ = parser.parse_known_args()
    n, tokens = args.num_prompts, args.random_output_len
    info = requests.get(f"{args.base_url}/server_info", timeout=10).json()
    variant, block = Path(args.output_file).parts[-4].rpartition("-")[0], Path(args.output_file).parts[-3]
    speed = 100 * (1 + 0.01 * random.Random(f"{variant}/{block}").gauss())
    speed /= 2 if info["disable_radix_cache"] else 1
    latency_ms = 1000 * tokens / speed
    line = {
        "duration": n * tokens / speed,
        "completed": n,
        "total_input_tokens": n * args.random_input_len,
        "total_output_tokens": n * tokens,
        "output_throughput": speed,
        "request_throughput": speed / tokens,
        "total_throughput": speed * (1 + args.random_input_len / tokens),
        "accept_length": None,
        "ttfts": [latency_ms / tokens / 1000] * n,
        "itls": [[latency_ms / tokens / 1000] * (tokens - 1)] * n,
        "output_lens": [tokens] * n,
        "errors": [""] * n,
    }
    for kind, value in (
        ("ttft", latency_ms / tokens),
        ("tpot", latency_ms / tokens),
        ("itl", latency_ms / tokens),
    ):
        line |= {f"{rank}_{kind}_ms": value for rank in ("mean", "median", "p99")}
    line |= {f"{rank}_e2e_latency_ms": latency_ms for rank in ("mean", "median", "p99")}
    with Path(args.output_file).open("a") as out:
        out.write(json.dumps(line) + "\n")
