"""Build one stack from its lock file. Rule: stack."""

from pathlib import Path

from sglang_sweep.job import logged
from sglang_sweep.plan.sweep import ENVS
from sglang_sweep.stacks.build import build_stack
from sglang_sweep.stacks.stack import load_stack

with logged(snakemake.log[0]) as say:
    store = Path(snakemake.output[0]).parents[2]
    name, _, _ = snakemake.wildcards.stack.rpartition("-")
    build_stack(load_stack(ENVS, name), store, say)
