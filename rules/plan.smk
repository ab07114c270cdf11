rule plan:
    """What would run, why, what it would cost, and which dead ends are predicted. Changes nothing."""
    params:
        campaigns=SWEEPS.names,
        host=SWEEPS.host,
        root=workflow.basedir,
    conda:
        "../envs/controller.yaml"
    script:
        "../workflow_scripts/plan.py"
