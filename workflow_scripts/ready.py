"""Check that a campaign may run on this host, with everything built. Rule: ready."""

from pathlib import Path

from sglang_sweep.errors import InfrastructureFault
from sglang_sweep.files.records import write_json
from sglang_sweep.gate.survey import environment_report
from sglang_sweep.job import logged
from sglang_sweep.plan.sweep import load_sweep

with logged(snakemake.log[0]):
    sweep = load_sweep(snakemake.wildcards.campaign, snakemake.config)
    findings = sweep.gate_findings()
    text, ok = environment_report(sweep.host, findings, sweep.campaign.all_variants)
    print(text)
    if not ok:
        raise InfrastructureFault(
            text[text.index("Refused") :], remedy="mend these, or take the variants out"
        )
    write_json(Path(snakemake.output[0]), {"gate": [finding.as_dict() for finding in findings]})
