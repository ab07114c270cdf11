rule bundle:
    """Make everything a host without network needs, in parts: envs/bundles/NAME.yaml says what that host is."""
    input:
        target="envs/bundles/{name}.yaml",
        code=sweep_workflow.code("bundle.py"),
    output:
        "results/bundles/{name}/manifest.json",
    log:
        "results/bundles/{name}.log",
    wildcard_constraints:
        name="[a-z0-9.-]+",
    conda:
        "../envs/controller.yaml"
    threads: EVERY_CORE
    params:
        part_size_mib=SWEEPS.site.bundle_part_mib,
    message:
        "Bundle {wildcards.name} (minutes)"
    script:
        "../workflow_scripts/bundle.py"
