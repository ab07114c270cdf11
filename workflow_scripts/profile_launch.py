"""One launch with the profiler and NCCL's log on. Rule: profile."""

from pathlib import Path

from sglang_sweep.job import logged
from sglang_sweep.launch.profiled import profile
from sglang_sweep.plan.sweep import asking, refuse_other_host

with logged(snakemake.log[0]) as say:
    sweep = asking(snakemake.wildcards.launch, None, snakemake.config)[0]
    refuse_other_host(sweep.host)
    order = sweep.launch_order(snakemake.wildcards.launch, 0)
    result = profile(
        order,
        Path(snakemake.output[0]),
        sweep.campaign.profile.model_dump(),
        sweep.ranks(snakemake.wildcards.launch),
        say=say,
    )
    say(f"profile: {result['profile'].get('outcome', result['cause'])}")
