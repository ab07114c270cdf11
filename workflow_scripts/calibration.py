"""Check the statistics on simulated hosts. Rule: calibration."""

from pathlib import Path

from sglang_sweep.calibration.calibration_report import write_study
from sglang_sweep.job import logged

with logged(snakemake.log[0]):
    report, figure, table = (Path(snakemake.output[name]) for name in ("report", "figure", "table"))
    write_study(Path(snakemake.input.config), report, figure, table, snakemake.threads)
