"""Write findings.md and index.html of one campaign. Rule: documents."""

from pathlib import Path

from sglang_sweep.gather import sections
from sglang_sweep.job import logged
from sglang_sweep.record import read_json
from sglang_sweep.report.findings import write_findings
from sglang_sweep.report.page import write_page
from sglang_sweep.report_figures import draw_parts
from sglang_sweep.sweep import load_sweep

with logged(snakemake.log[0]):
    sweep = load_sweep(snakemake.wildcards.campaign, snakemake.config, Path(snakemake.params.root))
    verdicts = read_json(Path(snakemake.input.verdicts))
    launches, profiles, communication = (
        [Path(path) for path in snakemake.input.get(name, [])]
        for name in ("launches", "profiles", "communication")
    )
    folder = Path(snakemake.output.findings).parent
    shown = sections(sweep, verdicts, launches, profiles, next(iter(communication), None), folder)
    captions = ("Change against the baseline", "Launches over time", "Windows within launches")
    figures = dict(zip(captions, map(Path, snakemake.input.figures), strict=True))
    figures |= draw_parts(shown, folder, next(iter(communication), None))
    write_findings(verdicts, Path(snakemake.output.findings), figures=figures, sections=shown)
    write_page(verdicts, Path(snakemake.output.page), figures=figures, sections=shown)
