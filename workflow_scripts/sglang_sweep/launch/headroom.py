"""What a launch needs of the host, asked before it: limits, shared memory, files, space. A host that is short of them
would make variants fail that are sound."""

import os
import re
import resource
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from sglang_sweep.errors import InfrastructureFault
from sglang_sweep.launch.order import LaunchOrder

MIB, GIB = 1 << 20, 1 << 30

FILES = 1024
"""Descriptors of server and client without any request; each request in flight takes two more of each."""

ADDRESS_SPACE = {"cpu": 64 * GIB, "gpu": 4096 * GIB}
"""``ulimit -v``, bytes: a server on a processor maps some 20 GiB; CUDA reserves room for all memory."""

SHARED_MEMORY = 16 * MIB
"""Free in /dev/shm, bytes, with one rank; several exchange tensors there, NCCL some 32 MiB a rank."""

DISK = GIB
"""Free where results lie: log and samples of a launch take some 10 MB, a log that floods is ended before."""

SCRATCH = 256 * MIB

FILE_SIZE = GIB

INODES = 1000

PROCESSES = 1024


def check(launch: LaunchOrder, folder: Path) -> None:
    """Raises InfrastructureFault naming everything this host is short of, with the figure needed."""
    if short := list(shortages(launch, folder)):
        raise InfrastructureFault(
            f"this host cannot run {launch.variant} as it is: {'; '.join(short)}",
            remedy="raise what is named (ulimit, docker --shm-size, free some space), then run again",
        )


def shortages(launch: LaunchOrder, folder: Path) -> Iterator[str]:
    """What the host is short of now, one sentence each."""
    ranks = max(1, len(launch.gpus))
    requests = max((workload.concurrency or 0 for workload in launch.workloads), default=0)
    on = "gpu" if launch.gpus else "cpu"
    for name, key, need, unit in (
        ("open files (ulimit -n)", resource.RLIMIT_NOFILE, FILES + 4 * requests, 1),
        ("address space (ulimit -v)", resource.RLIMIT_AS, ADDRESS_SPACE[on], GIB),
        ("size of a file (ulimit -f)", resource.RLIMIT_FSIZE, FILE_SIZE, MIB),
        ("processes (ulimit -u)", resource.RLIMIT_NPROC, 0 if os.geteuid() == 0 else PROCESSES, 1),
    ):
        # SGLang raises its soft limit of files to the hard one.
        limit = resource.getrlimit(key)[1 if key == resource.RLIMIT_NOFILE else 0]
        if limit != resource.RLIM_INFINITY and limit < need:
            yield f"the limit of {name} is {_in(limit, unit)}, {_in(need, unit)} are needed"
    yield from _space("/dev/shm", SHARED_MEMORY if ranks == 1 else 2 * SHARED_MEMORY * ranks)
    yield from _space(folder, DISK)
    yield from _space(tempfile.gettempdir(), SCRATCH)


def _space(folder: Path | str, need: int) -> Iterator[str]:
    with suppress(OSError):
        free = shutil.disk_usage(folder).free
        files = os.statvfs(folder)
        if free < need:
            yield f"{folder} has {_in(free, MIB)} free, {_in(need, MIB)} are needed"
        elif files.f_files and files.f_favail < INODES:
            yield f"{folder} has room for {files.f_favail} more files, {INODES} are needed"


def _in(number: int, unit: int) -> str:
    names = {1: "", MIB: " MiB", GIB: " GiB"}
    return f"{number / unit:.1f}{names[unit]}".replace(".0", "")


def exhausted(folder: Path, launch: LaunchOrder, reason: str) -> str | None:
    """Why a failed launch, with the first exception ``reason``, is the host's fault; None where nothing says so.

    A shortage that is there now explains any failure; else the exception itself must name one of these resources.
    """
    if short := list(shortages(launch, folder)):
        return f"the host is short: {'; '.join(short)}"
    if match := re.search(r"Too many open files|No space left|Disk quota|Errno (23|24|28|122)\b", reason):
        return f"the host ran short while it ran ({match[0]})"
    return None


def out_of_memory_kills() -> int | None:
    """Processes that this kernel has killed for want of memory, in this cgroup where it can be asked, so far."""
    for group in _groups():
        for name in ("memory.events", "memory.oom_control"):
            with suppress(OSError):
                if found := re.search(r"^oom_kill (\d+)$", (group / name).read_text(), re.M):
                    return int(found[1])
    with suppress(OSError):
        if found := re.search(r"^oom_kill (\d+)$", Path("/proc/vmstat").read_text(), re.M):
            return int(found[1])
    return None


def _groups() -> Iterator[Path]:
    with suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers or "memory" in controllers.split(","):
                for root in ("/sys/fs/cgroup/memory", "/sys/fs/cgroup", "/sys/fs/cgroup/unified"):
                    yield Path(root + path)
