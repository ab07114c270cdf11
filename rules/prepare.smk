rule stack:
    """Build a stack from its lock file, once for all campaigns and clones."""
    output:
        f"{SWEEPS.store}/stacks/{{stack}}/stack.json",
    log:
        f"{SWEEPS.store}/logs/stack-{{stack}}.log",
    retries: 1
    conda:
        "../envs/controller.yaml"
    threads: EVERY_CORE
    message:
        "Building the stack {wildcards.stack} (minutes; once for all campaigns)"
    script:
        "../workflow_scripts/stack.py"


rule model:
    """Fetch or make a model, once for all campaigns and clones."""
    input:
        lambda w: ancient(SWEEPS.converter_marker(w.model)),
    output:
        f"{SWEEPS.store}/models/{{model}}/model.json",
    log:
        f"{SWEEPS.store}/logs/model-{{model}}.log",
    retries: 1
    conda:
        "../envs/controller.yaml"
    threads: EVERY_CORE
    params:
        converter=lambda w: SWEEPS.converter(w.model).name,
    message:
        "Making the model {wildcards.model}"
    script:
        "../workflow_scripts/model.py"


rule ready:
    """Wait for every stack and model, so that nothing is built while something is measured."""
    input:
        lambda w: ancient(SWEEPS.requirements(w.campaign)),
    output:
        "results/{campaign}/ready-{arms}.json",
    log:
        "results/{campaign}/logs/ready-{arms}.log",
    wildcard_constraints:
        arms="[0-9a-f]{10}",
    conda:
        "../envs/controller.yaml"
    message:
        "Checking that {wildcards.campaign} may run on this host"
    script:
        "../workflow_scripts/ready.py"
