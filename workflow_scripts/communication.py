"""Measure the collectives alone, on the ranks and stack of the baseline. Rule: communication."""

from pathlib import Path

from sglang_sweep.costs.communication import measure
from sglang_sweep.job import logged
from sglang_sweep.launch import ownership
from sglang_sweep.plan.sweep import asking, refuse_other_host

with logged(snakemake.log[0]) as say:
    sweep = asking(snakemake.wildcards.launch, None, snakemake.config)[0]
    refuse_other_host(sweep.host)
    order = sweep.launch_order(snakemake.wildcards.launch, 0)
    asked = sweep.campaign.communication or {}
    with (
        ownership.interruptible(),
        ownership.exclusive(order.limits.busy_wait_s, order.campaign, order.gpus, say),
    ):
        ownership.end_orphans()
        result = measure(
            order.client_python,
            Path(snakemake.output[0]),
            device="cuda" if sweep.host.get("gpus") else "cpu",
            ranks=max(2, sweep.ranks(snakemake.wildcards.launch)),
            settings=asked.get("settings"),
            sizes=asked.get("sizes_bytes"),
            repeats=asked.get("repeats", 100),
            environment=order.environment,
        )
    say(f"{len(result['results'])} latencies, {len(result['errors'])} settings failed")
