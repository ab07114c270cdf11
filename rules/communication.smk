rule communication:
    """Measure all-reduce alone by message size, on the ranks and stack of the baseline."""
    input:
        lambda w: ancient(
            SWEEPS.before(
                f"results/{w.campaign}/communication/{w.launch}/{w.asked}.json",
                w.campaign,
                w.launch,
            )
        ),
    output:
        "results/{campaign}/communication/{launch}/{asked}.json",
    log:
        "results/{campaign}/logs/communication-{launch}-{asked}.log",
    wildcard_constraints:
        asked="[0-9a-f]{10}",
    retries: 1
    conda:
        "../envs/controller.yaml"
    threads: EVERY_CORE
    resources:
        host=1,
        gpu=lambda w: SWEEPS.gpus(w.campaign, w.launch),
    message:
        "{wildcards.campaign}: collectives alone"
    script:
        "../workflow_scripts/communication.py"
