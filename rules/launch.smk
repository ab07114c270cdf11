rule launch:
    """Own one server from spawn to proven-gone; a variant that fails is a result, not an error."""
    input:
        ready=ancient("results/{campaign}/ready.json"),
        needs=lambda w: ancient(SWEEPS.requirements_of(w.campaign, w.launch)),
    output:
        ensure("results/{campaign}/launches/{launch}/block-{block}/launch.json", non_empty=True),
    log:
        "results/{campaign}/logs/{launch}-block-{block}.log",
    params:
        root=workflow.basedir,
    message:
        "{wildcards.campaign}: launch of {wildcards.launch}, block {wildcards.block}"
    conda:
        "../envs/controller.yaml"
    threads: EVERY_CORE
    priority: lambda w: SWEEPS.priority(w.campaign, w.launch, w.block)
    resources:
        gpu=1,
    retries: 1
    script:
        "../workflow_scripts/launch.py"
