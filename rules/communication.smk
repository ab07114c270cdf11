rule communication:
    """Measure all-reduce alone by message size, on the ranks and stack of the baseline."""
    input:
        lambda w: ancient(
            SWEEPS.before(
                f"results/{w.campaign}/communication/{w.launch}.json",
                w.campaign,
                w.launch,
            )
        ),
    output:
        "results/{campaign}/communication/{launch}.json",
    log:
        "results/{campaign}/logs/communication-{launch}.log",
    retries: 1
    conda:
        "../envs/controller.yaml"
    threads: EVERY_CORE
    resources:
        gpu=1,
    message:
        "{wildcards.campaign}: collectives alone"
    script:
        "../workflow_scripts/communication.py"
