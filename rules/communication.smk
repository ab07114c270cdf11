rule communication:
    """Measure all-reduce alone by message size, on the ranks and stack of the baseline."""
    input:
        ready=ancient("results/{campaign}/ready.json"),
    output:
        "results/{campaign}/communication.json",
    log:
        "results/{campaign}/logs/communication.log",
    retries: 1
    conda:
        "../envs/controller.yaml"
    threads: EVERY_CORE
    resources:
        gpu=1,
    params:
        root=workflow.basedir,
    message:
        "{wildcards.campaign}: collectives alone"
    script:
        "../workflow_scripts/communication.py"
