"""Compare two campaigns finding by finding. Rule: compare_stacks."""

from pathlib import Path

from sglang_sweep.files.records import read_json
from sglang_sweep.job import logged
from sglang_sweep.report.stack_comparison import compare_stacks, comparison_markdown

with logged(snakemake.log[0]):
    a, b = (read_json(Path(path)) for path in (snakemake.input.a, snakemake.input.b))
    text = comparison_markdown(compare_stacks(a, b), a["campaign"], b["campaign"])
    Path(snakemake.output[0]).write_text(text, encoding="utf-8")
