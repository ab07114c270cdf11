rule environment:
    """Fingerprint this host anew and check it, its stacks and the campaigns' variants."""
    log:
        "results/logs/environment.log",
    conda:
        "../envs/controller.yaml"
    params:
        campaigns=SWEEPS.names,
    script:
        "../workflow_scripts/environment.py"
