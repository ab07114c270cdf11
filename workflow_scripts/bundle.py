"""Make the bundle for a host without network. Rule: bundle."""

from pathlib import Path

from sglang_sweep.job import logged
from sglang_sweep.stacks.bundle import load_target, make_bundle

with logged(snakemake.log[0]) as say:
    target = load_target(Path(snakemake.input.target))
    make_bundle(target, Path(snakemake.output[0]).parent, snakemake.params.part_size_mib, say)
