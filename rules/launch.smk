rule launch:
    """Own one server from spawn to proven-gone; a variant that fails is a result, not an error."""
    input:
        lambda w: ancient(
            SWEEPS.before(
                f"results/launches/{w.launch}/block-{w.block}/launch.json",
                w.launch,
            )
        ),
    output:
        ensure(
            "results/launches/{launch}/block-{block}/launch.json",
            non_empty=True,
        ),
    log:
        "results/logs/{launch}-block-{block}.log",
    priority: lambda w: SWEEPS.priority(w.launch, w.block)
    retries: 1
    conda:
        "../envs/controller.yaml"
    threads: EVERY_CORE
    resources:
        host=1,
        gpu=lambda w: SWEEPS.gpus(w.launch),
    message:
        "launch of {wildcards.launch}, block {wildcards.block}"
    script:
        "../workflow_scripts/launch.py"
