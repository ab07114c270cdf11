"""Cuts a rank's trace into steps (verify, draft, decode ...) and says which kernels belong to each.

The GPU runs behind the host: a kernel's own time says nothing about who launched it. Kernels are therefore
given to a step by the correlation id of the call that launched them (for a CUDA graph, of its one
cudaGraphLaunch), and that call by its place inside the host's annotation. Only where a trace holds no
launches is the profiler's ``gpu_user_annotation`` used instead.
"""

import re
from dataclasses import dataclass

import numpy as np

from sglang_sweep.errors import UserError
from sglang_sweep.traces.kernels import Knowledge, Rule
from sglang_sweep.traces.trace import Annotation, Trace

PREFILL = ("EXTEND", "MIXED", "SPLIT_PREFILL", "PREFILL")
OUTSIDE = -1

_BATCH = re.compile(r"\bbs=(\d+)")
_TOKENS = re.compile(r"\btoks=(\d+)")


@dataclass(frozen=True)
class Step:
    """One phase of one iteration on one rank; host times in us."""

    kind: str
    annotation: str
    start: float
    end: float
    lane: int
    batch_size: int | None = None
    tokens: int | None = None


@dataclass(frozen=True)
class Attribution:
    """``steps`` in time order; for each kernel (or operator) the step it belongs to, or OUTSIDE."""

    steps: list[Step]
    owner: np.ndarray
    how: str


def attribute(trace: Trace, knowledge: Knowledge) -> Attribution:
    """Steps of ``trace`` and the owner of every kernel, or of every operator where there are no kernels.

    Raises UserError for a trace in which nothing says it is SGLang's.
    """
    on_host = _steps(trace.annotations, knowledge.phases, "annotation")
    if not on_host:
        on_host = _steps(trace.python_spans, knowledge.phases, "python")
    if not len(trace.kernels):
        cut_before_kernels = trace.truncated is not None and trace.devices
        if not on_host or not len(trace.ops) or cut_before_kernels:
            raise _no_steps(trace)
        return Attribution(on_host, _owner_by_time(on_host, trace.ops.start, trace.ops.lane), "host time")
    if on_host and len(trace.launches):
        return Attribution(on_host, _owner_by_launch(trace, on_host), "launch correlation")
    on_gpu = _steps(trace.gpu_annotations, knowledge.phases, "annotation")
    if on_gpu:
        owner = _owner_by_time(
            on_gpu, trace.kernels.start, np.zeros(len(trace.kernels), dtype=np.int64), False
        )
        return Attribution(on_gpu, owner, "GPU annotation")
    if trace.sglang and (graphs := _graph_launches(trace)):
        return Attribution(graphs, _owner_by_launch(trace, graphs), "CUDA graph")
    raise _no_steps(trace)


def _no_steps(trace: Trace) -> UserError:
    if trace.truncated:
        return UserError(
            f"no step can be broken down: {trace.truncated}",
            file=trace.path,
            remedy="copy or record it again",
        )
    if any(span.name.startswith(("step[", "draft")) for span in trace.annotations):
        return UserError(
            "has steps, but neither GPU kernels nor operators",
            file=trace.path,
            remedy='profile with activities ["CPU", "GPU"], or ["CPU"] on a host without a GPU',
        )
    if trace.sglang or any(span.name.startswith("scheduler.") for span in trace.annotations):
        return UserError(
            "an SGLang trace without a single step: the server was idle while it was profiled",
            file=trace.path,
            remedy="send requests while the profiler runs",
        )
    return UserError(
        "not a trace of an SGLang server: no step[...], draft or draft_extend annotation in "
        f"{trace.events} events",
        file=trace.path,
        remedy="profile through /start_profile with the CPU activity on: the annotations are the host's",
    )


def _steps(spans: list[Annotation], rules: list[Rule], origin: str) -> list[Step]:
    """The outermost phases, per thread, in time order."""
    marked = []
    for span in spans:
        for rule in rules:
            if rule.entry.get("from", "annotation") == origin and (found := rule.pattern.search(span.name)):
                marked.append((span, rule.entry["kind"].format(**found.groupdict()).strip()))
                break
    marked.sort(key=lambda pair: (pair[0].lane, pair[0].start, -pair[0].duration))
    steps: list[Step] = []
    for span, kind in marked:
        if steps and steps[-1].lane == span.lane and span.start < steps[-1].end:
            continue  # inside another: step[EXTEND] within draft_extend is the draft's
        kind = kind if kind in ("draft", "draft_extend") else kind.upper()
        if kind == "draft_extend" and steps and steps[-1].lane == span.lane and _of_prefill(steps[-1]):
            kind = "draft_extend after prefill"  # whole prompt, often eager: not the one of a decode cycle
        batch, tokens = _BATCH.search(span.name), _TOKENS.search(span.name)
        steps.append(
            Step(
                kind,
                span.name,
                span.start,
                span.end,
                span.lane,
                int(batch[1]) if batch else None,
                int(tokens[1]) if tokens else None,
            )
        )
    return sorted(steps, key=lambda step: step.start)


def _of_prefill(step: Step) -> bool:
    return step.kind in PREFILL


def _graph_launches(trace: Trace) -> list[Step]:
    """Steps of a trace without annotations (SGLang before 0.5.16, no stacks): one per CUDA graph launch."""
    names, launches = trace.names, trace.launches
    sizes = dict(zip(*np.unique(trace.kernels.correlation, return_counts=True), strict=True))
    found = []
    for position, name in enumerate(launches.name):
        if "GraphLaunch" not in names[name]:
            continue
        start, count = float(launches.start[position]), sizes.get(launches.correlation[position], 0)
        kind = f"CUDA graph of {count} kernels"
        end = start + float(launches.duration[position])
        found.append(Step(kind, names[name], start, end, int(launches.lane[position])))
    return sorted(found, key=lambda step: step.start)


def _owner_by_launch(trace: Trace, steps: list[Step]) -> np.ndarray:
    launches = trace.launches
    order = np.argsort(launches.correlation, kind="stable")
    known = launches.correlation[order]
    wanted = trace.kernels.correlation
    place = np.searchsorted(known, wanted)
    place[place == len(known)] = 0
    found = known[place] == wanted
    launch = order[place]
    owner = _owner_by_time(steps, launches.start[launch], launches.lane[launch])
    owner[~found] = OUTSIDE
    return owner


def _owner_by_time(
    steps: list[Step], start: np.ndarray, lane: np.ndarray, same_lane: bool = True
) -> np.ndarray:
    """The step in which each event starts, on the step's own thread unless ``same_lane`` is false."""
    owner = np.full(len(start), OUTSIDE, dtype=np.int64)
    for thread in sorted({step.lane for step in steps}):
        numbers = np.array([number for number, step in enumerate(steps) if step.lane == thread])
        begins = np.array([steps[number].start for number in numbers])
        ends = np.array([steps[number].end for number in numbers])
        place = np.searchsorted(begins, start, side="right") - 1
        inside = (place >= 0) & (start <= ends[np.maximum(place, 0)])
        if same_lane:
            inside &= lane == thread
        owner[inside & (owner == OUTSIDE)] = numbers[place[inside & (owner == OUTSIDE)]]
    return owner
