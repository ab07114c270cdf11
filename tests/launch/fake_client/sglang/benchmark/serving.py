"""Stands in for SGLang's load client in unit tests: same command line, same JSON line, no model."""

import argparse
import json
import os
import time
from pathlib import Path

import requests


def cli_main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--output-file")
    parser.add_argument("--num-prompts", type=int)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--base-url")
    args, _ = parser.parse_known_args()
    if args.seed >= 100 and os.environ.get("FAKE_CLIENT") == "hangs-warming":
        time.sleep(600)
    if args.seed < 100:  # a window, not a warm-up
        time.sleep({"hangs": 600.0, "slow": 3.0}.get(os.environ.get("FAKE_CLIENT", ""), 0.0))
    key = (
        {"Authorization": f"Bearer {os.environ['OPENAI_API_KEY']}"}
        if os.environ.get("OPENAI_API_KEY")
        else {}
    )
    requests.get(
        f"{args.base_url}/server_info", headers=key, timeout=10
    ).raise_for_status()  # as SGLang's, by any proxy
    n = args.num_prompts
    line = {"output_throughput": 100.0 + args.seed, "completed": n, "duration": 1.0, "mean_ttft_ms": 10.0,
            "mean_tpot_ms": 5.0, "ttfts": [0.01] * n, "itls": [[0.005] * 3] * n, "output_lens": [4] * n,
            "errors": [""] * n}  # fmt: skip
    with Path(args.output_file).open("a") as out:
        out.write(json.dumps(line) + "\n")
