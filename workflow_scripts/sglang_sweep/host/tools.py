"""Compilers, system libraries, disks and environment variables that a server inherits from the host."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from sglang_sweep.files.redaction import redacted
from sglang_sweep.host.sources import Readings, Sources, Unreadable
from sglang_sweep.host.topology import first_line

GIB = 1024**3
COMPILERS = ("gcc", "g++", "ninja", "cmake")
LDCONFIG = ("ldconfig", "-p")
LIBRARIES = (
    "libcuda.so.1",
    "libnvidia-ml.so.1",
    "libnccl.so.2",
    "libcudart.so",
    "libnuma.so.1",
    "libibverbs.so.1",
)

RELEVANT = re.compile(
    r"(CUDA|NCCL|SGLANG|SGL|FLASHINFER|TORCH|TORCHINDUCTOR|PYTORCH|TRITON|HF|HUGGINGFACE|NVIDIA(?!_REQUIRE)|OMP|MKL|KMP|GOMP"
    r"|GLOO|UCX|NVSHMEM|TVM|DG|VLLM)_.*|LD_LIBRARY_PATH|LD_PRELOAD|CPLUS_INCLUDE_PATH|CPATH|MALLOC_CONF"
)


def commands(sources: Sources) -> list[tuple[str, ...]]:
    """What :func:`read_tools` and :func:`read_libraries` will run, to be started early."""
    nvcc = find_nvcc(sources)
    return [*((tool, "--version") for tool in (*COMPILERS, *([nvcc] if nvcc else []))), LDCONFIG]


def find_nvcc(sources: Sources) -> str | None:
    """Where JIT compilers look: $CUDA_HOME, $CUDA_PATH, PATH, /usr/local/cuda."""
    environment = sources.environment()
    homes = [environment[name] for name in ("CUDA_HOME", "CUDA_PATH") if environment.get(name)]
    for candidate in (*(f"{home}/bin/nvcc" for home in homes), "nvcc", "/usr/local/cuda/bin/nvcc"):
        if found := sources.which(candidate):
            return found
    return None


def read_tools(readings: Readings) -> dict[str, Any]:
    """``nvcc`` with path and version; each other compiler as the first line of its ``--version``."""
    sources = readings.sources

    def version(program: str) -> str:
        code, text = sources.run((program, "--version"))
        if code != 0:
            raise Unreadable(f"{program} --version: exit code {code}")
        return text

    def nvcc() -> dict[str, str]:
        path = find_nvcc(sources)
        if path is None:
            raise Unreadable("nvcc: neither in $CUDA_HOME, PATH, nor /usr/local/cuda")
        match = re.search(r"release [\d.]+, V([\d.]+)", version(path))
        if match is None:
            raise Unreadable(f"{path} --version names no release")
        return {"path": path, "version": match[1]}

    found: dict[str, Any] = {"nvcc": readings.take("tools.nvcc", nvcc)}
    for program in COMPILERS:
        found[program] = readings.take(f"tools.{program}", lambda p=program: first_line(version(p)))  # type: ignore[misc]
    return found


def read_libraries(readings: Readings) -> dict[str, Any]:
    """System libraries as the dynamic loader knows them: name to real file, null where it is not installed.

    What a stack brings along is in its own stack.json.
    """

    def loader_cache() -> dict[str, str]:
        code, text = readings.sources.run(LDCONFIG)
        if code != 0:
            raise Unreadable(f"ldconfig -p: exit code {code}")
        found = re.findall(r"^\s*(\S+) \([^)]*\) => (\S+)$", text, re.MULTILINE)
        return dict(reversed(found))  # the loader takes the first of two files of one name

    cache = readings.take("libraries", loader_cache)
    found: dict[str, Any] = {}
    for library in LIBRARIES:
        path = (
            None
            if cache is None
            else next((p for name, p in cache.items() if name.startswith(library)), None)
        )
        if path is None:
            found[library] = None
            reason = "the loader's cache cannot be read" if cache is None else "not in the loader's cache"
            readings.missing(f"libraries.{library}", reason)
        else:
            found[library] = readings.take(f"libraries.{library}", lambda p=path: readings.sources.resolve(p))  # type: ignore[misc]
    return found


def read_disks(readings: Readings, folders: Iterable[str]) -> list[dict[str, Any]]:
    """Room in each folder's file system, GiB with one decimal."""
    rows = []
    for number, folder in enumerate(folders):
        usage = readings.take(f"disks.{number}", lambda f=folder: readings.sources.disk_usage(f))  # type: ignore[misc]
        total, free = (round(value / GIB, 1) for value in usage) if usage else (None, None)
        rows.append({"folder": folder, "total_gib": total, "free_gib": free})
    return rows


def relevant_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Variables that reach CUDA, NCCL, SGLang and their libraries; secrets redacted.

    ``NVIDIA_REQUIRE_*`` is left out: kilobytes of conditions for the container runtime.
    """
    return {
        name: redacted(name, value) for name, value in sorted(environment.items()) if RELEVANT.fullmatch(name)
    }
