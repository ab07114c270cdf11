"""The command ``python -m sglang_sweep explain-log FILE``: what happened to this server?"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from sglang_sweep.errors import UserError
from sglang_sweep.evidence.explanation import Explanation, explain

WIDEST = 110

_OUTCOME = {"ready": "green", "failed": "red", "starting": "yellow", "unknown": "yellow"}
_STATE = {"engaged": ("+", "green"), "not_engaged": ("-", "red"), "unproven": ("?", "yellow")}
_ORDER = ("engaged", "not_engaged", "unproven")


def main(argv: Sequence[str] | None = None) -> int:
    """Explains one log on standard output. Returns 0, or 2 with a message on standard error for a bad file."""
    parser = argparse.ArgumentParser(
        prog="sglang_sweep explain-log",
        description="Say what happened to an SGLang server: outcome, cause with its line, what was really active.",
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="a server log, plain or .gz, from anywhere")
    parser.add_argument(
        "--sglang-version", metavar="V", help="the server's version, when you know it, such as 0.5.16"
    )
    parser.add_argument("--json", action="store_true", help="for machines")
    options = parser.parse_args(argv)
    try:
        found = explain(options.file, options.sglang_version)
    except UserError as error:
        print(f"explain-log: {error}", file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps(found.as_dict(), indent=1, ensure_ascii=False))
    else:
        console = Console(highlight=False)
        Console(highlight=False, width=min(console.width, WIDEST)).print(render(found))
    return 0


def render(found: Explanation) -> RenderableType:
    """The explanation for a terminal; it says the same without colour and at 80 columns."""
    parts: list[RenderableType] = [_headline(found), Text()]
    if found.evidence:
        parts += [_section("Shown by"), _lines(found.evidence), Text()]
    if found.remedies:
        parts += [_section("What to do"), *(_bullet(text) for text in found.remedies), Text()]
    if found.engaged:
        parts += [_section("What was really active"), _features(found.engaged), Text()]
    if found.notes:
        parts += [_section("Also"), *(_bullet(text) for text in found.notes), Text()]
    for title, rows in (
        ("Memory", list(_memory(found))),
        ("Serving", list(_serving(found))),
        ("NCCL", list(_nccl(found))),
    ):
        if rows:
            parts += [_section(title), _pairs(rows), Text()]
    if found.timeline:
        parts += [_section("Launch"), _timeline(found.timeline)]
    return Group(*parts)


def _headline(found: Explanation) -> Text:
    text = Text(found.outcome.upper(), style=f"bold {_OUTCOME[found.outcome]}")
    if found.cause:
        text.append(f"  {found.cause}", style="bold").append(f": {found.meaning}")
    elif found.outcome == "ready":
        text.append("  the server came up and served")
    elif found.phase == "compiling":
        text.append("  compiling kernels, with no error so far")
    elif found.outcome == "starting":
        text.append(f"  the log ends in phase {found.phase or 'unknown'}, with no error")
    else:
        text.append("  this does not look like the log of an SGLang server")
    version = f"SGLang {found.sglang_version}" if found.sglang_version else "SGLang version not shown"
    return text.append(f"\n{found.file} · {found.lines} lines · {version}", style="dim")


def _section(title: str) -> Text:
    return Text(title, style="bold underline")


def _bullet(text: str) -> Padding:
    table = Table.grid(padding=(0, 1))
    table.add_row(Text("•"), Text(text))
    return Padding(table, (0, 0, 0, 2), expand=False)


def _lines(rows: Sequence[dict[str, Any]]) -> Padding:
    table = Table.grid(padding=(0, 1))
    table.add_column(justify="right", no_wrap=True, style="cyan")
    table.add_column(overflow="fold")
    for row in rows:
        table.add_row(str(row["line"]), Text(row["text"]))
    return Padding(table, (0, 0, 0, 2), expand=False)


def _features(engaged: dict[str, dict[str, Any]]) -> Padding:
    table = Table.grid(padding=(0, 1))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for row in sorted(engaged.values(), key=lambda row: _ORDER.index(row["state"])):
        sign, colour = _STATE[row["state"]]
        said = Text(row["title"], style="bold").append(f": {row['state'].replace('_', ' ')}", style=colour)
        if row["note"]:
            said.append(f" ({row['note']})", style="default")
        if row["text"]:
            where = f"line {row['line']}: " if row["line"] else ""
            said.append(f"\n{where}{_short(row['text'])}", style="dim")
        table.add_row(Text(sign, style=f"bold {colour}"), said)
    return Padding(table, (0, 0, 0, 2), expand=False)


def _short(text: str, most: int = 150) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _pairs(rows: Sequence[tuple[str, str]]) -> Padding:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(Text(name), Text(value))
    return Padding(table, (0, 0, 0, 2), expand=False)


def _memory(found: Explanation) -> Iterator[tuple[str, str]]:
    m = found.memory
    if "mem_fraction_static" in m:
        yield "mem-fraction-static", str(m["mem_fraction_static"])
    if "weights_gb" in m:
        free = f", {m['gpu_free_before_load_gb']} GB were free" if "gpu_free_before_load_gb" in m else ""
        yield "weights", f"{m['weights_gb']} GB{free}"
    if "kv_tokens" in m:
        yield "KV cache", f"{m['kv_tokens']} tokens ({m.get('kv_sizes')})"
    if found.graphs:
        sizes = found.graphs["batch_sizes"]
        used = f", {m['graph_gb']} GB" if "graph_gb" in m else ""
        yield (
            "graphs",
            f"{len(sizes)} batch sizes up to {found.graphs['largest']}{used} (line {found.graphs['line']})",
        )
    if "gpu_free_gb" in m:
        yield "left free", f"{m['gpu_free_gb']} GB"


def _serving(found: Explanation) -> Iterator[tuple[str, str]]:
    s = found.serving
    if "max_running_requests" in s:
        yield (
            "limits",
            f"{s['max_running_requests']} running requests, {s.get('max_total_num_tokens')} KV tokens",
        )
    if "decode_batches" in s:
        outside = f", {s['decode_outside_graph']} outside a graph" if s.get("decode_outside_graph") else ""
        yield "decode steps", f"{s['decode_batches']} logged, up to {s['most_running']} running{outside}"
    if "accept_length" in s:
        yield "accept length", str(s["accept_length"])
    if "prompt_tokens" in s:
        yield "prompt tokens", f"{s['prompt_tokens']} of which {s['cached_tokens']} from the prefix cache"


def _nccl(found: Explanation) -> Iterator[tuple[str, str]]:
    if "nccl_version" in found.serving:
        yield "version", str(found.serving["nccl_version"])
    for row in found.collectives[:12]:
        low, high = row["from_bytes"], row["to_bytes"]
        size = _bytes(low) if low == high else f"{_bytes(low)} to {_bytes(high)}"
        fewest, most = row["channels"]
        channels = f"{most} channels" if fewest == most else f"{fewest} to {most} channels"
        yield (
            row["function"],
            f"{size}: {row['algorithm']} {row['protocol']}, {channels}, {row['count']} calls",
        )
    if len(found.collectives) > 12:
        yield "", f"and {len(found.collectives) - 12} more (--json has all)"


def _bytes(size: int) -> str:
    for unit, scale in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= scale:
            return f"{size / scale:.4g} {unit}"
    return f"{size} B"


def _timeline(rows: Sequence[dict[str, Any]]) -> Padding:
    table = Table.grid(padding=(0, 2))
    table.add_column(justify="right", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_column(style="dim", no_wrap=True)
    for row in rows:
        seconds = "" if row["seconds"] is None else f"{row['seconds']:.0f} s"
        table.add_row(seconds, Text(row["title"]), f"line {row['line']}")
    return Padding(table, (0, 0, 0, 2), expand=False)
