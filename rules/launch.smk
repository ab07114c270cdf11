rule launch:
    """Own one server from spawn to proven-gone; a variant that fails is a result, not an error."""
    input:
        lambda w: ancient(
            SWEEPS.before(
                f"results/{w.campaign}/launches/{w.launch}/block-{w.block}/launch.json",
                w.campaign,
                w.launch,
            )
        ),
    output:
        ensure(
            "results/{campaign}/launches/{launch}/block-{block}/launch.json",
            non_empty=True,
        ),
    log:
        "results/{campaign}/logs/{launch}-block-{block}.log",
    priority: lambda w: SWEEPS.priority(w.campaign, w.launch, w.block)
    retries: 1
    conda:
        "../envs/controller.yaml"
    threads: EVERY_CORE
    resources:
        host=1,
        gpu=lambda w: SWEEPS.gpus(w.campaign, w.launch),
    message:
        "{wildcards.campaign}: launch of {wildcards.launch}, block {wildcards.block}"
    script:
        "../workflow_scripts/launch.py"
