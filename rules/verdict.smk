rule verdict:
    """Decide what is concluded about each variant."""
    input:
        launches=lambda w: SWEEPS.launches(w.campaign),
        evidence=lambda w: SWEEPS.evidence(w.campaign),
        code=sweep_workflow.code("verdict.py"),
    output:
        verdicts="results/{campaign}/verdicts.json",
        declaration="results/{campaign}/declaration.json",
    log:
        "results/{campaign}/logs/verdict.log",
    conda:
        "../envs/controller.yaml"
    params:
        declared=lambda w: SWEEPS.declared(w.campaign),
        launches=lambda w: SWEEPS.launches(w.campaign),
    message:
        "{wildcards.campaign}: verdicts"
    script:
        "../workflow_scripts/verdict.py"
