rule communication:
    """Measure all-reduce alone by message size, on the ranks and stack of the baseline."""
    input:
        lambda w: ancient(
            SWEEPS.before(
                f"results/communication/{w.launch}/{w.asked}.json",
                w.launch,
            )
        ),
    output:
        "results/communication/{launch}/{asked}.json",
    log:
        "results/logs/communication-{launch}-{asked}.log",
    wildcard_constraints:
        asked="[0-9a-f]{10}",
    retries: 1
    conda:
        "../envs/controller.yaml"
    threads: EVERY_CORE
    resources:
        host=1,
        gpu=lambda w: SWEEPS.gpus(w.launch),
    message:
        "collectives alone, on the ranks of {wildcards.launch}"
    script:
        "../workflow_scripts/communication.py"
