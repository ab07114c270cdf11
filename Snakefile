# sglang-sweep: which way of serving a model with SGLang is fastest on this machine, with evidence.
#
#   snakemake --cores all                          the campaigns named in config/config.yaml
#   snakemake --cores all reports/X/findings.md    one report, of any campaign in config/campaigns/
#   snakemake -n                                   what would run, and why
#   snakemake --cores 1 plan                       what it would cost, what is predicted; changes nothing
#   snakemake --cores 1 environment                fingerprint of this host, checks of host and stacks
#
# Launches lie in results/launches/, what follows from them in results/<campaign>/, reports in reports/<campaign>/. rules/ is in the order of the data.
import sys
from pathlib import Path

from snakemake.utils import min_version

min_version("9.25")
sys.path.insert(0, str(Path(workflow.basedir) / "workflow_scripts"))

from sglang_sweep import workflow as sweep_workflow

sweep_workflow.lead_scripts_here()


sweep_workflow.check_config_files("config/config.yaml", *workflow.overwrite_configfiles)


configfile: "config/config.yaml"


report: "reports/captions/workflow.rst"


SWEEPS = sweep_workflow.Sweeps(
    config,
    main_process=workflow.is_main_process,
)


# A job with this many threads has the host to itself, so that nothing disturbs a measurement.
EVERY_CORE = 10_000


wildcard_constraints:
    campaign="[a-z0-9][a-z0-9-]*",
    launch="[a-z0-9][a-z0-9-]*-[0-9a-f]{10}",
    block="[1-9][0-9]*",


# Only what starts servers is sent to a cluster's nodes.
localrules:
    all,
    plan,
    environment,
    stack,
    model,
    ready,
    evidence,
    verdict,
    gather,
    documents,
    compare_stacks,
    calibration,
    bundle,


rule all:
    """Measure and report every campaign named in config/config.yaml."""
    default_target: True
    input:
        SWEEPS.targets(),


include: "rules/plan.smk"
include: "rules/environment.smk"
include: "rules/prepare.smk"


# Without these rules what was measured is given: Snakemake makes nothing of it anew, an interrupted launch neither.
if SWEEPS.measures:

    include: "rules/launch.smk"
    include: "rules/profile.smk"
    include: "rules/communication.smk"


include: "rules/evidence.smk"
include: "rules/verdict.smk"
include: "rules/report.smk"
include: "rules/calibration.smk"
include: "rules/bundle.smk"


onstart:
    SWEEPS.announce()


onsuccess:
    SWEEPS.summarise()


onerror:
    SWEEPS.summarise(log)
