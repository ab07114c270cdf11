"""A measured launch from clean room to proven-gone, recorded whatever happens."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from sglang_sweep.campaign.keys import MEASURING_VERSION
from sglang_sweep.errors import InfrastructureFault, UserError
from sglang_sweep.evidence.arm import first_cause
from sglang_sweep.evidence.cause import classify_stall
from sglang_sweep.files import records as record
from sglang_sweep.files.launches import LaunchRecord, ProfileRecord, sealed
from sglang_sweep.host.sample import quick_sample, sample_clocks
from sglang_sweep.launch import headroom, ownership
from sglang_sweep.launch.order import Instruments, LaunchOrder
from sglang_sweep.launch.run import Run


def _cause(log: Path, sglang_version: str | None, exit_code: int | None) -> tuple[str, str | None]:
    cause, reason, _ = first_cause(log, sglang_version, exit_code)
    return cause, reason


INSTRUMENTS = Instruments(
    cause_of=_cause, stall_verdict=classify_stall, sample_host=quick_sample, sample_clocks=sample_clocks
)
"""What measuring borrows from the evidence and host parts of the library."""


def measure(
    launch: LaunchOrder, output: Path, instruments: Instruments = INSTRUMENTS, say: ownership.Say = print
) -> dict[str, Any]:
    """Makes the launch and writes ``output`` (launch.json), with logs and raw data in ``attempt-<k>/`` beside it.

    A variant that fails is a result. Raises InfrastructureFault when nothing may be concluded, Interrupted
    when told to stop; in every case no process of ours is left.
    """
    run = own(launch, output.parent, instruments, Run.measure_windows, say)
    return keep(run, run.result(), output)


def _whole(result: dict[str, Any], file: Path) -> dict[str, Any]:
    """Sealed. A record of another form than everything downstream expects is our fault, not the variant's."""
    try:
        whole = sealed(result, file.parent)
        (ProfileRecord if "breakdown" in whole else LaunchRecord).of(whole, file)
        return whole
    except UserError as error:
        raise InfrastructureFault(
            f"the record of this launch is malformed: {error}", remedy="report this; its raw data are kept"
        ) from None


def own(
    launch: LaunchOrder,
    parent: Path,
    instruments: Instruments,
    work: Callable[[Run], None],
    say: ownership.Say = print,
) -> Run:
    """The launch with ``work`` done on its server, everything ended again. ``say`` is told what a person must know."""
    with (
        ownership.interruptible(),
        ownership.exclusive(launch.limits.busy_wait_s, launch.campaign, launch.gpus, say) as lease,
    ):
        orphans = ownership.end_orphans()
        if orphans.ended:
            say(f"ended, left by a run that was killed: {', '.join(orphans.ended)}")
        if orphans.left_alone:
            say(f"left alone: {'; '.join(orphans.left_alone)}")
        parent.mkdir(parents=True, exist_ok=True)
        headroom.check(launch, parent)
        run = Run(launch, _new_attempt(parent), instruments, lease, say)
        run.note_clean_room("before", orphans)
        try:
            run.go(lambda: work(run))
        finally:
            run.close()
    return run


def keep(run: Run, result: dict[str, Any], output: Path) -> dict[str, Any]:
    """Writes the record, unless something of ours is still alive."""
    record.write_json(run.folder / output.name, result)
    result = _whole(result, output)
    left = result["clean_room"]["after"]
    if left["processes"] or left["ports"]:
        raise InfrastructureFault(
            f"the server of {run.launch.variant} could not be ended: {left}",
            remedy="end these processes by hand (a driver in D state may need a reboot), then run again",
        )
    record.write_json(output, result)
    return result


def _new_attempt(folder: Path) -> Path:
    """Attempts are numbered and kept: a rerun overwrites nothing."""
    number = 1 + max((int(p.name.removeprefix("attempt-")) for p in folder.glob("attempt-*")), default=0)
    attempt = folder / f"attempt-{number}"
    attempt.mkdir(parents=True)
    return attempt


def not_run(launch: dict[str, Any], output: Path, reason: str) -> dict[str, Any]:
    """Records that a launch was not made because its verdict was settled before; ``launch`` holds its identity."""
    moment = record.now()
    result = {
        "schema_version": 1,
        "measuring_version": MEASURING_VERSION,
        **launch,
        "started_at": moment,
        "finished_at": moment,
        "outcome": "not_run",
        "cause": None,
        "reason": reason,
        "probe": [],
        "windows": [],
    }
    result = _whole(result, output)
    record.write_json(output, result)
    return result
