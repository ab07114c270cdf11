"""The report of a campaign: its first screen, the table of candidates, and a fold a variant."""

from __future__ import annotations

from collections.abc import Sequence

from sglang_sweep.report.answer import Answer, Campaign, answer_of
from sglang_sweep.report.document import (
    Block,
    Cell,
    Code,
    Document,
    Facts,
    Fold,
    Items,
    Row,
    Section,
    Span,
    Strip,
    Table,
    Text,
    Words,
)
from sglang_sweep.report.escape import anchor
from sglang_sweep.report.figures import change_axis
from sglang_sweep.report.numbers import MISSING, count, p_value, percent, quantity, ratio
from sglang_sweep.report.record import Line, MetricRow, Prediction, Variant
from sglang_sweep.report.sections import Pictures, sections, value_words
from sglang_sweep.report.words import (
    OBJECTIVES,
    change_lines,
    chip_class,
    kind_of,
    label_of,
    load_words,
    lower_is_better,
    primary_change,
    reason,
    remedies,
    row_change,
    unit_of,
)


def report_of(campaign: Campaign, pictures: Pictures) -> Document:
    """Everything that findings.md and index.html show, in the order of reading."""
    answer = answer_of(campaign)
    folds = [_variant(campaign, v, pictures) for v in (*campaign.candidates, *campaign.controls)]
    parts = [
        Section("What became of each variant", "variants", _candidates(campaign)),
        *([Section("Each variant in detail", "details", folds)] if folds else []),
        *sections(campaign, pictures),
    ]
    return Document(campaign.verdicts.campaign, campaign.verdicts.question, _head(campaign, answer), parts)


def _head(campaign: Campaign, answer: Answer) -> list[Block]:
    blocks: list[Block] = [
        Text(" · ".join(campaign.identity), tone="quiet"),
        Text(Span(answer.headline, strong=True), tone="answer" if answer.won else "no-answer"),
    ]
    if answer.command:
        blocks.append(Code(answer.command, "sh", label="Copy the command"))
    if answer.gains:
        blocks.append(_gains(campaign, answer))
    facts: list[tuple[str, Words]] = [
        ("How sure", answer.sure),
        ("Given up", answer.given_up),
        ("Noise here", answer.noise),
        ("Cost of finding out", answer.cost),
    ]
    blocks.append(Facts([(label, words) for label, words in facts if words]))
    if answer.rest:
        blocks.append(Text(answer.rest))
    return blocks


def _gains(campaign: Campaign, answer: Answer) -> Table:
    metrics = [
        m for m in dict.fromkeys((campaign.metric, *OBJECTIVES)) if any(r.metric == m for r in answer.gains)
    ]
    cells = {(row.workload, row.metric): row_change(row).words() for row in answer.gains}
    rows = [
        Row(
            [
                [Span(load.name, strong=True), f": {load_words(load)}"],
                *(cells.get((load.name, m), MISSING) for m in metrics),
            ]
        )
        for load in campaign.declared.workloads
    ]
    head = ["load", *(label_of(m) for m in metrics)]
    return Table(f"What {answer.run} changes, with 95 % intervals", head, rows)


def _candidates(campaign: Campaign) -> list[Block]:
    metric, load = label_of(campaign.metric), campaign.load(campaign.verdicts.design.primary.workload)
    lower = " (lower is better)" if lower_is_better(campaign.metric) else ""
    blocks: list[Block] = []
    if campaign.candidates:
        caption = f"Change of {metric}{lower} against the baseline at load {load}, with its 95 % interval"
        blocks.append(_table(campaign, campaign.candidates, caption, sortable=True))
    else:
        blocks.append(Text("No variant is launched yet."))
    if campaign.controls:
        caption = (
            "Controls: they say how noisy this is, or what speculation would cost; none is a way to serve"
        )
        blocks.append(_table(campaign, campaign.controls, caption))
    if campaign.planned:
        blocks.append(Text("Not measured yet:"))
        blocks.append(
            Items(
                [
                    [Span(v.name, strong=True), f": {v.hypothesis}" if v.hypothesis else ""]
                    for v in campaign.planned
                ]
            )
        )
    return blocks


def _table(campaign: Campaign, variants: Sequence[Variant], caption: str, *, sortable: bool = False) -> Table:
    axis = change_axis(campaign)
    rows = []
    for v in variants:
        kind, change = kind_of(v.verdict), primary_change(v, campaign.metric)
        colour = chip_class(v)
        drawn = axis.strip(
            v.ratio, v.ci95, f"var(--{kind.colour})", kind.believed, f"{v.name}: {change.text()}"
        )
        tone = "" if kind.believed else "doubted"
        shown = Span("".join(s.text for s in change.words(way=False)) if v.ratio else MISSING, tone=tone)
        chip = Span(f"{kind.glyph} {v.verdict}", tone=f"chip {colour}")
        why = reason(v, campaign.smallest, campaign.metric, _prediction(campaign, v))
        rows.append(
            Row(
                [Span(v.name, href=f"#{_anchor(v)}"), chip, shown, Strip(drawn, v.ratio or 0.0), why],
                v.verdict,
            )
        )
    head: list[Cell] = ["variant", "verdict", "change (95 % interval)", Strip(axis.head()), "why"]
    return Table(caption, head, rows, sortable=sortable)


def _anchor(v: Variant) -> str:
    return f"v-{anchor(v.name)}"


def _prediction(campaign: Campaign, v: Variant) -> Prediction | None:
    return next((p for p in campaign.beside.predictions if p.variant == v.name), None)


def _variant(campaign: Campaign, v: Variant, pictures: Pictures) -> Fold:
    """One variant: what was asked, what it rests on, what to do."""
    prediction = _prediction(campaign, v)
    blocks: list[Block] = [
        Text(
            [
                Span(v.verdict, strong=True),
                ". ",
                *_pieces(reason(v, campaign.smallest, campaign.metric, prediction)),
            ]
        )
    ]
    if v.hypothesis and not v.is_noise_arm:
        blocks.append(Text(["Expected: ", v.hypothesis]))
    if v.change:
        blocks.append(Code("\n".join(change_lines(v.change, campaign.verdicts.baseline)), "diff"))
    if prediction:
        known = "seen in a recording" if prediction.seen else "read in sources"
        blocks.append(Text(f"Known before any launch ({known}): {prediction.why} ({prediction.source})."))
    told = remedies(v, prediction)
    if len(told) > 1 or (told and v.verdict != "DEAD_END"):
        blocks += [Text("What to do:"), Items(told)]
    blocks += _evidence(v)
    often = [row.sentence for row in v.outcomes if row.more_often]
    blocks += [Text("Beside its speed:"), Items(often)] if often else []
    blocks += _beside(campaign, v)
    if v.metrics:
        blocks.append(_metrics(campaign, v))
    if v.name in campaign.beside.explanations:
        blocks.append(Text(["From the profiles: ", campaign.beside.explanations[v.name].sentence]))
    blocks += _statistics(v)
    if asked := campaign.command_of(v.name):
        blocks.append(Fold("Launch command", [Code(asked, "sh", label=f"Copy the command of {v.name}")]))
    if v.launches:
        blocks.append(_launches(campaign, v))
    summary: Words = [
        Span(v.name, strong=True),
        " ",
        Span(v.verdict, tone=f"chip {chip_class(v)}"),
    ]
    return Fold(summary, blocks, _anchor(v))


def _pieces(words: Words) -> list[str | Span]:
    return [words] if isinstance(words, str | Span) else list(words)


def _evidence(v: Variant) -> list[Block]:
    """The lines that show it, each once, quoted whole."""
    lines = list(v.evidence)
    for feature in v.engagement.features:
        lines += feature.evidence
    seen: dict[tuple[str, int | None, str], Line] = {
        (line.file, line.line, line.text): line for line in lines
    }
    blocks: list[Block] = []
    if v.engagement.features:
        blocks.append(Text("Was the change active?"))
        blocks.append(
            Items(
                [
                    [
                        Span(f.feature, code=True),
                        f": {f.state.replace('_', ' ')}",
                        f", {f.note}" if f.note else "",
                    ]
                    for f in v.engagement.features
                ]
            )
        )
    if seen:
        blocks.append(Text("What shows it:"))
        blocks.append(Items([_line(line) for line in seen.values()]))
    return blocks


def _line(line: Line) -> Words:
    place = line.file.rsplit("/", 1)[-1] + (f":{line.line}" if line.line else "")
    block = next((part for part in line.file.split("/") if part.startswith("block-")), "")
    where: list[str | Span] = (
        [Span(f"{block} {place}".strip(), file=line.file, line=line.line), " "] if line.file else []
    )
    return [*where, Span(line.text, code=True)]


def _beside(campaign: Campaign, v: Variant) -> list[Block]:
    """What else differs, whether the answers are right, and what would reopen it."""
    blocks: list[Block] = []
    moved = [c for c in v.confounds if c.moves_performance]
    if moved:
        rows = [
            Row(
                [
                    Span(c.setting, code=True),
                    value_words(c.baseline),
                    value_words(c.variant),
                    "part of the declared change"
                    if c.declared
                    else f"not declared{f'; pin {c.pin}' if c.pin else ''}",
                    c.why,
                ]
            )
            for c in moved
        ]
        blocks.append(
            Table("What else differs and can change speed", ["setting", "baseline", v.name, "", "why"], rows)
        )
    right = v.correctness
    if right.state:
        said = {
            "ok": "the same as the baseline's",
            "wrong": "not the baseline's",
            "not_comparable": "not comparable",
        }.get(right.state, right.state)
        agree = f" ({percent(right.agreement)} of tokens agree)" if right.agreement is not None else ""
        why = f": {right.reason}" if right.reason else ""
        blocks.append(Text(f"Answers to the probe: {said}{agree}{why}."))
    reopen = [r.when or r.text or r.why for r in v.reopen_when]
    prediction = _prediction(campaign, v)
    if prediction and prediction.reopens_when:
        reopen.append(prediction.reopens_when)
    if reopen := [text for text in dict.fromkeys(reopen) if text]:
        blocks.append(Text(f"Worth another try when: {'; '.join(reopen)}."))
    return blocks


def _metrics(campaign: Campaign, v: Variant) -> Block:
    """Every metric at every load, as its own change. Means are those of the variant's own blocks."""
    rows = [
        _metric(campaign, row) for row in v.metrics if row.ratio is not None or row.variant_mean is not None
    ]
    blocks = f"the {count(v.blocks, 'block')} that {v.name} ran in" if v.blocks else "the blocks it ran in"
    caption = f"Means of {blocks}, the baseline's too: they differ a little from variant to variant"
    head = ["load", "metric", "baseline", v.name, "change", "95 % interval"]
    table = Table(caption, head, rows, right=(2, 3, 4, 5))
    return Fold(f"All metrics ({len(rows)})", [table])


def _metric(campaign: Campaign, row: MetricRow) -> Row:
    unit, change = row.unit or unit_of(row.metric), row_change(row)
    name: Words = (
        [label_of(row.metric), Span(" (decides)", tone="quiet")] if row.primary else label_of(row.metric)
    )
    shown, *interval = change.words()
    ends = interval[0].text.strip(" ()") if interval else MISSING
    means = (quantity(row.baseline_mean, unit), quantity(row.variant_mean, unit))
    return Row([campaign.load(row.workload), name, *means, shown, Span(ends, tone="quiet")])


def _statistics(v: Variant) -> list[Block]:
    if v.ratio is None:
        return []
    tests = (
        ("different from the baseline (paired t)", v.p_value),
        ("the same, corrected for all variants (Holm)", v.p_holm),
        ("different, exact sign-flip test", v.p_exact),
        ("equal within the smallest effect (TOST)", v.equivalence_p),
    )
    ends = f" [{ratio(v.ci95[0])}, {ratio(v.ci95[1])}]" if v.ci95 else ""
    items = [
        f"ratio to the baseline, above 1 is better: {ratio(v.ratio)}{ends} over {count(v.blocks, 'block')}"
    ]
    items += [f"p value, {name}: {p_value(p)}" for name, p in tests if p is not None]
    items += [f"note: {why}" for why in v.reasons]
    return [
        Fold("Statistics", [Items([item.replace("p that it is", "p value,") for item in map(str, items)])])
    ]


def _launches(campaign: Campaign, v: Variant) -> Block:
    unit = unit_of(campaign.metric)
    rows = [
        Row(
            [
                str(row.block if row.block is not None else MISSING),
                Span("launch.json", file=row.file) if row.file else MISSING,
                row.outcome,
                quantity(row.value, unit),
                value_words(row.removed) if row.removed else "",
            ]
        )
        for row in v.launches
    ]
    head = ["block", "record", "outcome", label_of(campaign.metric), "removed because"]
    return Fold(f"Launches ({len(rows)})", [Table("One fresh server each", head, rows, right=(0, 3))])
