"""Decide what is concluded about each variant. Rule: verdict."""

from pathlib import Path

from sglang_sweep.files.records import write_json
from sglang_sweep.job import logged
from sglang_sweep.verdict.verdicts import build_verdicts

with logged(snakemake.log[0]):
    launches, evidence = ([Path(path) for path in snakemake.input[name]] for name in ("launches", "evidence"))
    verdicts = build_verdicts(snakemake.params.declared, launches, evidence).model_dump(mode="json")
    output = Path(snakemake.output.verdicts)
    # Earlier findings are not lost when stack or host change: plan and report read what they reopen from here.
    write_json(output.parent / "history" / f"{verdicts['baseline']['key']}.json", verdicts)
    # With this and the files it names, the verdicts can be rebuilt where neither campaign nor stack is.
    write_json(Path(snakemake.output.declaration), snakemake.params.declared)
    write_json(output, verdicts)
