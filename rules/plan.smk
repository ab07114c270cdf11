rule plan:
    """What would run, why, what it would cost, and which dead ends are predicted. Changes nothing."""
    log:
        "results/logs/plan.log",
    conda:
        "../envs/controller.yaml"
    params:
        campaigns=SWEEPS.names,
        host=SWEEPS.host,
    script:
        "../workflow_scripts/plan.py"
