rule profile:
    """One launch with the profiler and NCCL's log on, never a measured one."""
    input:
        ready=ancient("results/{campaign}/ready.json"),
        needs=lambda w: ancient(SWEEPS.requirements_of(w.campaign, w.launch)),
    output:
        ensure("results/{campaign}/profiles/{launch}/profile.json", non_empty=True),
    log:
        "results/{campaign}/logs/profile-{launch}.log",
    retries: 1
    conda:
        "../envs/controller.yaml"
    threads: EVERY_CORE
    resources:
        gpu=1,
    params:
        root=workflow.basedir,
    message:
        "{wildcards.campaign}: profile launch of {wildcards.launch}"
    script:
        "../workflow_scripts/profile_launch.py"
