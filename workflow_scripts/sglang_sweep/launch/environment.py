"""The environment a server gets: ours, minus what the workflow put there, plus what was declared."""

import re

CONTROLLER_ONLY = re.compile(
    r"^(OMP|MKL|OPENBLAS|GOTO|VECLIB|NUMEXPR)_NUM_THREADS$|^VIRTUAL_ENV|^SNAKEMAKE|^PYTHON(HOME|STARTUP)$|^PS1$|^_$"
)
"""Set by Snakemake (the thread counts, to its own ``threads``) or by the controller's virtual environment."""

MEASURED_ALIKE = {
    "PYTHONUNBUFFERED": "1",  # the log is evidence, it must not lag behind
    "SGLANG_EXPOSE_OWN_ENV_VARS": "1",  # /server_info then shows the environment as SGLang left it
}


def server_environment(ambient: dict[str, str], *declared: dict[str, str]) -> dict[str, str]:
    """``ambient`` without the controller's own variables, overlaid by ``declared`` in order."""
    environment = {name: value for name, value in ambient.items() if not CONTROLLER_ONLY.match(name)}
    environment |= MEASURED_ALIKE
    for layer in declared:
        environment |= layer
    return environment
