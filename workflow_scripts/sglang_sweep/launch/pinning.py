"""Server and load client on different processors, when the model runs on the same ones.

Measured on two cores: with the client free to run on the server's core, throughput varied by 60 %; with
both pinned apart, by 1 %.
"""

import os
from contextlib import suppress

import psutil


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
