"""The trace files which a profiled server leaves: whose they are, from their names."""

from dataclasses import dataclass
from pathlib import Path

from sglang_sweep.traces.reader import FILE_NAME


@dataclass(frozen=True)
class TraceFile:
    """One trace: its tensor-parallel rank, and the stage (prefill or decode; None where the name tells none)."""

    path: Path
    rank: int
    stage: str | None


def trace_files(folder: Path, profile_id: str | None = None) -> list[TraceFile]:
    """The traces in ``folder``, of one profile if ``profile_id`` is given, by stage and rank."""
    found = []
    for path in sorted(folder.glob("*.trace.json.gz")):
        name = FILE_NAME.search(path.name)
        if name and (profile_id is None or profile_id in path.name):
            found.append(TraceFile(path, int(name["rank"]), _stage(name["stage"])))
    return sorted(found, key=lambda file: (file.stage or "", file.rank, file.path.name))


def _stage(text: str | None) -> str | None:
    # by forward mode, or -prefill and -decode under SGLANG_PROFILE_V2
    return {"EXTEND": "prefill", "DECODE": "decode"}.get(text, text.lower()) if text else None
