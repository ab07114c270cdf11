"""Honours ``SGLANG_CPU_OMP_THREADS_BIND`` where SGLang only reads it.

SGLang parses the variable on every CPU but applies it with a function of its compiled CPU kernels, so on a
plain CPU the threads float. Here the rank's threads are bound with the scheduler of the operating system.
Format, as SGLang documents it: one group of cores a rank, groups separated by ``|``, a group being a list of
cores and ranges: ``0-15|16-31`` or ``0,2,4``. ``all`` or unset leaves the threads where they are.
"""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from functools import cache
from pathlib import Path

import torch

VARIABLE = "SGLANG_CPU_OMP_THREADS_BIND"

logger = logging.getLogger(__name__)


def parse_cores(group: str) -> set[int]:
    """Cores of one group, ``"0-2,5"`` -> ``{0, 1, 2, 5}``. Raises ValueError when it is not a core list."""
    cores: set[int] = set()
    for part in group.split(","):
        first, dash, last = part.strip().partition("-")
        cores.update(range(int(first), int(last) + 1) if dash else [int(first)])
    return cores


def cores_of_rank(binding: str, rank: int) -> set[int] | None:
    """Cores of a rank, or None when nothing is asked (``all``, empty). Raises ValueError when unusable."""
    if binding in ("", "all"):
        return None
    groups = binding.split("|")
    if rank >= len(groups):
        raise ValueError(
            f"{VARIABLE}={binding!r} names {len(groups)} group(s) of cores, rank {rank} has none: "
            "give one group a rank, separated by '|'"
        )
    try:
        cores = parse_cores(groups[rank])
    except ValueError:
        raise ValueError(
            f"{VARIABLE}={binding!r}: group {groups[rank]!r} is not a list of cores like 0-3,6"
        ) from None
    if not cores:
        raise ValueError(f"{VARIABLE}={binding!r}: group {groups[rank]!r} is empty")
    return cores


@cache  # asked once for every process group of the rank
def bind_rank(rank: int) -> None:
    """Bind every thread of this process to the rank's cores, and torch's pool to as many threads.

    OpenMP threads that exist keep their own affinity, hence the walk over all of them; later ones inherit.
    """
    cores = cores_of_rank(os.environ.get(VARIABLE, ""), rank)
    if cores is None or not hasattr(os, "sched_setaffinity"):
        return
    for task in Path("/proc/self/task").iterdir():
        with suppress(ProcessLookupError):  # a thread may end while we walk
            os.sched_setaffinity(int(task.name), cores)
    torch.set_num_threads(len(cores))
    logger.info("sglang-cpu-platform: rank %d bound to cores %s", rank, sorted(cores))


def define_missing_kernel_ops() -> None:
    """Define the two ops SGLang calls on every Arm CPU, unless the real sgl_kernel brought them.

    ``init_cpu_threads_env`` is done by `bind_rank`; ``initialize`` prepares a shared-memory all-reduce that
    only those kernels would use (tensor parallelism here goes through gloo).
    """
    if hasattr(torch.ops.sgl_kernel, "init_cpu_threads_env"):
        return
    library = torch.library.Library("sgl_kernel", "FRAGMENT")
    library.define("init_cpu_threads_env(str cores) -> ()")
    library.define("initialize(int size, int rank) -> ()")
    library.impl("init_cpu_threads_env", lambda cores: None, "CompositeExplicitAutograd")
    library.impl("initialize", lambda size, rank: None, "CompositeExplicitAutograd")
    _libraries.append(library)  # the ops live as long as this object


_libraries: list[torch.library.Library] = []
