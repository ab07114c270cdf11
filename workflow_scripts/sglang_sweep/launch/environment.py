"""What a server gets from us: an environment (ours, minus what the workflow put there, plus what was declared) and
processors, apart from the load client's when the model runs on the same ones.

Measured on two cores: with the client free to run on the server's core, throughput varied by 60 %; with both pinned
apart, by 1 %.
"""

import os
import re
from collections.abc import Mapping
from contextlib import suppress

import psutil

from sglang_sweep.files.redaction import redacted_environment

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
    """What of the shell's environment belongs to the launch keys, because every server inherits it.

    Without secrets, so that the recorded and the present shell compare.
    """
    return redacted_environment(
        {name: value for name, value in environment.items() if AMBIENT.fullmatch(name)}
    )


def server_environment(inherited: dict[str, str], *declared: dict[str, str]) -> dict[str, str]:
    """``inherited`` without the controller's own variables, overlaid by ``declared`` in order."""
    environment = {name: value for name, value in inherited.items() if not CONTROLLER_ONLY.match(name)}
    environment |= MEASURED_ALIKE
    for layer in declared:
        environment |= layer
    return unproxied(environment)


def unproxied(environment: dict[str, str]) -> dict[str, str]:
    """The environment in which requests to this host go to this host: server and load client ask it over HTTP."""
    for name in ("no_proxy", "NO_PROXY"):
        kept = [part for part in environment.get(name, "").split(",") if part]
        environment = environment | {name: ",".join(dict.fromkeys([*kept, "127.0.0.1", "localhost"]))}
    return environment


def split_processors(available: set[int]) -> tuple[set[int], set[int]]:
    """(server's, client's): the last processor goes to the client, unless there is only one."""
    ordered = sorted(available)
    if len(ordered) < 2:
        return set(ordered), set(ordered)
    return set(ordered[:-1]), set(ordered[-1:])


def thread_binding(available: set[int]) -> dict[str, str]:
    """SGLang's own variable for the same split: its rank's threads stay on the server's processors.

    Without it the server starts one OpenMP thread a processor, which then fight over the ones it is pinned to.
    A variant that declares the variable keeps its own.
    """
    return {"SGLANG_CPU_OMP_THREADS_BIND": ",".join(map(str, sorted(split_processors(available)[0])))}


def pin(processes: list[psutil.Process], processors: set[int]) -> None:
    """Moves every thread of the processes; threads born later inherit it."""
    for process in processes:
        with suppress(psutil.Error, OSError):
            for thread in process.threads():
                with suppress(OSError):
                    os.sched_setaffinity(thread.id, processors)
