"""What a launch left behind, read once: log, resolved configuration, metrics, kernel names, per-request meta."""

import gzip
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from sglang_sweep.errors import UserError
from sglang_sweep.evidence.conditions import holds, lookup
from sglang_sweep.evidence.knowledge import Knowledge
from sglang_sweep.evidence.log import Batches, Line, LogScan
from sglang_sweep.evidence.scanner import scan
from sglang_sweep.files.launches import read_launch

PUBLISHED_KERNELS = "kernels.txt"
"""Beside a published profile.json: the names of the kernels in its traces, which stay behind."""


@dataclass(frozen=True)
class Sample:
    """One line of /metrics."""

    metric: str
    labels: dict[str, str]
    value: float


@dataclass
class Artifacts:
    """The readable remains of one launch; ``label`` says which launch it was. Missing parts are empty."""

    label: str
    log: LogScan | None = None
    server_info: dict[str, Any] = field(default_factory=dict)
    server_info_file: Path | None = None
    metrics: list[Sample] = field(default_factory=list)
    metrics_file: Path | None = None
    kernels: list[str] = field(default_factory=list)
    kernels_file: Path | None = None
    meta: list[dict[str, Any]] = field(default_factory=list)
    meta_file: Path | None = None

    @property
    def resolved(self) -> dict[str, Any]:
        """/server_info, or failing that the arguments printed in the log."""
        return self.server_info or (self.log.arguments if self.log else {})

    @property
    def resolved_file(self) -> Path | None:
        """Where ``resolved`` was read."""
        return self.server_info_file if self.server_info else (self.log.path if self.log else None)

    @property
    def resolved_line(self) -> int | None:
        """The log line of ``resolved`` when it comes from the log."""
        line = None if self.server_info or self.log is None else self.log.arguments_line
        return line.number if line else None


def of_launch(file: Path, knowledge: Knowledge, label: str = "measured launch") -> Artifacts:
    """The artifacts named in a launch.json or profile.json; what is missing or unreadable stays empty."""
    record = read_launch(file)
    files = record.files or {}

    def beside(*names: str) -> Path | None:
        paths = (file.parent / str(files[name]) for name in names if files.get(name))
        return next((path for path in paths if path.exists()), None)

    return from_files(
        label,
        knowledge,
        log=beside("server_log"),
        server_info=beside("server_info_after", "server_info_before", "server_info"),
        metrics=beside("metrics_after", "metrics"),
        kernels=beside("kernels") or next(iter(file.parent.glob(PUBLISHED_KERNELS)), None),
        traces=sorted(file.parent.rglob("*.trace.json*")) if "server_log" in files else [],
        meta=[answer.model_dump(exclude_unset=True) for answer in record.probe],
        meta_file=file,
    )


def from_files(
    label: str,
    knowledge: Knowledge,
    *,
    log: Path | None = None,
    server_info: Path | None = None,
    metrics: Path | None = None,
    kernels: Path | None = None,
    traces: list[Path] | None = None,
    meta: list[dict[str, Any]] | None = None,
    meta_file: Path | None = None,
) -> Artifacts:
    """Artifacts from single files, each optional."""
    found = Artifacts(label, meta=meta or [], meta_file=meta_file)
    if log is not None:
        try:
            found.log = scan(log, knowledge)
        except UserError:
            found.log = None
    if server_info is not None and (document := _json(server_info)):
        found.server_info, found.server_info_file = document, server_info
    if metrics is not None:
        found.metrics, found.metrics_file = list(metrics_of(metrics)), metrics
    if kernels is not None:
        found.kernels, found.kernels_file = _text(kernels).splitlines(), kernels
    elif traces:
        found.kernels, found.kernels_file = kernel_names(traces), traces[0]
    return found


def kernel_names(traces: Sequence[Path]) -> list[str]:
    """Names of the GPU kernels in traces, sorted; an unreadable trace has none."""
    from sglang_sweep.traces.reader import read_trace

    names: set[str] = set()
    for path in traces:
        try:
            trace = read_trace(path)
        except UserError:
            continue
        names |= {trace.names[index] for index in set(trace.kernels.name.tolist())}
    return sorted(names)


def _text(path: Path) -> str:
    raw = path.read_bytes()
    return (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode("utf-8", "replace")


def _json(path: Path) -> dict[str, Any] | None:
    try:
        document = json.loads(_text(path))
    except (OSError, ValueError):
        return None
    return document if isinstance(document, dict) else None


def metrics_of(path: Path) -> Iterator[Sample]:
    """The samples of a saved /metrics answer, without histogram buckets; an unreadable file has none."""
    try:
        for family in text_string_to_metric_families(_text(path)):
            for sample in family.samples:
                if not sample.name.endswith("_bucket"):
                    yield Sample(sample.name, dict(sample.labels), float(sample.value))
    except (OSError, ValueError):
        return


NOTHING_ACCEPTED = 1.05
"""The accept length counts the token every step yields anyway: below this, drafts are hardly ever accepted."""


def counted(log: LogScan | None, resolved: dict[str, Any]) -> dict[str, tuple[Any, Line | None]]:
    """Facts that come from counting over the whole log, and those of single lines, each with a line that shows it."""
    if log is None:
        return {}
    facts: dict[str, tuple[Any, Line | None]] = dict(log.facts)
    batches: Batches = log.batches
    first = batches.first
    if "graph_batch_sizes" in log.facts:
        sizes, line = log.facts["graph_batch_sizes"]
        facts["graph_max_bs"] = (
            max((int(size) for size in sizes.split(",") if size.strip()), default=0),
            line,
        )
    elif any(holds(value, "disabled") for _, value in lookup(resolved, "cuda_graph_config.decode.backend")):
        facts["graph_max_bs"] = ("none", log.arguments_line)
    if batches.share_outside_graph is not None:
        outside = batches.share_outside_graph
        facts["share_outside_graph"] = (outside, first.get("decode_outside_graph"))
        facts["share_inside_graph"] = (1 - outside, first.get("decode_in_graph"))
        facts["share_outside_graph_percent"] = (f"{outside:.0%}", first.get("decode_outside_graph"))
    if batches.decode:
        any_decode = first.get("decode_in_graph") or first.get("decode_outside_graph")
        facts["decode_batches"] = (batches.decode, any_decode)
        facts["decode_outside_graph"] = (batches.outside_graph, first.get("decode_outside_graph"))
        facts["most_running"] = (batches.most_running, any_decode)
    if batches.accept_length is not None:
        nothing = batches.accept_length < NOTHING_ACCEPTED
        facts["accept_length"] = (round(batches.accept_length, 2), first.get("accept_length"))
        facts["accept_comment"] = (
            ": 1.00 means that no draft token is accepted, so speculation only costs" if nothing else "",
            None,
        )
    prompt = batches.prefill_new + batches.prefill_cached
    if prompt:
        facts["prompt_tokens"] = (prompt, first.get("prefill"))
        facts["cached_tokens"] = (batches.prefill_cached, first.get("prefill_cached"))
        facts["cached_share"] = (batches.prefill_cached / prompt, first.get("prefill_cached"))
    if log.collectives:
        facts["collectives"] = (len(log.collectives), next(iter(log.collectives.values())).line)
    return facts
