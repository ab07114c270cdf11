"""Write findings.md and index.html of one campaign. Rule: documents."""

from pathlib import Path

from sglang_sweep.gather import sections
from sglang_sweep.job import logged
from sglang_sweep.record import read_json
from sglang_sweep.report.findings import write_findings
from sglang_sweep.report.page import write_page

with logged(snakemake.log[0]):
    verdicts = read_json(Path(snakemake.input.verdicts))
    shown = sections(
        snakemake.wildcards.campaign, verdicts, snakemake.input.launches, snakemake.input.get("profiles", [])
    )
    captions = ("Change against the baseline", "Launches over time", "Windows within launches")
    figures = dict(zip(captions, map(Path, snakemake.input.figures), strict=True))
    write_findings(verdicts, Path(snakemake.output.findings), figures=figures, sections=shown)
    write_page(verdicts, Path(snakemake.output.page), figures=figures, sections=shown)
