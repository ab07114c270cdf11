"""The environment a server gets: ours, minus what the workflow put there, plus what was declared."""

import re
from collections.abc import Mapping

CONTROLLER_ONLY = re.compile(
    r"^(OMP|MKL|OPENBLAS|GOTO|VECLIB|NUMEXPR)_NUM_THREADS$|^VIRTUAL_ENV|^SNAKEMAKE|^PYTHON(HOME|STARTUP|PATH)$|^PS1$|^_$"
)
"""Set by Snakemake (the thread counts, to its own ``threads``) or by the controller's virtual environment."""

AMBIENT = re.compile(
    r"(NCCL|NVSHMEM|SGLANG(?!_SWEEP)|FLASHINFER|PYTORCH|TORCH_(SYMM|NCCL)|CUDA_(VISIBLE|DEVICE))_?\w*"
)
"""Variables of the shell that a server inherits and that can change its numbers."""

MEASURED_ALIKE = {
    "PYTHONUNBUFFERED": "1",  # the log is evidence, it must not lag behind
    "SGLANG_EXPOSE_OWN_ENV_VARS": "1",  # /server_info then shows the environment as SGLang left it
}


def ambient(environment: Mapping[str, str]) -> dict[str, str]:
    """What of the shell's environment belongs to the launch keys, because every server inherits it."""
    return {name: value for name, value in sorted(environment.items()) if AMBIENT.fullmatch(name)}


def server_environment(inherited: dict[str, str], *declared: dict[str, str]) -> dict[str, str]:
    """``inherited`` without the controller's own variables, overlaid by ``declared`` in order."""
    environment = {name: value for name, value in inherited.items() if not CONTROLLER_ONLY.match(name)}
    environment |= MEASURED_ALIKE
    for layer in declared:
        environment |= layer
    return environment
