rule environment:
    """Fingerprint this host anew and check it, its stacks and the campaigns' variants."""
    params:
        campaigns=SWEEPS.names,
        root=workflow.basedir,
    conda:
        "../envs/controller.yaml"
    script:
        "../workflow_scripts/environment.py"
