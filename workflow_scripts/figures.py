"""Draw the figures of one campaign. Rule: figures."""

from pathlib import Path

from sglang_sweep.files.records import read_json
from sglang_sweep.job import logged
from sglang_sweep.report.figures import draw_figures

with logged(snakemake.log[0]):
    verdicts = read_json(Path(snakemake.input.verdicts))
    launches = [read_json(Path(path)) for path in snakemake.input.launches]
    figures = (Path(snakemake.output[name]) for name in ("ratios", "blocks", "windows"))
    draw_figures(verdicts, launches, *figures)
