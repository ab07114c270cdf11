"""Fingerprint this host anew and say what can run on it. Rule: environment."""

import sys
from pathlib import Path

from sglang_sweep.gate.survey import environment_report, record_environment
from sglang_sweep.job import told
from sglang_sweep.plan.sweep import ENVIRONMENT, load_site, load_sweep

with told(snakemake.log[0]):
    host = record_environment(
        ENVIRONMENT, previous=ENVIRONMENT, folders=[Path.cwd(), load_site(snakemake.config).store_folder]
    )
    for line in host.pop("drift"):
        print(line)
    runnable = True
    for name in snakemake.params.campaigns:
        sweep = load_sweep(name, snakemake.config, host)
        text, ok = environment_report(host, sweep.gate_findings(), sweep.campaign.all_variants)
        print(f"\n{name}\n{text}")
        runnable &= ok
sys.exit(0 if runnable else 1)
