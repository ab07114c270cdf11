"""What measuring borrows from the evidence and host parts of the library."""

from pathlib import Path

from sglang_sweep.evidence.arm import first_cause
from sglang_sweep.evidence.cause import classify_stall
from sglang_sweep.host.sample import quick_sample, sample_clocks
from sglang_sweep.launch.order import Instruments


def _cause(log: Path, sglang_version: str | None, exit_code: int | None) -> tuple[str, str | None]:
    cause, reason, _ = first_cause(log, sglang_version, exit_code)
    return cause, reason


INSTRUMENTS = Instruments(
    cause_of=_cause, stall_verdict=classify_stall, sample_host=quick_sample, sample_clocks=sample_clocks
)
