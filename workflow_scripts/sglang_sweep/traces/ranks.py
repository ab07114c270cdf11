"""The traces of one profile, one or more per rank: checked to belong together before anything is compared."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sglang_sweep.errors import UserError
from sglang_sweep.traces.kernels import Knowledge
from sglang_sweep.traces.reader import read_trace
from sglang_sweep.traces.trace import Trace
from sglang_sweep.traces.work import Work, joined, work_of

# clocks of several hosts, or of profilers that started one after the other, differ by less than this
_CLOCK_SLACK_US = 5e6


@dataclass(frozen=True)
class Ranks:
    """The work of each rank, in order of rank, cut to the steps all ranks have."""

    numbers: list[int]
    works: list[Work]
    common_steps: int
    world_size: int | None
    source: str
    stages: list[str]
    devices: list[str]
    python_stacks: bool
    notes: list[str]


def load_ranks(paths: Sequence[str | Path], knowledge: Knowledge) -> Ranks:
    """Reads the traces of one profile. Raises UserError when they are not of one profile, or not SGLang's."""
    if not paths:
        raise UserError("no trace was given", remedy="name one trace file per rank")
    by_rank: dict[int, list[tuple[Trace, Work]]] = {}
    for number, path in enumerate(dict.fromkeys(Path(path) for path in paths)):
        trace = read_trace(path)
        work = work_of(trace, knowledge)
        _forget(trace)
        rank = trace.rank if trace.rank is not None else number
        for other, _ in by_rank.get(rank, []):
            if other.stage == trace.stage:
                raise UserError(
                    f"two traces of rank {rank}: {other.path} and {path}",
                    file=path,
                    remedy="give one trace per rank (and stage) of one profile",
                )
        by_rank.setdefault(rank, []).append((trace, work))
    numbers = sorted(by_rank)
    traces = [[trace for trace, _ in by_rank[rank]] for rank in numbers]
    works = [joined([work for _, work in by_rank[rank]]) for rank in numbers]
    _require_one_profile(traces)
    every = [trace for own in traces for trace in own]
    notes = [trace.truncated for trace in every if trace.truncated]
    if len({work.exclusive is None for work in works}) > 1:
        raise UserError(
            "some of these traces hold GPU kernels and some do not",
            file=next(trace.path for trace in every if not len(trace.kernels)),
            remedy="profile all ranks with the same activities",
        )
    common = _common_steps(numbers, works, traces, notes)
    world = next((trace.world_size for trace in every if trace.world_size), None)
    if world and world > len(numbers) > 1:
        notes.append(
            f"{len(numbers)} of {world} ranks: the minimum over ranks is over these only, so a rank that is "
            "missing here and came late still counts as cost"
        )
    return Ranks(
        numbers=numbers,
        works=works,
        common_steps=common,
        world_size=world,
        source="cpu" if works[0].exclusive is not None else "gpu",
        stages=sorted({trace.stage for trace in every if trace.stage}),
        devices=sorted({device for trace in every for device in trace.devices}),
        python_stacks=any(trace.python_stacks for trace in every),
        notes=notes,
    )


def _forget(trace: Trace) -> None:
    """Drops what is no longer needed, so that eight ranks are not all held twice."""
    trace.annotations, trace.gpu_annotations, trace.python_spans = [], [], []


def _require_one_profile(traces: list[list[Trace]]) -> None:
    first = traces[0][0]
    for own in traces:
        for trace in own:
            ids = {trace.profile_id, first.profile_id}
            if None not in ids and len(ids) > 1:
                raise UserError(
                    f"of another profile ({trace.profile_id}) than {first.path} ({first.profile_id})",
                    file=trace.path,
                    remedy="give the traces of one /start_profile call",
                )
            if None not in (trace.world_size, first.world_size) and trace.world_size != first.world_size:
                raise UserError(
                    f"of a run with {trace.world_size} ranks, {first.path} of one with {first.world_size}",
                    file=trace.path,
                    remedy="give the traces of one /start_profile call",
                )
    for own in traces[1:]:
        ours, theirs = _window(traces[0]), _window(own)
        if ours[0] > theirs[1] + _CLOCK_SLACK_US or theirs[0] > ours[1] + _CLOCK_SLACK_US:
            apart = max(ours[0] - theirs[1], theirs[0] - ours[1]) / 1e6
            raise UserError(
                f"recorded {apart:.0f} s apart from {first.path}: not the same profile",
                file=own[0].path,
                remedy="give the traces of one /start_profile call",
            )


def _window(traces: list[Trace]) -> tuple[float, float]:
    """First and last event of a rank, in us of Unix time where the trace gives its base."""
    begins, ends = [], []
    for trace in traces:
        columns = trace.kernels if len(trace.kernels) else trace.ops
        if len(columns):
            begins.append(trace.base_ns / 1e3 + float(columns.start.min()))
            ends.append(trace.base_ns / 1e3 + float(columns.end.max()))
    return (min(begins), max(ends)) if begins else (float("-inf"), float("inf"))


def _common_steps(numbers: list[int], works: list[Work], traces: list[list[Trace]], notes: list[str]) -> int:
    kinds = [[step.kind for step in work.steps] for work in works]
    common = min(len(own) for own in kinds)
    for rank, own, files in zip(numbers, kinds, traces, strict=True):
        for step in range(common):
            # under attention data parallelism a rank without requests idles through the others' step
            if own[step] != kinds[0][step] and "IDLE" not in (own[step], kinds[0][step]):
                raise UserError(
                    f"step {step + 1} is {works[numbers.index(rank)].steps[step].annotation} on rank {rank} "
                    f"but {works[0].steps[step].annotation} on rank {numbers[0]}: not the same steps",
                    file=files[0].path,
                    remedy="give the traces of one /start_profile call, one per rank",
                )
    batches = [[step.batch_size for step in work.steps[:common]] for work in works]
    if any(own != batches[0] for own in batches):
        notes.append(
            "the ranks held batches of different size (attention data parallelism); kinds are named after the "
            "first rank's"
        )
    if any(len(own) != common for own in kinds):
        counts = ", ".join(f"rank {rank}: {len(own)}" for rank, own in zip(numbers, kinds, strict=True))
        notes.append(f"the ranks recorded different numbers of steps ({counts}); the first {common} are used")
    return common
