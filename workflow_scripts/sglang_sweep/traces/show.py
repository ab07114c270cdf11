"""The breakdown as text for a terminal of 80 columns, readable without colour."""

from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

_LABELS = {
    "attention": "attention",
    "gemm": "matrix products",
    "norm_activation": "norm, activation",
    "all_reduce": "all-reduce",
    "other_collective": "other collectives",
    "sampling": "sampling",
    "copy": "copies",
    "other": "other",
}
_BAR = 18
_WORTH_SAYING_MS = 0.01


def show(breakdown: dict[str, Any], console: Console | None = None) -> None:
    """Prints a breakdown as ``analyze`` returns it."""
    console = console or Console(highlight=False, soft_wrap=False)
    if console.width > 100:
        console.width = 100
    console.print(_headline(breakdown))
    if breakdown["cycle"]:
        console.print()
        _cycle(breakdown["cycle"], breakdown["source"], console)
    for step in breakdown["steps"]:
        console.print()
        _step(step, breakdown, console)
    if breakdown["unmatched"]:
        console.print()
        _unmatched(breakdown["unmatched"], console)
    for note in breakdown["notes"]:
        console.print()
        console.print(f"[bold]note[/]  {escape(note)}")


def _headline(breakdown: dict[str, Any]) -> str:
    ranks = breakdown["ranks"]
    names = f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {', '.join(map(str, ranks))}"
    world = breakdown["world_size"]
    of = f" of {world}" if world and world != len(ranks) else ""
    where = ", ".join(breakdown["devices"]) or ("CPU" if breakdown["source"] == "cpu" else "unknown GPU")
    return f"[bold]{names}{of}[/]  {where}, attributed by {breakdown['attributed_by']}"


def _cycle(cycle: dict[str, Any], source: str, console: Console) -> None:
    of = {"speculative": "speculative cycle", "decode": "decode cycle"}.get(cycle["kind"], "cycle")
    reduces = f", {cycle['allreduces']:g} all-reduces costing {cycle['allreduce_ms']:.3f} ms"
    console.print(
        f"[bold]{of}[/]  {cycle['count']} recorded, busy {cycle['busy_ms']:.3f} ms"
        f"{reduces if cycle['allreduces'] else ''}"
    )
    if len(cycle["phases"]) > 1:
        table = _table("phase", "a cycle", "span ms", "busy ms", "share", "all-reduces")
        for phase in cycle["phases"]:
            table.add_row(
                phase["kind"],
                f"{phase['per_cycle']:g}",
                f"{phase['ms']:.3f}",
                f"{phase['busy_ms']:.3f}",
                _percent(phase["share"]),
                f"{phase['allreduces']:g}",
            )
        console.print(table)
    if cycle["period_ms"]:
        outside = cycle["outside_busy_ms"]
        worked = f" (GPU busy {outside:.3f})" if outside is not None and source == "gpu" else ""
        console.print(
            f"  period {cycle['period_ms']:.3f} ms, of it between the phases "
            f"{cycle['between_ms']:.3f} ms{worked}"
        )


def _step(step: dict[str, Any], breakdown: dict[str, Any], console: Console) -> None:
    batch = f" bs={step['batch_size']}" if step["batch_size"] is not None else ""
    tokens = step["tokens"]
    asked = ""
    if tokens:
        span = f"{tokens['min']}" if tokens["min"] == tokens["max"] else f"{tokens['min']}-{tokens['max']}"
        asked = f", {span} tokens"
    unit = "kernels" if breakdown["source"] == "gpu" else "operators"
    console.print(f"[bold]{step['kind']}{batch}[/]  {step['count']} recorded{asked}")
    waiting = f", waiting {step['waiting_ms']:.3f}" if step["waiting_ms"] is not None else ""
    console.print(
        f"  {step['ms_per_step']:.3f} ms a step: busy {step['busy_ms']:.3f}{waiting}, "
        f"gaps {_percent(step['gap_share'])}; {step['kernels_per_step']} {unit}"
    )
    table = _table("class", "ms", "of busy", "", unit, left=(0, 3))
    for name, row in sorted(step["classes"].items(), key=lambda item: -item[1]["ms_per_step"]):
        bar = "█" * max(round(row["share"] * _BAR), 0) or "▏"
        table.add_row(
            _LABELS[name],
            f"{row['ms_per_step']:.3f}",
            _percent(row["share"]),
            bar,
            f"{row['kernels_per_step']:g}",
        )
    console.print(table)
    _collective("all-reduce", step["allreduce"], console)
    for other in step["other_collectives"]:
        _collective(other["operation"].replace("_", "-"), other, console)


def _collective(name: str, row: dict[str, Any], console: Console) -> None:
    if not row["count_per_step"]:
        return
    sizes = row["message_bytes"]
    size = f" of {', '.join(_size(int(text)) for text in sizes)}" if sizes and len(sizes) < 4 else ""
    cost = "cost" if row["skew_ms"] is not None else "cost and waiting"
    console.print(
        f"  {name}: {row['count_per_step']} x {row['us_median']:.1f} us{size}, {row['path']}; "
        f"{cost} {row['ms_per_step']:.3f} ms, {_percent(row['share'])} of busy"
    )
    if row["skew_ms"] and row["skew_ms"] >= _WORTH_SAYING_MS:
        alone = row["one_rank_ms_per_step"]
        seen = ", ".join(f"rank {rank} {value:.2f}" for rank, value in alone.items())
        blame = row["skew_ms_by_late_rank"][str(row["late_rank"])]
        console.print(
            f"    skew {row['skew_ms']:.3f} ms, {blame:.3f} of it because rank {row['late_rank']} came late"
        )
        if len(alone) <= 4:
            console.print(f"    one rank alone would say (ms): {seen}")


def _unmatched(rows: list[dict[str, Any]], console: Console) -> None:
    console.print("[bold]unmatched[/]  no pattern in config/knowledge/kernels.yaml knows these")
    table = _table("share", "count", "step", "name", left=(2, 3))
    for row in rows:
        table.add_row(_percent(row["share"]), str(row["count"]), row["kind"], escape(row["name"][:160]))
    console.print(table)


def _table(*columns: str, left: tuple[int, ...] = (0,)) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1), show_edge=False)
    for number, name in enumerate(columns):
        table.add_column(name, justify="left" if number in left else "right", overflow="fold")
    return table


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _size(count: int) -> str:
    for limit, unit in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if count >= limit:
            return f"{count / limit:g} {unit}" if count % limit == 0 else f"{count / limit:.1f} {unit}"
    return f"{count} B"
