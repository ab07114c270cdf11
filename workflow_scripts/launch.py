"""Own one server from spawn to proven-gone. Rule: launch."""

from pathlib import Path

from sglang_sweep.job import logged
from sglang_sweep.launch.measure import measure, not_run
from sglang_sweep.plan.sweep import asking, refuse_other_host
from sglang_sweep.verdict.stopping import why_not_run

with logged(snakemake.log[0]) as say:
    folder, block = snakemake.wildcards.launch, int(snakemake.wildcards.block)
    sweeps = asking(folder, block, snakemake.config)
    output = Path(snakemake.output[0])
    # One that still needs the launch is enough.
    reasons = [why_not_run(sweep, folder, block) for sweep in sweeps]
    sweep = sweeps[reasons.index(None) if None in reasons else 0]
    if reason := None if None in reasons else reasons[0]:
        say(f"not run: {reason}")
        not_run(sweep.identity(folder, block), output, reason)
    else:
        refuse_other_host(sweep.host)
        result = measure(sweep.launch_order(folder, block), output, say=say)
        say(f"{result['outcome']}" + (f": {result['cause']}: {result['reason']}" if result["cause"] else ""))
