"""Windows: timed passes of a workload through SGLang's own load client."""

import json
import math
import os
import select
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from sglang_sweep.campaign import loads
from sglang_sweep.campaign.declared import Workload
from sglang_sweep.campaign.flags import command_line
from sglang_sweep.files import records as record
from sglang_sweep.launch import ownership

CLIENT = Path(__file__).parents[2] / "bench_client.py"

WARMUP_SEED_OFFSET = 100_000
"""Warm-up prompts must not be the measured ones, or the prefix cache would be warmed with them."""

METRICS = (
    "output_throughput", "request_throughput", "total_throughput",
    "mean_ttft_ms", "median_ttft_ms", "p99_ttft_ms",
    "mean_tpot_ms", "median_tpot_ms", "p99_tpot_ms", "mean_itl_ms", "p99_itl_ms",
    "mean_e2e_latency_ms", "p99_e2e_latency_ms",
    "accept_length", "completed", "total_input_tokens", "total_output_tokens", "total_output_tokens_retokenized",
)  # fmt: skip
"""Copied from the benchmark's JSON line; throughputs in tokens (or requests) per second, latencies in ms."""


class ClientFailed(Exception):
    """The load client gave an error or died."""


class ClientHung(Exception):
    """The load client did not finish a window in time."""


def benchmark_arguments(
    workload: Workload, *, url: str, model: str, seed: int, output: Path, requests: int | None = None
) -> list[str]:
    """The command line of ``python -m sglang.benchmark.serving`` for one pass.

    ``requests`` shortens the pass (warm-up); ``output`` receives one JSON line.
    """
    flags: dict[str, Any] = {
        "backend": "sglang",
        "base-url": url,
        "model": model,
        "tokenizer": model,
        "max-concurrency": workload.concurrency,
        "seed": seed,
        "warmup-requests": 0,
        "output-details": True,
        "disable-tqdm": True,
        "output-file": str(output),
    }
    if workload.request_rate is not None:
        flags["request-rate"] = workload.request_rate
    flags |= loads.flags_of(workload, requests)
    return command_line(flags | workload.bench_flags)


def objectives(details: dict[str, Any], slo: Mapping[Any, Any]) -> dict[str, float | None]:
    """How the requests of a window met ``slo``, by metric; None without objectives.

    TPOT of a request is its mean time between tokens after the first, end-to-end time TTFT plus all gaps, in ms. A
    failed request met nothing, and its latency is without bound. ``goodput``: requests per second within every limit
    (of several percentiles the largest limit); ``attainment``: their share; ``slo_margin``: the least of limit over
    measured percentile (nearest rank).
    """
    if not slo:
        return {"goodput": None, "attainment": None, "slo_margin": None}
    seen: dict[str, list[float]] = {"ttft_ms": [], "tpot_ms": [], "e2e_ms": []}
    for ttft, gaps, tokens, error in zip(
        details["ttfts"], details["itls"], details["output_lens"], details["errors"], strict=True
    ):
        after = math.inf if error else sum(gaps) * 1000
        seen["ttft_ms"].append(math.inf if error else ttft * 1000)
        seen["tpot_ms"].append(after / max(1, tokens - 1))
        seen["e2e_ms"].append(ttft * 1000 + after)
    limits = {name: given if isinstance(given, Mapping) else {"p99": given} for name, given in slo.items()}
    met = [
        all(seen[name][i] <= max(by.values()) for name, by in limits.items())
        for i in range(len(details["errors"]))
    ]
    margins = [
        limit / max(sorted(seen[name])[math.ceil(len(met) * int(rank[1:]) / 100) - 1], 1e-3)
        for name, by in limits.items()
        for rank, limit in by.items()
    ]
    return {
        "goodput": sum(met) / float(details["duration"]),
        "attainment": sum(met) / len(met),
        "slo_margin": min(margins),
    }


@dataclass
class Client:
    """The load client process; one for a whole launch. ``log`` receives what it prints.

    ``server_failed`` is asked while an answer is waited for: a dying server may leave its clients hanging.
    """

    python: Path
    log: Path
    environment: dict[str, str]
    processors: set[int]
    server_failed: Callable[[], bool] = lambda: False
    lease: ownership.Lease | None = None
    trust_remote_code: bool = False
    """Whether a model's folder may bring code that it runs: as the campaign says for the server."""
    held: ownership.Held | None = None
    _answers: int = -1
    _buffer: bytes = b""

    def start(self) -> None:
        """Starts importing SGLang while the server starts; ``wait_ready`` before the first request."""
        read_end, write_end = os.pipe()
        with self.log.open("wb") as log:
            self.held = ownership.Held(
                [
                    str(self.python),
                    str(CLIENT),
                    str(write_end),
                    *["--trust-remote-code"] * self.trust_remote_code,
                ],
                self.environment,
                self.lease,
                [write_end],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                text=True,
            )
        os.close(write_end)
        self._answers = read_end

    def wait_ready(self, timeout_s: float) -> str:
        """The benchmark module in use. Raises ClientFailed or ClientHung."""
        return str(self._answer(timeout_s)["ready"])

    def run(self, arguments: list[str], timeout_s: float) -> None:
        """One pass. Raises ClientFailed or ClientHung."""
        self._send({"args": arguments})
        answer = self._answer(timeout_s)
        if "error" in answer:
            raise ClientFailed(answer["error"])

    def count_tokens(self, model: str, texts: list[str], timeout_s: float) -> list[int]:
        """Tokens of each text by the model's own tokenizer, special tokens included."""
        self._send({"tokenize": texts, "model": model})
        answer = self._answer(timeout_s)
        if "error" in answer:
            raise ClientFailed(answer["error"])
        return [int(count) for count in answer["tokens"]]

    def _send(self, request: dict[str, Any]) -> None:
        assert self.held and self.held.process.stdin
        try:
            self.held.process.stdin.write(json.dumps(request) + "\n")
            self.held.process.stdin.flush()
        except BrokenPipeError:
            raise ClientFailed("the load client has died") from None

    def _answer(self, timeout_s: float) -> dict[str, Any]:
        deadline = time.monotonic() + timeout_s
        while b"\n" not in self._buffer:
            left = deadline - time.monotonic()
            if left <= 0:
                raise ClientHung(f"no answer from the load client within {timeout_s:.0f} s")
            if select.select([self._answers], [], [], min(left, 1.0))[0]:
                piece = os.read(self._answers, 65536)
                if not piece:
                    raise ClientFailed(f"the load client died, see {self.log.name}")
                self._buffer += piece
            elif self.server_failed():
                raise ClientFailed("one of the server's processes died")
        line, _, self._buffer = self._buffer.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def tree(self) -> list[psutil.Process]:
        """The client's processes, to be pinned."""
        return self.held.tree() if self.held else []

    def stop(self) -> None:
        """KILL to the client and all that it started."""
        if self.held:
            self.held.kill()
        if self._answers >= 0:
            os.close(self._answers)
            self._answers = -1


def run_window(
    client: Client, workload: Workload, index: int, *, url: str, model: str, output: Path, timeout_s: float
) -> dict[str, Any]:
    """One timed pass, as it stands in launch.json. Raises ClientFailed or ClientHung."""
    started = record.now()
    piece = output.with_suffix(".window")
    piece.unlink(missing_ok=True)
    client.run(
        benchmark_arguments(workload, url=url, model=model, seed=workload.seed + index, output=piece),
        timeout_s,
    )
    line = json.loads(piece.read_text(encoding="utf-8").splitlines()[-1])
    with output.open("a", encoding="utf-8") as kept:
        kept.write(json.dumps(line) + "\n")
    piece.unlink()
    metrics = {name: line.get(name) for name in METRICS}
    metrics["failed"] = loads.answers(workload) - int(line["completed"])
    metrics |= objectives(line, workload.slo)
    return {
        "workload": workload.name,
        "window": index,
        "level": workload.request_rate or workload.concurrency if workload.ladder else None,
        "started_at": started,
        "duration_s": line["duration"],
        "valid": True,
        "invalid": [],
        "metrics": metrics,
    }


def warm_up(
    client: Client, workload: Workload, *, url: str, model: str, folder: Path, timeout_s: float
) -> None:
    """Twice the concurrency, other prompts, then forgotten."""
    output = folder / "warmup.jsonl"
    client.run(
        benchmark_arguments(
            workload,
            url=url,
            model=model,
            seed=workload.seed + WARMUP_SEED_OFFSET,
            output=output,
            requests=2 * workload.concurrency,
        ),
        timeout_s,
    )
    output.unlink(missing_ok=True)
