"""A profile launch: a launch of its own with the profiler and NCCL's log on, never a measured one."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from sglang_sweep.costs.nccl_tuning import nccl_tuning, nsys_prefix, tuning_environment
from sglang_sweep.errors import UserError
from sglang_sweep.evidence.artifacts import kernel_names
from sglang_sweep.launch.measure import INSTRUMENTS, keep, own
from sglang_sweep.launch.order import Instruments, LaunchOrder
from sglang_sweep.launch.ownership import Say
from sglang_sweep.launch.profile import profile_server
from sglang_sweep.launch.run import Run
from sglang_sweep.launch.workload import warm_up
from sglang_sweep.traces.breakdown import analyze


def profile(
    launch: LaunchOrder,
    output: Path,
    settings: dict[str, Any],
    ranks: int,
    instruments: Instruments = INSTRUMENTS,
    say: Say = print,
) -> dict[str, Any]:
    """Makes the launch and writes ``output`` (profile.json): launch.json's keys, ``profile`` and ``breakdown``.

    ``settings`` are the campaign's ``profile`` keys (steps, size_limit_mb, timeout_s, nccl_log, nsys); ``ranks`` is
    the number of traces to wait for. A server or profiler that fails is recorded, not raised.
    """
    if settings["nccl_log"]:
        loud = tuning_environment(output.parent)
        launch = replace(
            launch,
            environment=launch.environment | loud,
            declared_environment=launch.declared_environment | loud,
        )
    recorder = nsys_prefix(output.parent / "nsys") if settings["nsys"] else []
    launch = replace(launch, command=[*recorder, *launch.command])
    # nsys records between cudaProfilerStart and -Stop, which this activity calls.
    activities = (
        ("CPU",) if launch.share_processors else ("CPU", "GPU", *(["CUDA_PROFILER"] if recorder else []))
    )
    told: dict[str, Any] = {}
    workload = launch.workloads[0]

    def record_steps(run: Run) -> None:
        told.update(
            profile_server(
                run.server.asking,
                run.folder / "traces",
                settings["steps"],
                ("prefill", "decode"),
                lambda: warm_up(
                    run.client,
                    workload,
                    url=run.server.url,
                    model=launch.model,
                    folder=run.folder,
                    timeout_s=launch.limits.window_s,
                ),
                settings["size_limit_mb"],
                settings["timeout_s"],
                ranks=ranks,
                activities=activities,
            )
        )

    run = own(launch, output.parent, instruments, record_steps, say)
    kernels = kernel_names([run.folder / "traces" / trace["file"] for trace in told.get("traces", [])])
    if kernels:  # evidence then needs no trace, which may be large and is not published
        (run.folder / "kernels.txt").write_text("\n".join(kernels) + "\n", encoding="utf-8")
    result = run.result() | {"profile": told, "breakdown": _breakdown(run.folder / "traces", told, launch)}
    tuning = nccl_tuning(output.parent) if settings["nccl_log"] else {}
    return keep(run, result | {"nccl_tuning": {str(size): choice for size, choice in tuning.items()}}, output)


def _breakdown(folder: Path, told: dict[str, Any], launch: LaunchOrder) -> dict[str, Any]:
    """One breakdown a stage; a trace that cannot be read says why."""
    found: dict[str, Any] = {}
    for stage in ("decode", "prefill"):
        files = [folder / trace["file"] for trace in told.get("traces", []) if trace["stage"] == stage]
        if files:
            try:
                found[stage] = analyze(files, launch.stack.get("sglang_version"))
            except UserError as error:
                found[stage] = {"error": str(error)}
    return found
