"""What the metrics of a window are called, their unit, and which direction is better."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Metric:
    """``higher_is_better`` orients every ratio so that above 1 is better; ``tail`` asks for a bootstrap
    interval; an ``objective`` must not suffer unseen, whatever the primary metric is."""

    name: str
    unit: str
    higher_is_better: bool = True
    tail: bool = False
    objective: bool = False


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("output_throughput", "tok/s", objective=True),
        Metric("request_throughput", "req/s"),
        Metric("total_throughput", "tok/s"),
        Metric("goodput", "req/s", objective=True),
        Metric("attainment", "of requests"),
        Metric("slo_margin", "x"),
        Metric("joules_per_token", "J", False),
        Metric("completion", "of requests", objective=True),
        Metric("mean_ttft_ms", "ms", False, objective=True),
        Metric("median_ttft_ms", "ms", False),
        Metric("p99_ttft_ms", "ms", False, True, objective=True),
        Metric("mean_tpot_ms", "ms", False, objective=True),
        Metric("median_tpot_ms", "ms", False),
        Metric("p99_tpot_ms", "ms", False, True, objective=True),
        Metric("mean_itl_ms", "ms", False),
        Metric("p99_itl_ms", "ms", False, True),
        Metric("mean_e2e_latency_ms", "ms", False),
        Metric("p99_e2e_latency_ms", "ms", False, True),
        Metric("accept_length", "tokens", True, True),
    )
}
"""In the order they are shown. Accept length is bounded below by 1 and skewed, hence the bootstrap. Completion is
the share of the requests that were asked."""


def oriented(metric: str, value: float) -> float:
    """Return the value, inverted where lower is better, so that larger always means better."""
    return value if METRICS[metric].higher_is_better else 1.0 / value
