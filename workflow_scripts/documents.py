"""Write findings.md and index.html of one campaign. Rule: documents."""

from pathlib import Path

from sglang_sweep.job import logged
from sglang_sweep.report.documents import write_documents

with logged(snakemake.log[0]):
    communication = [Path(path) for path in snakemake.input.get("communication", [])]
    write_documents(
        Path(snakemake.input.verdicts),
        Path(snakemake.input.beside),
        [Path(path) for path in snakemake.input.figures],
        Path(snakemake.output.findings),
        Path(snakemake.output.page),
        next(iter(communication), None),
    )
