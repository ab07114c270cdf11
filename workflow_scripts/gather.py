"""Collect what the report of one campaign shows beside the verdicts. Rule: gather."""

from pathlib import Path

from sglang_sweep.files.records import read_json
from sglang_sweep.job import logged
from sglang_sweep.plan.sweep import load_sweep
from sglang_sweep.report.gather import report_data

with logged(snakemake.log[0]):
    sweep = load_sweep(snakemake.wildcards.campaign, snakemake.config)
    launches, profiles, communication = (
        [Path(path) for path in snakemake.input.get(name, [])]
        for name in ("launches", "profiles", "communication")
    )
    verdicts = read_json(Path(snakemake.input.verdicts))
    found = report_data(sweep, verdicts, launches, profiles, next(iter(communication), None))
    found.write(Path(snakemake.output[0]))
