rule communication:
    """Measure all-reduce alone by message size, on the ranks and stack of the baseline."""
    input:
        lambda w: ancient(
            SWEEPS.before(
                f"results/{w.campaign}/communication.json",
                w.campaign,
                SWEEPS.sweep(w.campaign).schedule.arms[0].folder,
            )
        ),
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
    message:
        "{wildcards.campaign}: collectives alone"
    script:
        "../workflow_scripts/communication.py"
