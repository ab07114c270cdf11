"""Operating system, processor, memory, limits, container or virtual machine."""

import re
from typing import Any

from sglang_sweep.host.sources import Readings, Unreadable

LSCPU = ("lscpu",)
CPUFREQ = "/sys/devices/system/cpu/cpufreq"
MIB = 1024**2


def read_system(readings: Readings) -> dict[str, Any]:
    """OS, kernel, architecture, host name, kernel arguments that concern PCIe, memory or power."""
    text = readings.sources.read_text
    return {
        "hostname": readings.take("hostname", lambda: text("/proc/sys/kernel/hostname").strip()),
        "os": readings.take("os", lambda: _os_name(text("/etc/os-release"))),
        "kernel": readings.take("kernel", lambda: text("/proc/sys/kernel/osrelease").strip()),
        "architecture": readings.take("architecture", readings.sources.architecture),
        "kernel_arguments": readings.take(
            "kernel_arguments", lambda: relevant_arguments(text("/proc/cmdline"))
        ),
        "virtual_machine": readings.take("virtual_machine", lambda: _virtual_machine(readings)),
        "container": _container(readings),
    }


def read_cpu(readings: Readings) -> dict[str, Any]:
    """Model, sockets, cores, threads, NUMA nodes, governor. Frequencies in MHz."""
    sources = readings.sources
    table = readings.take("cpu", lambda: _lscpu(sources.run(LSCPU)))
    if table is not None:
        readings.unreadable.pop("cpu", None)
    else:
        table = readings.take("cpu", lambda: _cpuinfo(sources.read_text("/proc/cpuinfo"))) or {}
        if table:
            readings.unreadable["cpu"] += "; model and threads are from /proc/cpuinfo"

    def number(key: str) -> int | None:
        return int(table[key]) if table.get(key, "").isdigit() else None

    sockets, cores_per_socket = number("Socket(s)"), number("Core(s) per socket")
    maximum = table.get("CPU max MHz")
    return {
        "model": readings.take("cpu.model", lambda: table.get("Model name")),
        "sockets": readings.take("cpu.sockets", lambda: sockets),
        "cores": readings.take(
            "cpu.cores", lambda: sockets * cores_per_socket if sockets and cores_per_socket else None
        ),
        "threads": readings.take("cpu.threads", lambda: number("CPU(s)")),
        "numa_nodes": readings.take("cpu.numa_nodes", lambda: _numa_nodes(table)),
        "max_mhz": readings.take("cpu.max_mhz", lambda: round(float(maximum)) if maximum else None),
        "governor": readings.take("cpu.governor", lambda: _policies(readings, "scaling_governor")),
        "scaling_driver": readings.take("cpu.scaling_driver", lambda: _policies(readings, "scaling_driver")),
    }


def read_memory(readings: Readings) -> dict[str, Any]:
    """Main memory in GiB with one decimal; transparent huge pages as the kernel words the active choice."""
    table = readings.take("memory", lambda: _meminfo(readings.sources.read_text("/proc/meminfo"))) or {}
    huge = "/sys/kernel/mm/transparent_hugepage/enabled"
    return {
        "total_gib": readings.take("memory.total_gib", lambda: table.get("MemTotal")),
        "available_gib": readings.take("memory.available_gib", lambda: table.get("MemAvailable")),
        "swap_total_gib": readings.take("memory.swap_total_gib", lambda: table.get("SwapTotal")),
        "transparent_hugepages": readings.take(
            "memory.transparent_hugepages",
            lambda: _first_group(r"\[(\w+)\]", readings.sources.read_text(huge)),
        ),
    }


def read_limits(readings: Readings) -> dict[str, Any]:
    """/dev/shm in MiB, ulimits as the shell counts them, the control group's bounds. null is "unlimited"
    for ulimits and bounds, unless ``unreadable`` says otherwise."""
    sources = readings.sources

    def ulimit(name: str, unit: int = 1) -> int | None:
        try:
            value = sources.limit(f"RLIMIT_{name.upper()}")
        except (Unreadable, OSError, AttributeError) as error:
            readings.missing(f"limits.{name}", str(error))
            return None
        return None if value is None else value // unit

    def bound(path: str, key: str) -> str | None:
        try:
            text = sources.read_text(path).strip()
            if not text:
                readings.missing(key, f"{path} is empty")
        except (Unreadable, OSError):
            return None  # no such controller: nothing bounds us
        return None if text.startswith("max") or not text else text

    shm = readings.take("limits.shm_mib", lambda: sources.disk_usage("/dev/shm"))
    return {
        "shm_mib": shm[0] // MIB if shm else None,
        "shm_free_mib": shm[1] // MIB if shm else None,
        "nofile": ulimit("nofile"),
        "nproc": ulimit("nproc"),
        "memlock_kib": ulimit("memlock", 1024),
        "stack_kib": ulimit("stack", 1024),
        "cgroup_cpu_max": bound("/sys/fs/cgroup/cpu.max", "limits.cgroup_cpu_max"),
        "cgroup_memory_max": bound("/sys/fs/cgroup/memory.max", "limits.cgroup_memory_max"),
    }


def load_average(readings: Readings) -> list[float] | None:
    """Load over 1, 5 and 15 minutes."""
    return readings.take(
        "load_average",
        lambda: [float(word) for word in readings.sources.read_text("/proc/loadavg").split()[:3]],
    )


def cpu_mhz(readings: Readings) -> dict[str, int] | None:
    """Lowest, mean and highest current clock over the processors, MHz."""

    def read() -> dict[str, int] | None:
        text = readings.sources.read_text("/proc/cpuinfo")
        clocks = [float(match) for match in re.findall(r"^cpu MHz\s*:\s*([\d.]+)", text, re.MULTILINE)]
        if not clocks:
            raise Unreadable("/proc/cpuinfo shows no clocks on this processor")
        return {
            "min": round(min(clocks)),
            "mean": round(sum(clocks) / len(clocks)),
            "max": round(max(clocks)),
        }

    return readings.take("cpu_mhz", read)


def _os_name(text: str) -> str:
    fields = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    return fields["PRETTY_NAME"].strip("\"'")


def relevant_arguments(text: str) -> list[str]:
    """Kernel arguments that concern PCIe, IOMMU, memory, idle states or the NVIDIA driver, sorted."""
    words = ("iommu", "acs", "pci", "hugepage", "isolcpus", "nohz", "numa", "nvidia", "idle", "pstate", "uvm")
    return sorted(argument for argument in text.split() if any(word in argument.lower() for word in words))


def _virtual_machine(readings: Readings) -> str:
    """The hypervisor's vendor, or ``none`` on bare metal."""
    try:
        return _lscpu(readings.sources.run(LSCPU)).get("Hypervisor vendor", "none").lower()
    except (Unreadable, OSError) as error:
        flags = _first_group(r"^flags\s*:(.*)$", readings.sources.read_text("/proc/cpuinfo"))
        if " hypervisor" in flags:
            return "unknown hypervisor"
        raise Unreadable(f"{error}; the processor's flags name no hypervisor") from error


def _container(readings: Readings) -> str:
    """The kind of container we run in, or ``none`` where no mark of one is seen."""
    environment = readings.sources.environment()
    if "APPTAINER_CONTAINER" in environment or "SINGULARITY_CONTAINER" in environment:
        return "apptainer"
    if "KUBERNETES_SERVICE_HOST" in environment:
        return "kubernetes"
    for path, kind in (("/.dockerenv", "docker"), ("/run/.containerenv", "podman")):
        try:
            readings.sources.read_bytes(path)
        except (Unreadable, OSError):
            continue
        return kind
    return environment.get("container", "none")


def _lscpu(answer: tuple[int, str]) -> dict[str, str]:
    code, text = answer
    table = {
        key.strip(): value.strip() for key, _, value in (line.partition(":") for line in text.splitlines())
    }
    if code != 0 or "CPU(s)" not in table:
        raise Unreadable(f"lscpu: exit code {code}, no processors listed")
    return table


def _cpuinfo(text: str) -> dict[str, str]:
    models = re.findall(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    threads = len(re.findall(r"^processor\s*:", text, re.MULTILINE))
    if not threads:
        raise Unreadable("/proc/cpuinfo lists no processors")
    return {"CPU(s)": str(threads)} | ({"Model name": models[0]} if models else {})


def _numa_nodes(table: dict[str, str]) -> list[dict[str, Any]] | None:
    nodes = [
        {"node": int(match[1]), "cpus": value}
        for key, value in table.items()
        if (match := re.fullmatch(r"NUMA node(\d+) CPU\(s\)", key))
    ]
    return nodes or None


def _policies(readings: Readings, name: str) -> str:
    """One word for all processors, or each with its count where they differ."""
    sources = readings.sources
    policies = [entry for entry in sources.list_folder(CPUFREQ) if entry.startswith("policy")]
    words = [sources.read_text(f"{CPUFREQ}/{policy}/{name}").strip() for policy in policies]
    if not words:
        raise Unreadable("the kernel scales no processor clocks here (usual in a virtual machine)")
    kinds = sorted(set(words))
    return kinds[0] if len(kinds) == 1 else ", ".join(f"{kind} on {words.count(kind)}" for kind in kinds)


def _meminfo(text: str) -> dict[str, float]:
    """Fields in GiB (the file's "kB" are KiB)."""
    rows = re.findall(r"^(\w+):\s+(\d+) kB$", text, re.MULTILINE)
    return {name: round(int(kib) / 1024**2, 1) for name, kib in rows}


def _first_group(pattern: str, text: str) -> str:
    match = re.search(pattern, text, re.MULTILINE)
    if match is None:
        raise Unreadable(f"nothing like {pattern!r} in it")
    return match[1]
