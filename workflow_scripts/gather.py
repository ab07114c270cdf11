"""Collect what the report of one campaign shows beside the verdicts. Rule: gather."""

from dataclasses import asdict
from pathlib import Path

from sglang_sweep.files.records import read_json, write_json
from sglang_sweep.job import logged
from sglang_sweep.plan.sweep import load_sweep
from sglang_sweep.report.gather import sections

with logged(snakemake.log[0]):
    sweep = load_sweep(snakemake.wildcards.campaign, snakemake.config)
    launches, profiles, communication = (
        [Path(path) for path in snakemake.input.get(name, [])]
        for name in ("launches", "profiles", "communication")
    )
    verdicts = read_json(Path(snakemake.input.verdicts))
    found = sections(sweep, verdicts, launches, profiles, next(iter(communication), None))
    write_json(Path(snakemake.output[0]), asdict(found))
