"""Draw the figures of one campaign. Rule: figures."""

from pathlib import Path

from sglang_sweep.job import logged
from sglang_sweep.record import read_json
from sglang_sweep.report.figures import figure_blocks, figure_ratios, figure_windows

with logged(snakemake.log[0]):
    verdicts = read_json(Path(snakemake.input.verdicts))
    launches = [read_json(Path(path)) for path in snakemake.input.launches]
    figure_ratios(verdicts, Path(snakemake.output.ratios))
    figure_blocks(launches, Path(snakemake.output.blocks), verdicts=verdicts)
    figure_windows(launches, Path(snakemake.output.windows), verdicts=verdicts)
