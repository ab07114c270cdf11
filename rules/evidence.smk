rule evidence:
    """Turn an arm's logs, server_info, metrics and traces into outcome, cause, engagement and confounds."""
    input:
        launches=lambda w: SWEEPS.launches_of(w.campaign, w.launch),
        baseline=lambda w: SWEEPS.baseline_launches(w.campaign),
        profile=lambda w: SWEEPS.profile_of(w.campaign, w.launch),
        knowledge=collect("config/knowledge/{name}.yaml", name=sweep_workflow.KNOWLEDGE),
        code=sweep_workflow.code("evidence.py"),
    output:
        "results/{campaign}/evidence/{launch}.json",
    log:
        "results/{campaign}/logs/evidence-{launch}.log",
    conda:
        "../envs/controller.yaml"
    params:
        change=lambda w: SWEEPS.declared(w.campaign, w.launch),
        # Snakemake sees newer files by itself, but not that the list of them has changed.
        launches=lambda w: SWEEPS.launches_of(w.campaign, w.launch),
    message:
        "{wildcards.campaign}: evidence of {wildcards.launch}"
    script:
        "../workflow_scripts/evidence.py"
