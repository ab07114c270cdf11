"""One rank's work in a common form, whether GPU kernels or, on a host without a GPU, PyTorch operators."""

from dataclasses import dataclass, field

import numpy as np

from sglang_sweep.traces.kernels import COLLECTIVES, Classifier, Knowledge, Meaning
from sglang_sweep.traces.phases import OUTSIDE, Step, attribute
from sglang_sweep.traces.trace import Annotation, Trace


@dataclass
class Work:
    """Columns over kernels (or operators), us; ``owner`` indexes ``steps``, ``meaning`` indexes ``meanings``.

    ``exclusive`` is None for kernels, whose overlap the union resolves; for operators, which nest, it is the
    time not spent in other operators. ``top`` marks what counts as one kernel of a step, ``head`` what counts as
    one of its class: an operator called by another of the same class does not.
    """

    steps: list[Step]
    start: np.ndarray
    end: np.ndarray
    owner: np.ndarray
    meaning: np.ndarray
    meanings: list[Meaning]
    message: np.ndarray
    top: np.ndarray
    head: np.ndarray
    exclusive: np.ndarray | None
    how: str
    _members: list[np.ndarray] = field(default_factory=list, repr=False)

    def of_class(self, *classes: str) -> np.ndarray:
        """Mask of the events whose class is one of ``classes``."""
        wanted = np.array([meaning.kernel_class in classes for meaning in self.meanings], dtype=bool)
        return wanted[self.meaning] if len(self.meanings) else np.empty(0, dtype=bool)

    def members(self, step: int) -> np.ndarray:
        """Positions of the events of one step, in order of their start."""
        if not self._members:
            order = np.lexsort((self.start, self.owner))
            owners = self.owner[order]
            bounds = np.searchsorted(owners, np.arange(len(self.steps) + 1))
            self._members = [order[bounds[n] : bounds[n + 1]] for n in range(len(self.steps))]
        return self._members[step]


def work_of(trace: Trace, knowledge: Knowledge) -> Work:
    """The work of one trace. Raises UserError when the trace shows no step of an SGLang server."""
    return (_kernels if len(trace.kernels) else _operators)(trace, knowledge)


def joined(parts: list[Work]) -> Work:
    """Several traces of one rank (prefill and decode apart) as one, steps in order of time."""
    if len(parts) == 1:
        return parts[0]
    parts = sorted(parts, key=lambda part: part.steps[0].start)
    steps: list[Step] = []
    meanings: list[Meaning] = []
    owners, kinds = [], []
    for part in parts:
        owners.append(np.where(part.owner == OUTSIDE, OUTSIDE, part.owner + len(steps)))
        kinds.append(part.meaning + len(meanings))
        steps.extend(part.steps)
        meanings.extend(part.meanings)
    exclusive = [part.exclusive for part in parts if part.exclusive is not None]
    return Work(
        steps=steps,
        start=np.concatenate([part.start for part in parts]),
        end=np.concatenate([part.end for part in parts]),
        owner=np.concatenate(owners),
        meaning=np.concatenate(kinds),
        meanings=meanings,
        message=np.concatenate([part.message for part in parts]),
        top=np.concatenate([part.top for part in parts]),
        head=np.concatenate([part.head for part in parts]),
        exclusive=np.concatenate(exclusive) if len(exclusive) == len(parts) else None,
        how=parts[0].how,
    )


def _kernels(trace: Trace, knowledge: Knowledge) -> Work:
    found = attribute(trace, knowledge)
    columns = trace.kernels
    meaning, meanings = _meanings(trace, columns.name, knowledge.kernels)
    return Work(
        steps=found.steps,
        start=columns.start,
        end=columns.end,
        owner=found.owner,
        meaning=meaning,
        meanings=meanings,
        message=columns.bytes,
        top=np.ones(len(columns), dtype=bool),
        head=np.ones(len(columns), dtype=bool),
        exclusive=None,
        how=found.how,
    )


def _meanings(trace: Trace, names: np.ndarray, classify: Classifier) -> tuple[np.ndarray, list[Meaning]]:
    used, meaning = np.unique(names, return_inverse=True)
    return meaning, [classify(trace.names[number]) for number in used]


def _operators(trace: Trace, knowledge: Knowledge) -> Work:
    """Operators with the class of their outermost classified caller; gloo's own spans are the collectives."""
    found = attribute(trace, knowledge)
    columns = trace.ops
    meaning, meanings = _meanings(trace, columns.name, knowledge.cpu_ops)
    spans = [
        (span, knowledge.cpu_ops(span.name)) for span in trace.annotations if span.name.startswith("gloo:")
    ]
    plain = len(meanings)
    meanings.append(Meaning("handed to gloo", "other", None, None, "seen", True, "gloo's own spans"))
    classes = [known.kernel_class for known in meanings]
    exclusive = columns.duration.copy()
    top = np.zeros(len(columns), dtype=bool)
    head = np.ones(len(columns), dtype=bool)
    start, end, lane = columns.start, columns.end, columns.lane
    stack: list[int] = []
    for position in np.lexsort((-columns.duration, start, lane)):
        while stack and (lane[stack[-1]] != lane[position] or end[stack[-1]] <= start[position]):
            stack.pop()
        if stack:
            caller = stack[-1]
            exclusive[caller] -= columns.duration[position]
            if classes[meaning[caller]] != "other":
                meaning[position] = meaning[caller]
            head[position] = classes[meaning[position]] != classes[meaning[caller]]
        else:
            top[position] = True
        # gloo runs on its own thread: the operator that handed it over would count the collective twice
        if spans and classes[meaning[position]] in COLLECTIVES:
            meaning[position] = plain
        stack.append(int(position))
    work = Work(
        steps=found.steps,
        start=start,
        end=end,
        owner=found.owner,
        meaning=meaning,
        meanings=meanings,
        message=columns.bytes,
        top=top,
        head=head,
        exclusive=np.maximum(exclusive, 0.0),
        how=found.how,
    )
    return _with_spans(work, spans) if spans else work


def _with_spans(work: Work, spans: list[tuple[Annotation, Meaning]]) -> Work:
    starts = np.array([span.start for span, _ in spans])
    ends = np.array([span.end for span, _ in spans])
    owner = np.full(len(spans), OUTSIDE, dtype=np.int64)
    for number, step in enumerate(work.steps):
        owner[(starts >= step.start) & (starts <= step.end)] = number
    return Work(
        steps=work.steps,
        start=np.concatenate((work.start, starts)),
        end=np.concatenate((work.end, ends)),
        owner=np.concatenate((work.owner, owner)),
        meaning=np.concatenate((work.meaning, len(work.meanings) + np.arange(len(spans)))),
        meanings=[*work.meanings, *(known for _, known in spans)],
        message=np.concatenate((work.message, np.full(len(spans), np.nan))),
        top=np.concatenate((work.top, np.ones(len(spans), dtype=bool))),
        head=np.concatenate((work.head, np.ones(len(spans), dtype=bool))),
        exclusive=None if work.exclusive is None else np.concatenate((work.exclusive, ends - starts)),
        how=work.how,
    )
