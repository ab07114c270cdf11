rule profile:
    """One launch with the profiler and NCCL's log on, never a measured one."""
    input:
        lambda w: ancient(
            SWEEPS.before(
                f"results/profiles/{w.launch}/profile.json",
                w.launch,
            )
        ),
    output:
        ensure("results/profiles/{launch}/profile.json", non_empty=True),
    log:
        "results/logs/profile-{launch}.log",
    # Before any measured launch: kernels that compile on first use are then found compiled.
    priority: 1_000_000
    retries: 1
    conda:
        "../envs/controller.yaml"
    threads: EVERY_CORE
    resources:
        host=1,
        gpu=lambda w: SWEEPS.gpus(w.launch),
    message:
        "profile launch of {wildcards.launch}"
    script:
        "../workflow_scripts/profile_launch.py"
