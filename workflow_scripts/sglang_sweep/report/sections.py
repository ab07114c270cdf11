"""What a report shows below its variants. To add a section, write a function and name it in ``SECTIONS``.

A section gets the campaign and its pictures, and returns blocks, or nothing where its data are not there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sglang_sweep.launch.environment import ambient
from sglang_sweep.report.answer import Campaign, noise
from sglang_sweep.report.document import (
    Block,
    Code,
    Facts,
    Figure,
    Fold,
    Items,
    Notes,
    Row,
    Section,
    Span,
    Table,
    Text,
    Words,
)
from sglang_sweep.report.numbers import (
    MISSING,
    count,
    moment,
    percent,
    quantity,
    ratio,
    significant,
    threshold,
)
from sglang_sweep.report.record import Breakdown, Carried, Economics, Interval, Step
from sglang_sweep.report.words import label_of, load_words

Pictures = Mapping[str, Figure]
"""By the stem of the file: ratios, blocks, windows, profiles, speculation, communication."""


def value_words(value: Any) -> str:
    """Return a value of a record as text: numbers with three digits, lists joined, nested records in one line."""
    if value is None or value == "":
        return MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return significant(value)
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {value_words(item)}" for key, item in value.items()) or MISSING
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(value_words(item) for item in value) or "none"
    return str(value)


def _asked(campaign: Campaign, pictures: Pictures) -> list[Block]:
    loads = campaign.declared.workloads
    blocks: list[Block] = [Items([[Span(load.name, strong=True), f": {load_words(load)}"] for load in loads])]
    asked = campaign.command_of(campaign.verdicts.baseline.name)
    if asked:
        blocks += [
            Text("Each variant is this baseline with one declared change:"),
            Code(asked, "sh", "Copy the baseline"),
        ]
    return blocks if loads or asked else []


def _noise(campaign: Campaign, pictures: Pictures) -> list[Block]:
    session = campaign.verdicts.session
    blocks: list[Block] = [Text(noise(campaign))]
    if session.void:
        blocks.insert(0, Text(f"Void: {'; '.join(session.reasons)}.", tone="no-answer"))
    if len(session.gpus) > 1:
        sets = [
            f"blocks {', '.join(map(str, row.blocks))} on {value_words(row.gpus) if row.gpus else 'GPUs not named'}"
            for row in session.gpus
        ]
        blocks.append(Text(f"Launches ran on {len(sets)} sets of GPUs: {'; '.join(sets)}."))
    rows = [
        Row(
            [
                row.arm,
                str(row.block if row.block is not None else MISSING),
                f"{row.rule}{'' if row.window is None else f', window {row.window + 1}'}: {row.saw}",
                Span("launch.json", file=row.file) if row.file else "",
            ]
        )
        for row in session.removed
    ]
    if rows:
        blocks.append(
            Table("Removed by a rule that was fixed beforehand", ["variant", "block", "why", "record"], rows)
        )
    else:
        blocks.append(Text("No rule removed a launch."))
    if session.rules:
        blocks.append(
            Fold("The rules", [Items([f"{rule.id}: {rule.description}" for rule in session.rules])])
        )
    return blocks


def _figures(campaign: Campaign, pictures: Pictures) -> list[Block]:
    return [pictures[name] for name in ("ratios", "blocks", "windows") if name in pictures]


def _profiles(campaign: Campaign, pictures: Pictures) -> list[Block]:
    profiles = campaign.beside.profiles
    if not profiles:
        return []
    blocks: list[Block] = [
        Text(
            "One launch of each was profiled, apart from the measured ones. Only kernel time is compared: a profiler"
            " slows the processor, so the gaps between kernels, and the wall time of a profiled step, mean nothing."
            " A collective is charged the minimum over ranks; the rest is waiting for the rank that came late (skew)."
        )
    ]
    if "profiles" in pictures:
        blocks.append(pictures["profiles"])
    order = [campaign.verdicts.baseline.name, *(v.name for v in campaign.candidates), *profiles]
    for name in dict.fromkeys(n for n in order if n in profiles):
        blocks.append(Fold(f"Profile of {name}", _profile(profiles[name])))
    return blocks


def _profile(breakdown: Breakdown) -> list[Block]:
    unit = "operators" if breakdown.source == "cpu" else "kernels"
    rows = [_phase(step) for step in breakdown.steps]
    head = [
        "phase",
        "steps",
        f"time in {unit}",
        unit,
        "all-reduce",
        "per step",
        "median",
        "cost",
        "share",
        "skew",
    ]
    ranks = f"{'rank' if len(breakdown.ranks) == 1 else 'ranks'} {', '.join(map(str, breakdown.ranks))}"
    blocks: list[Block] = [Table(f"Per step, {ranks}", head, rows, right=(1, 2, 3, 5, 6, 7, 8, 9))]
    classes = [
        Row([step.label, name.replace("_", " "), quantity(row.ms_per_step, "ms"), percent(row.share)])
        for step in breakdown.steps
        for name, row in sorted(step.classes.items(), key=lambda item: -item[1].ms_per_step)
    ]
    if classes:
        table = Table("Kernel time by class", ["phase", "class", "per step", "share"], classes, right=(2, 3))
        blocks.append(Fold("By kernel class", [table]))
    notes: list[Words] = [f"{note[:1].upper()}{note[1:].rstrip('.')}." for note in breakdown.notes]
    if len(breakdown.ranks) == 1 and breakdown.world_size != 1:
        notes.insert(0, "One rank only: the cost of a collective and waiting for it cannot be told apart.")
    notes += [
        [f"No known pattern ({percent(row.share)} of {row.kind}): ", Span(row.name, code=True)]
        for row in breakdown.unmatched
    ]
    return [*blocks, Items(notes)] if notes else blocks


def _phase(step: Step) -> Row:
    cells: list[Words] = [
        step.label,
        str(step.count),
        quantity(step.busy_ms, "ms"),
        _number(step.kernels_per_step),
    ]
    reduce = step.allreduce
    if not reduce.count_per_step:
        return Row([*cells, "none", "", "", "", "", ""])
    # Less skew than this is the resolution of the clocks, not a rank that came late.
    late = (
        f", rank {reduce.late_rank}" if reduce.late_rank is not None and (reduce.skew_ms or 0) >= 0.01 else ""
    )
    return Row(
        [
            *cells,
            reduce.path or MISSING,
            _number(reduce.count_per_step),
            quantity(reduce.us_median, "µs"),
            quantity(reduce.ms_per_step, "ms"),
            percent(reduce.share),
            f"{quantity(reduce.skew_ms, 'ms')}{late}",
        ]
    )


def _number(value: float | None) -> str:
    return str(int(value)) if value is not None and value == int(value) else significant(value)


_TERMS = (
    ("t_verify_ms", "verify, GPU busy"),
    ("t_draft_ms", "one draft step, GPU busy"),
    ("draft_total_ms", "all draft steps of a cycle, GPU busy"),
    ("overhead_ms", "the rest of the cycle (its wall time less the GPU time above)"),
    ("cycle_ms", "one cycle, wall time"),
)


def _ladders(campaign: Campaign, pictures: Pictures) -> list[Block]:
    blocks: list[Block] = []
    for ladder in campaign.beside.ladders:
        rows = [
            Row(
                [
                    step.arm,
                    f"{step.load:g}",
                    _with_interval(step.per_user, step.per_user_ci95),
                    [_with_interval(step.per_gpu, step.per_gpu_ci95), " *" if step.best else ""],
                    quantity(step.p99_ttft_ms, "ms"),
                    percent(step.attainment) if step.attainment is not None else MISSING,
                    str(step.launches),
                ]
            )
            for step in ladder.levels
        ]
        head = [
            "variant",
            ladder.unit,
            "tok/s a user",
            "tok/s a GPU",
            "p99 TTFT",
            "within objectives",
            "launches",
        ]
        caption = f"{ladder.name}: * no other row has more tokens a second both for a user and for a GPU"
        blocks.append(Table(caption, head, rows, right=(1, 2, 3, 4, 5, 6)))
        said = [_carried(row, ladder.unit) for row in ladder.carried]
        blocks.append(Items([f"{arm}: {words}." for arm, words in said]))
    return blocks


def _carried(row: Carried, unit: str) -> tuple[str, str]:
    parts = []
    if row.value is not None:
        bound = {
            "at least": "at least ",
            "below": "fewer than ",
            "mixed": "in some launches outside the ladder, about ",
        }
        interval = "" if row.bound else " (one launch, no interval)" if row.ci95 is None else ""
        most = f"{bound.get(row.bound, '')}{_with_interval(row.value, row.ci95)}"
        parts.append(f"carries {most} {unit} within the objectives{interval}")
    if row.crosses is not None:
        sure = "" if row.crosses_ci95 else ", with too few blocks or too flat a curve for an interval"
        crossed = _with_interval(row.crosses, row.crosses_ci95)
        parts.append(f"its throughput crosses the baseline's at {crossed} {unit}{sure}")
    return row.arm, "; ".join(parts)


def _with_interval(value: float | None, interval: Interval | None) -> str:
    if value is None:
        return MISSING
    if interval is None or None in interval:
        return significant(value)
    return f"{significant(value)} [{', '.join(significant(end) for end in interval if end is not None)}]"


def _speculation(campaign: Campaign, pictures: Pictures) -> list[Block]:
    found = campaign.beside.speculation
    if found is None:
        return []
    blocks: list[Block] = [Text(speculation_sentence(found))]
    if "speculation" in pictures:
        blocks.append(pictures["speculation"])
    if found.points:
        rows = [
            Row(
                [
                    point.name,
                    significant(point.accept_length),
                    "simulated" if point.simulated else "measured draft",
                    quantity(point.throughput, "tok/s"),
                    quantity(point.cycle_ms, "ms"),
                    f"{ratio(point.speedup)} x baseline",
                ]
            )
            for point in found.points
        ]
        head = ["launch", "accept length", "how", "throughput", "cycle", "against the baseline"]
        blocks.append(
            Table(f"At {count(found.concurrency, 'request')} at once", head, rows, right=(1, 3, 4, 5))
        )
    terms = [
        ("one token without speculation, wall time, its share of the first token included", found.t_decode_ms)
    ]
    terms += [(words, found.terms[key]) for key, words in _TERMS if key in found.terms]
    facts = Facts([(name, quantity(value, "ms")) for name, value in terms if value is not None])
    levers = [
        f"{lever.term.replace('_', ' ')}: {significant(lever.now)} now, {significant(lever.ideal)} at best,"
        f" which would give {ratio(lever.speedup)} x baseline"
        for lever in found.levers
    ]
    blocks.append(Fold("What a cycle costs", [facts, *([Items(levers)] if levers else [])]))
    return [*blocks, Items(found.notes)] if found.notes else blocks


def speculation_sentence(found: Economics) -> str:
    """When speculation pays, and the most it can give."""
    even, top = found.break_even, found.ceiling
    if even.accept_length is None:
        return "Speculation does not pay at any accept length here: a cycle costs more than its tokens are worth."
    ends = f" (95 % interval {even.ci95[0]:.2f} to {even.ci95[1]:.2f})" if even.ci95 else ""
    reach = "" if even.reachable else ", which is more than this draft length can reach"
    most = (
        f" With every draft token accepted ({top.accept_length:g}) it gives {top.speedup:.2f} x baseline."
        if top.speedup and top.accept_length
        else ""
    )
    return f"Speculation pays when more than {even.accept_length:.2f} tokens are accepted a cycle{ends}{reach}.{most}"


def _communication(campaign: Campaign, pictures: Pictures) -> list[Block]:
    found = campaign.beside.communication
    if found is None:
        return []
    blocks: list[Block] = [
        Text("What collectives cost alone on the same ranks and stack, beside what they cost in a step.")
    ]
    if "communication" in pictures:
        blocks.append(pictures["communication"])
    rows = [
        Row(
            [
                row.variant,
                row.kind if row.batch_size is None else f"{row.kind} bs={row.batch_size}",
                _number(row.count),
                size_words(row.bytes),
                quantity(row.us_alone, "µs"),
                quantity(row.us_profiled, "µs"),
                quantity(row.predicted_ms, "ms"),
                quantity(row.profiled_ms, "ms"),
                percent(row.share_of_tpot),
            ]
        )
        for row in found.rows
    ]
    head = [
        "variant",
        "phase",
        "per step",
        "message",
        "alone",
        "in the step",
        "expected a step",
        "profiled a step",
        "share of TPOT",
    ]
    if rows:
        blocks.append(Table("All-reduce, minimum over ranks", head, rows, right=range(2, 9)))
    said = [
        f"In {cliff.setting}, {cliff.mode}, latency jumps from {quantity(cliff.from_us, 'µs')}"
        f" at {size_words(cliff.from_bytes)} to {quantity(cliff.to_us, 'µs')} at {size_words(cliff.to_bytes)}."
        for cliff in found.cliffs
    ]
    if found.growth.sentence:
        said.append(f"{found.growth.sentence[:1].upper()}{found.growth.sentence[1:].rstrip('.')}.")
    return [*blocks, Items(said)] if said else blocks


def size_words(number: int | None) -> str:
    """Return a message size in bytes as `12 KiB`, exact where it can be."""
    for limit, unit in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if number is not None and number >= limit:
            return f"{number // limit if number % limit == 0 else significant(number / limit)} {unit}"
    return quantity(number, "B")


def _reopened(campaign: Campaign, pictures: Pictures) -> list[Block]:
    found = campaign.beside.reopened
    return (
        [Items([f"{r.variant} ({r.verdict}): {r.why}{f' ({r.source})' if r.source else ''}" for r in found])]
        if found
        else []
    )


def _host(campaign: Campaign, pictures: Pictures) -> list[Block]:
    blocks: list[Block] = []
    stacks = [(name, value_words(stack)) for name, stack in campaign.verdicts.stacks.items()]
    blocks.append(Facts([*_environment(campaign.beside.environment or {}), *stacks]))
    rank = ("fail", "warn", "unknown", "info")
    checks = sorted(
        (c for c in campaign.beside.gate if not c.passed and c.severity != "info"),
        key=lambda c: rank.index(c.severity) if c.severity in rank else len(rank),
    )
    if checks:
        rows = [
            Row(["not known" if c.passed is None else c.severity, c.title, c.scope, c.found, c.why, c.remedy])
            for c in checks
        ]
        head = ["", "check", "of", "found", "why it matters", "remedy"]
        blocks.append(
            Fold(f"Checks that did not pass ({len(rows)})", [Table("Environment gate", head, rows)])
        )
    passed = [
        f"{c.title} ({c.scope}): {c.found}" for c in campaign.beside.gate if c.passed or c.severity == "info"
    ]
    if passed:
        blocks.append(Fold(f"Checks that passed ({len(passed)})", [Items(passed)]))
    return blocks


_FACTS = (
    ("host", "hostname"),
    ("host class", "class_digest"),
    ("operating system", "os"),
    ("kernel", "kernel"),
    ("virtual machine", "virtual_machine"),
    ("CPU", "cpu.model"),
    ("CPU cores", "cpu.cores"),
    ("memory (GiB)", "memory.total_gib"),
    ("driver", "driver.version"),
    ("CUDA of the driver", "driver.cuda"),
    ("links between GPUs", "topology.summary"),
    ("fingerprinted", "recorded_at"),
)


def _environment(host: Mapping[str, Any]) -> list[tuple[str, Words]]:
    """The leading facts of a fingerprint (config/schemas/environment.schema.yaml); what could not be read is absent."""
    rows: list[tuple[str, Words]] = []
    for label, path in _FACTS:
        here: Any = host
        for part in path.split("."):
            here = here[part] if isinstance(here, Mapping) and part in here else None
        if here is not None:
            rows.append((label, moment(here) if path == "recorded_at" else value_words(here)))
    inherited = ambient(host["environment"]) if host.get("environment") else {}
    if inherited:
        rows.append(
            ("inherited by servers", ", ".join(f"{name}={value}" for name, value in inherited.items()))
        )
    return rows


def _method(campaign: Campaign, pictures: Pictures) -> list[Block]:
    design = campaign.verdicts.design
    primary = f"{label_of(campaign.metric)} at load {campaign.load(design.primary.workload)}"
    windows = f"{design.windows} timed windows" if design.windows else "timed windows"
    most = f", at most {design.max_blocks}" if design.mode == "adaptive" else ""
    blocks = f"{count(design.blocks, 'block')} ({design.mode}{most})"
    said: list[Words] = [
        f"Asked for: {blocks}. Each block launches every variant once and the baseline twice (A and A'), each time a"
        " fresh server, in a random order.",
        f"A launch gives one number, the mean of its {windows}.",
        f"Verdicts rest on {primary}. The other metrics are shown beside it and decide nothing.",
        "In each block a variant is divided by the mean of A and A'; the change is the geometric mean over blocks,"
        f" with a paired t interval. WIN and LOSS need p below {threshold(design.alpha)} after Holm's correction, and"
        f" a change of at least {threshold(design.smallest_effect)}; NO_DIFFERENCE two one-sided tests within that.",
    ]
    if design.mode == "adaptive":
        said.append(
            "Variants stop when settled; intervals and p values allow for every look taken (docs/statistics.md)."
        )
    named = campaign.verdicts.generated_from
    sources = f"{len(named)} records" if len(named) > 3 else ", ".join(named)
    return [
        Items(
            [
                *said,
                f"Made by sglang-sweep from {sources or 'verdicts.json'}; every run rebuilds it, so do not edit.",
            ]
        )
    ]


def _notes(campaign: Campaign, pictures: Pictures) -> list[Block]:
    text = campaign.beside.notes.strip()
    return [Fold("The engineer's notes", [Notes(text)])] if text else []


SECTIONS: tuple[tuple[str, str, Callable[[Campaign, Pictures], list[Block]]], ...] = (
    ("Loads and baseline", "asked", _asked),
    ("Noise of this session", "noise", _noise),
    ("Pictures", "pictures", _figures),
    ("What load it carries", "ladders", _ladders),
    ("Where the time goes", "profiles", _profiles),
    ("When speculation pays", "speculation", _speculation),
    ("What collectives cost", "communication", _communication),
    ("Reopened by this stack or host", "reopened", _reopened),
    ("Host and stack", "host", _host),
    ("How it was measured", "method", _method),
    ("Notes", "notes", _notes),
)
"""Title, anchor and function of every section, in the order of reading."""


def sections(campaign: Campaign, pictures: Pictures) -> list[Section]:
    """Those that have something to show."""
    made = ((title, name, part(campaign, pictures)) for title, name, part in SECTIONS)
    return [Section(title, name, blocks) for title, name, blocks in made if blocks]
