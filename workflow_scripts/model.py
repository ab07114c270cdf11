"""Fetch or make one model. Rule: model."""

from pathlib import Path

from sglang_sweep.job import logged
from sglang_sweep.plan.sweep import ENVS
from sglang_sweep.stacks.models import load_model, make_model
from sglang_sweep.stacks.stack import load_stack

with logged(snakemake.log[0]) as say:
    store = Path(snakemake.output[0]).parents[2]
    name, _, _ = snakemake.wildcards.model.rpartition("-")
    make_model(
        load_model(name, Path("config/models.yaml")),
        load_stack(ENVS, snakemake.params.converter),
        store,
        say,
    )
