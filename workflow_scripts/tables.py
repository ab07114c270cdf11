"""Write verdicts and launches of one campaign as CSV. Rule: tables."""

from pathlib import Path

from sglang_sweep.files.records import read_json
from sglang_sweep.job import logged
from sglang_sweep.report.tables import write_tables

with logged(snakemake.log[0]):
    verdicts = read_json(Path(snakemake.input.verdicts))
    write_tables(verdicts, Path(snakemake.output.verdicts), Path(snakemake.output.launches))
