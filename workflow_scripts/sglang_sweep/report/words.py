"""Says in words what verdicts, changes, loads and commands mean: the one home of each such sentence."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sglang_sweep.report.document import Span, Words
from sglang_sweep.report.numbers import MISSING, change_interval, count, percent, signed_percent, threshold
from sglang_sweep.report.record import Elsewhere, Interval, Load, MetricRow, Prediction, Variant
from sglang_sweep.statistics.metrics import METRICS
from sglang_sweep.verdict.decision import VERDICTS, About, Verdict

ORDER = tuple(map(str, VERDICTS))
UNKNOWN = About(
    "of a kind this report does not know", "of kinds this report does not know", "", " ", "open", "o"
)

OBJECTIVES = ("output_throughput", "mean_ttft_ms", "mean_tpot_ms", "p99_e2e_latency_ms")
"""What an answer is told in, and what may contradict a verdict: the other metrics say the same once more."""


def kind_of(verdict: str) -> About:
    return VERDICTS[Verdict(verdict)] if verdict in ORDER else UNKNOWN


def reading_order(variants: Sequence[Variant]) -> list[Variant]:
    """Return variants by verdict, the larger gain first, A' after the last measured arm of its verdict."""
    return sorted(
        variants,
        key=lambda v: (
            ORDER.index(v.verdict) if v.verdict in ORDER else len(ORDER),
            v.is_noise_arm,
            -(v.ratio or 0.0),
            v.name,
        ),
    )


def unit_of(metric: str) -> str:
    """Return the unit of a metric of `launch.json`; one that the statistics do not know has none."""
    return METRICS[metric].unit if metric in METRICS else ""


def label_of(metric: str) -> str:
    """Return a metric's name in words: `p99_ttft_ms` is `p99 TTFT`."""
    words = metric.removesuffix("_ms").split("_")
    return " ".join(word.upper() if word in {"ttft", "tpot", "itl", "e2e"} else word for word in words)


def lower_is_better(metric: str) -> bool:
    return metric in METRICS and not METRICS[metric].higher_is_better


@dataclass(frozen=True)
class Change:
    """A metric's own change, as people read it: a latency that falls is negative, and better."""

    ratio: float | None
    """Variant over baseline, of the metric itself."""
    ends: Interval | None
    way: str
    """better, worse, or nothing where the interval holds no change."""

    def words(self, *, way: bool = True, interval: bool = True) -> list[Span]:
        """`−42.4 % ↗ better (−49.6 to −34.1 %)`."""
        if self.ratio is None:
            return [Span(MISSING)]
        arrow = {"better": " ↗ better", "worse": " ↘ worse"}.get(self.way, "") if way else ""
        shown = [Span(f"{signed_percent(self.ratio - 1)}{arrow}", tone=self.way)]
        if interval and self.ends:
            shown.append(Span(f" ({change_interval(self.ends)})", tone="quiet"))
        return shown

    def text(self) -> str:
        return "".join(span.text for span in self.words())


def change_of(metric: str, ratio: float | None, ci95: Interval | None) -> Change:
    """Turn a ratio of the statistics, above one is better, into the metric's own change."""
    low, high = ci95 if ci95 and None not in ci95 else (None, None)
    way = ""
    if low is not None and high is not None:
        way = "better" if min(low, high) > 1 else "worse" if max(low, high) < 1 else ""
    if ratio and lower_is_better(metric):
        ratio = 1 / ratio
        low, high = (1 / high, 1 / low) if low and high else (None, None)
    return Change(ratio or None, None if low is None else (low, high), way)


def row_change(row: MetricRow) -> Change:
    return change_of(row.metric, row.ratio, row.ci95)


def primary_change(variant: Variant, metric: str) -> Change:
    return change_of(metric, variant.ratio, variant.ci95)


def contradictions(variant: Variant) -> list[Elsewhere]:
    """Return the objectives, of any load, that say otherwise than the verdict, by more than the smallest effect."""
    if not kind_of(variant.verdict).believed or variant.is_noise_arm:
        return []
    against = {"WIN": ("worse",), "LOSS": ("better",)}.get(variant.verdict, ("worse", "better"))
    return [row for row in variant.elsewhere if row.kind in against]


def at_load(row: MetricRow | Elsewhere, primary: MetricRow | None = None) -> str:
    """Name a row beside the verdict's own: by its load where the metric is the same, else by both."""
    where = f"at load {row.workload}"
    return where if primary and row.metric == primary.metric else f"{label_of(row.metric)} {where}"


def said_elsewhere(variant: Variant) -> str:
    """What contradicts the verdict: of the deciding metric at other loads, else of other objectives; three at most."""
    found = contradictions(variant)
    shown = [row for row in found if variant.primary and row.metric == variant.primary.metric] or found
    shown.sort(key=lambda row: -abs((row.ratio or 1) - 1))
    return ", ".join(
        f"{signed_percent((change_of(row.metric, row.ratio, row.ci95).ratio or 1) - 1)} {at_load(row, variant.primary)}"
        for row in shown[:3]
    )


def chip_class(variant: Variant) -> str:
    """The colour of a verdict: never a good one while another load or objective contradicts it."""
    if variant.is_control:
        return "control"
    return "mixed" if contradictions(variant) else kind_of(variant.verdict).colour


def reason(
    variant: Variant, smallest_effect: float, metric: str, prediction: Prediction | None = None
) -> Words:
    """Return the one line that a reader of the table needs: what decides the verdict, and what to do."""
    verdict, change = variant.verdict, primary_change(variant, metric)
    elsewhere = said_elsewhere(variant)
    but = f"; but {elsewhere}" if elsewhere else ""
    if verdict in ("WIN", "LOSS"):
        ends = [end - 1 for end in change.ends or () if end is not None]
        sure = f"at least {percent(min(map(abs, ends)))} at 95 % confidence" if ends else "shown"
        notes = f"; {'; '.join(variant.reasons)}" if variant.reasons else ""
        return f"{'Better' if verdict == 'WIN' else 'Worse'}, {sure}{but}{notes}."
    if verdict == "NO_DIFFERENCE":
        which = "The baseline again, equal to itself" if variant.is_noise_arm else "Equal to the baseline"
        notes = f"; {'; '.join(variant.reasons)}" if variant.reasons else ""
        return f"{which} within ±{threshold(smallest_effect)}{but}{notes}."
    if verdict == "INCONCLUSIVE":
        why = "; ".join(variant.reasons) or "neither a difference nor equality is shown"
        more = (
            f"; about {count(variant.more_blocks, 'more block')} would settle it"
            if variant.more_blocks
            else ""
        )
        if variant.fresh_blocks:
            more = f"; a new campaign of about {count(variant.fresh_blocks, 'block')} would settle it"
        shown = f"; shown elsewhere: {elsewhere}" if elsewhere else ""
        return f"{why[:1].upper()}{why[1:]}{more}{shown}."
    if verdict == "DEAD_END":
        return _dead_end(variant, prediction)
    if verdict == "NO_OP":
        idle = [f for f in variant.engagement.features if f.state == "not_engaged"]
        lines = [line for feature in idle for line in feature.evidence] or variant.evidence
        said: list[str | Span] = ["Ran, but the change was never active"]
        if lines:
            said += [
                ": ",
                Span(_first(lines[0].text, 110), code=True, file=lines[0].file, line=lines[0].line),
            ]
        return [*said, ". Its speed says nothing about the idea."]
    if verdict == "CONFOUNDED":
        moved = [c.setting for c in variant.confounds if c.moves_performance and not c.declared]
        return (
            f"Something else moved too: {', '.join(moved) or 'see below'}. Pin or declare it, measure again."
        )
    if verdict == "WRONG_OUTPUT":
        why = variant.correctness.reason or "its answers differ from the baseline's"
        return f"{why[:1].upper()}{why[1:].rstrip('.')}; its speed does not count."
    if verdict == "STALE":
        return "Its baseline was measured too long before or after; measure both again."
    if verdict == "OUTRUN":
        return "Left behind in the race; nothing is claimed about it."
    if verdict == "PLANNED":
        return "Not measured yet."
    why = "; ".join(variant.reasons)
    return f"{why[:1].upper()}{why[1:]}{but}." if why else f"{kind_of(verdict).one.capitalize()}{but}."


def _dead_end(variant: Variant, prediction: Prediction | None) -> Words:
    cause = variant.cause.replace("_", " ") or "cause not known"
    tried = "Does not run here" if variant.outcome == "failed" else "Expected not to run here, not tried"
    said: list[str | Span] = [f"{tried}: {cause}"]
    if variant.evidence:
        line = variant.evidence[0]
        said += [", ", Span(_first(line.text, 110), code=True, file=line.file, line=line.line)]
    remedy = remedies(variant, prediction)
    return [*said, f". Remedy: {remedy[0].rstrip('.')}." if remedy else "."]


def remedies(variant: Variant, prediction: Prediction | None) -> list[str]:
    """What to do, the specific before the general."""
    specific = [prediction.remedy] if prediction and prediction.remedy else []
    return list(dict.fromkeys([*specific, *variant.remedies]))


def _first(text: str, limit: int) -> str:
    """The message of a log line without its time and rank, cut at a word."""
    message = text.split("] ", 1)[1] if text.startswith("[") and "] " in text else text
    message = " ".join(message.split()).rstrip(".")
    return message if len(message) <= limit else f"{message[:limit].rsplit(' ', 1)[0]} …"


def load_words(load: Load) -> str:
    """Say what a load asks: `16 requests at once, 128 tokens in, 64 out, random ids`."""
    parts = []
    if load.request_rate:
        parts.append(f"{load.request_rate:g} requests a second")
    if load.concurrency:
        most = "at most " if load.request_rate else ""
        parts.append(f"{most}{count(load.concurrency, 'request')} at once")
    if load.prefix_tokens:
        parts.append(f"{load.prefix_tokens} shared and {load.input_tokens} own tokens in")
    elif load.input_tokens:
        parts.append(f"{load.input_tokens} tokens in")
    if load.output_tokens:
        parts.append(f"{load.output_tokens} out")
    if load.groups:
        parts.append(f"{load.groups} prefixes of {load.prompts_per_group} requests each")
    known = {
        "random-ids": "random ids",
        "random": "random words",
        "generated-shared-prefix": "generated text",
    }
    parts.append(known.get(load.dataset, f"{load.dataset}{f' {load.path}' if load.path else ''}"))
    return ", ".join(parts)


def load_short(load: Load | None, name: str) -> str:
    """A load's name with its level: `sixteen (16 at once)`."""
    if load is None:
        return name
    if load.request_rate:
        return f"{name} ({load.request_rate:g} req/s)"
    return f"{name} ({load.concurrency} at once)" if load.concurrency else name


# --- commands -----------------------------------------------------------------------------------------------


def command(model: str, flags: Mapping[str, Any], env: Mapping[str, Any]) -> str:
    """Return the launch command to copy, a flag a line."""
    variables = [f"{name}={shlex.quote(str(value))}" for name, value in env.items() if value is not None]
    lines = [f"--model-path {shlex.quote(model)}", *filter(None, (flag(n, v) for n, v in flags.items()))]
    return " \\\n".join(
        [" ".join([*variables, "python -m sglang.launch_server"]), *(f"  {x}" for x in lines)]
    )


def flag(name: str, value: Any) -> str:
    """A flag as the command line has it; empty for one that is not set."""
    if value is None or value is False:
        return ""
    written = f"--{name.removeprefix('--')}"
    if value is True:
        return written
    if isinstance(value, Mapping):  # a model by its name, or JSON
        value = value["model"] if set(value) == {"model"} else json.dumps(value, sort_keys=True)
    values = value if isinstance(value, list) else [value]
    return " ".join([written, *(shlex.quote(str(item)) for item in values)])


def change_lines(change: Mapping[str, Any], baseline: Any) -> list[str]:
    """Return a change as diff lines: `-` what the baseline has, `+` what the variant has instead.

    ``baseline`` is a `record.Arm`. A flag set to null is taken away, one set to true is bare.
    """
    lines: list[str] = []
    for part, before, written in (
        ("flags", baseline.flags, flag),
        ("env", baseline.env, lambda name, value: f"{name}={shlex.quote(str(value))}"),
    ):
        for name, value in change.get(part, {}).items():
            old = written(name, before[name]) if name in before else ""
            new = "" if value is None else written(name, value)
            if old == new:
                lines.append(f"  {new}" if new else f"- {name if part == 'env' else '--' + name}")
            else:
                lines += [f"- {old}"] * bool(old) + [f"+ {new}"] * bool(new)
    for key in change:
        if key in ("stack", "model"):
            lines += [f"- {key}: {getattr(baseline, key)}", f"+ {key}: {change[key]}"]
        elif key not in ("flags", "env") and change[key]:
            lines.append(f"+ {'source patch' if key == 'patch' else key}: {change[key]}")
    return lines
