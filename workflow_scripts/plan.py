"""Print what would run, why, what it would cost, and what is predicted. Rule: plan."""

from sglang_sweep.job import told
from sglang_sweep.launch.ownership import holders
from sglang_sweep.plan.predictions import predictions
from sglang_sweep.plan.schedule import estimate
from sglang_sweep.plan.sweep import RESULTS, load_sweep
from sglang_sweep.plan.view import console, render_plan
from sglang_sweep.verdict.outlook import notes

with told(snakemake.log[0]):
    for name in snakemake.params.campaigns:
        # What would be measured is the question here, whether anything may be or not.
        sweep = load_sweep(name, {**snakemake.config, "measure": True}, snakemake.params.host)
        cost = estimate(sweep.schedule, RESULTS)
        console().print(render_plan(sweep.schedule, cost, RESULTS, predictions(sweep), notes(sweep)))
    for holder in holders():
        print(f"Measured on this host now: {holder}")
