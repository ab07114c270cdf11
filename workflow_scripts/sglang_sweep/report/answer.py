"""The answer of a campaign: what to run, what it gains at each load, how sure that is and what it cost to know."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from sglang_sweep.report.numbers import change_interval, count, duration, p_value, percent, signed_percent
from sglang_sweep.report.record import Arm, Declaration, Launch, MetricRow, ReportData, Variant, Verdicts, day
from sglang_sweep.report.words import (
    OBJECTIVES,
    ORDER,
    at_load,
    change_of,
    command,
    kind_of,
    label_of,
    load_short,
    primary_change,
    reading_order,
    row_change,
    said_elsewhere,
)


@dataclass(frozen=True)
class Campaign:
    """All that a report is made of. Paths inside are relative to the working directory."""

    verdicts: Verdicts
    declared: Declaration
    beside: ReportData
    launches: Sequence[Launch] = field(default=())

    @property
    def smallest(self) -> float:
        return self.verdicts.design.smallest_effect

    @property
    def metric(self) -> str:
        return self.verdicts.design.primary.metric

    @property
    def candidates(self) -> list[Variant]:
        """What could be served, launched or predicted dead, in reading order."""
        return [v for v in self._ordered if not (v.is_control or v.is_noise_arm or v.verdict == "PLANNED")]

    @property
    def controls(self) -> list[Variant]:
        """A', and arms with a forced accept length: they say something about others and are not served."""
        return [v for v in self._ordered if v.is_noise_arm or (v.is_control and v.verdict != "PLANNED")]

    @property
    def planned(self) -> list[Variant]:
        return [v for v in self._ordered if v.verdict == "PLANNED"]

    @property
    def _ordered(self) -> list[Variant]:
        return reading_order(self.verdicts.variants)

    def load(self, name: str) -> str:
        """A load's name with its level."""
        return load_short(next((w for w in self.declared.workloads if w.name == name), None), name)

    def model_of(self, arm: Arm) -> str:
        return arm.model or self.verdicts.baseline.model or "MODEL"

    def command_of(self, name: str) -> str:
        """The launch command of a variant, or of the baseline; empty where nobody declared it."""
        arm = self.declared.arm(name) or (
            self.verdicts.baseline if name == self.verdicts.baseline.name else None
        )
        return command(self.model_of(arm), arm.flags, arm.env) if arm else ""

    @property
    def identity(self) -> list[str]:
        """Model, stack, GPUs and date."""
        base = self.verdicts.baseline
        stack = self.verdicts.stacks.get(base.stack, {})
        software = ", ".join(
            f"{name} {stack[key]}"
            for name, key in (("SGLang", "sglang"), ("CUDA", "cuda"), ("Python", "python"))
            if stack.get(key)
        )
        times = [launch.started_at for launch in self.launches if launch.started_at]
        return [
            part for part in (base.model, software, self.machine, day(max(times)) if times else "") if part
        ]

    @property
    def machine(self) -> str:
        """The GPUs, or the processor where there is none."""
        host = self.beside.environment or {}
        gpus = [str(gpu["name"]) for gpu in host["gpus"] or []] if "gpus" in host else []
        if gpus:
            return ", ".join(f"{gpus.count(name)}x {name}" for name in dict.fromkeys(gpus))
        cpu = host.get("cpu", {})
        return f"{cpu['model']}, {cpu['cores']} cores" if cpu.get("model") else ""

    @property
    def gpus(self) -> int:
        host = self.beside.environment or {}
        return len(host["gpus"] or []) if "gpus" in host else 0


@dataclass(frozen=True)
class Answer:
    """``run`` names the variant to serve, or the baseline; each text is one or two sentences."""

    headline: str
    run: str
    command: str
    won: bool
    gains: Sequence[MetricRow]
    sure: str
    given_up: str
    noise: str
    cost: str
    rest: str


def answer_of(campaign: Campaign) -> Answer:
    """Return what the verdicts come to. A void session answers nothing, and says so."""
    session, base = campaign.verdicts.session, campaign.verdicts.baseline.name
    # One that loses elsewhere is not told as the answer while another wins without that.
    wins = [v for v in campaign.candidates if v.verdict == "WIN" and v.ratio]
    wins.sort(key=lambda v: bool(said_elsewhere(v)))
    best = wins[0] if wins and not session.void else None
    if session.void:
        reasons = "; ".join(session.reasons) or "the baseline's two arms disagree"
        headline = f"No answer: the session is void ({reasons.rstrip('.')})."
    elif best:
        metric = label_of(campaign.metric)
        change = primary_change(best, campaign.metric)
        where = campaign.load(campaign.verdicts.design.primary.workload)
        headline = f"Run {best.name}: {metric} {change.text()} at load {where}."
    elif any(v.ratio for v in campaign.candidates):
        headline = "Keep the baseline: no variant is shown to be faster."
    else:
        headline = "No answer yet: nothing was measured against the baseline."
    name = best.name if best else base
    return Answer(
        headline=headline,
        run=name,
        command=campaign.command_of(name),
        won=best is not None,
        gains=[row for row in best.metrics if row.metric in (*OBJECTIVES, campaign.metric)] if best else [],
        sure=_sure(campaign, best),
        given_up=_given_up(campaign, best),
        noise=noise(campaign),
        cost=_cost(campaign),
        rest=_rest(campaign, best),
    )


def _sure(campaign: Campaign, best: Variant | None) -> str:
    if best is not None:
        low = min(
            (abs(end - 1) for end in primary_change(best, campaign.metric).ends or () if end), default=None
        )
        least = f"at least {percent(low)} with 95 % confidence" if low is not None else "no interval"
        chance = f"; by chance alone with p = {p_value(best.p_holm)}" if best.p_holm is not None else ""
        family = len(campaign.verdicts.session.family)
        among = f", corrected for {family} variants" if chance and family > 1 else ""
        active = {"engaged": "The change was seen active in the server."}.get(
            best.engagement.state, "Whether the change was active is not proven."
        )
        unseen = best.spread.unseen_share
        rare = f" Trouble in up to {unseen:.0%} of launches may be unseen." if unseen else ""
        return f"{count(best.blocks, 'block')} of fresh servers: {least}{chance}{among}. {active}{rare}"
    highs = {v.name: max((end for end in v.ci95 if end), default=1) for v in campaign.candidates if v.ci95}
    believed = [v.name for v in campaign.candidates if kind_of(v.verdict).believed and v.name in highs]
    if not believed or campaign.verdicts.session.void:
        return "Nothing is claimed."
    name = max(believed, key=lambda n: highs[n])
    most = signed_percent(highs[name] - 1)
    return f"A gain above {most} is ruled out at 95 % for each that ran ({name} has the most room)."


def _given_up(campaign: Campaign, best: Variant | None) -> str:
    if best is None:
        return ""
    shown = [row for row in best.metrics if row.metric in METRICS_GIVEN_UP and row_change(row).ends]
    worse = [row for row in shown if row_change(row).way == "worse"]
    if worse:
        return "Worse: " + "; ".join(f"{at_load(row)} {row_change(row).text()}" for row in worse) + "."
    return f"Nothing measured is shown to be worse.{_not_excluded(best)}"


def _not_excluded(best: Variant) -> str:
    """The losses beyond the smallest effect that too few data leave possible, the largest of each metric."""
    lows = [(row.ci95[0] or 1.0, row) for row in best.elsewhere if row.kind == "not_excluded" and row.ci95]
    most = {row.metric: (low, row) for low, row in sorted(lows, key=lambda pair: -pair[0])}
    open_ = [
        f"{signed_percent((change_of(row.metric, low, None).ratio or 1) - 1)} in {at_load(row)}"
        for low, row in most.values()
    ]
    unmeasured = [at_load(row) for row in best.elsewhere if row.kind == "not_measured"]
    said = f" Not excluded: {', '.join(open_)}." if open_ else ""
    return said + (f" Too little is measured of {', '.join(unmeasured)}." if unmeasured else "")


METRICS_GIVEN_UP = (
    "output_throughput",
    "mean_ttft_ms",
    "p99_ttft_ms",
    "mean_tpot_ms",
    "p99_tpot_ms",
    "p99_e2e_latency_ms",
)


def noise(campaign: Campaign) -> str:
    """What the baseline against itself says about this host."""
    aa = campaign.verdicts.session.aa
    if aa.ratio is None:
        return "Not known: the baseline was not measured against itself."
    # The two arms are one command, so the ratio is told as it is, whatever the metric.
    said = f"The same command launched twice differs by {signed_percent(aa.ratio - 1)}"
    said += f" ({change_interval(aa.ci95)} over {count(aa.blocks, 'block')})." if aa.ci95 else "."
    spread = campaign.verdicts.session.noise.launch_sd or aa.launch_sd
    if spread is not None:
        said += f" One launch varies by {percent(spread)}."
    if aa.detectable_effect is not None:
        said += f" A change of {percent(aa.detectable_effect)} is found four times in five."
    return said


def _cost(campaign: Campaign) -> str:
    ran = [launch for launch in campaign.launches if launch.seconds]
    if not ran:
        return "Not known: the launches are not here."
    total = sum(launch.seconds for launch in ran)
    begun = min(launch.started_at for launch in ran if launch.started_at)
    ended = max(launch.finished_at for launch in ran if launch.finished_at)
    machine = f" of {count(campaign.gpus, 'GPU')}" if campaign.gpus else ""
    took = f"{count(len(ran), 'launch', 'launches')}, {duration(total)}{machine}"
    return f"{took}, {_moment(begun)} to {_moment(ended)} UTC."


def _moment(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%-d %b %H:%M}"


def _rest(campaign: Campaign, best: Variant | None) -> str:
    """What became of the other candidates, counted, and named where that is short."""
    others = [v for v in campaign.candidates if v is not best]
    parts = []
    for verdict in ORDER:
        names, kind = [v.name for v in others if v.verdict == verdict], kind_of(verdict)
        if names:
            listed = f" ({', '.join(names)})" if len(names) <= 3 else ""
            parts.append(f"{len(names)} {kind.one if len(names) == 1 else kind.many}{listed}")
    if campaign.planned:
        parts.append(f"{len(campaign.planned)} not measured yet")
    return f"The others: {'; '.join(parts)}." if parts else ""
