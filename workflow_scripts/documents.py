"""Write the report of one campaign. Rule: documents."""

from pathlib import Path

from sglang_sweep.job import logged
from sglang_sweep.report.documents import write_documents

with logged(snakemake.log[0]):
    launches, communication = (
        [Path(x) for x in snakemake.input.get(n, [])] for n in ("launches", "communication")
    )
    results = Path(snakemake.input.verdicts).parent
    write_documents(results, launches, Path(snakemake.output.page).parent, next(iter(communication), None))
