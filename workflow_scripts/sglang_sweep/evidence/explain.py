"""The command ``sglang-sweep explain-log FILE``: what happened to this server?"""

import argparse
import json
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from sglang_sweep.errors import UserError
from sglang_sweep.evidence.explanation import Explanation, by_urgency, explain

STATUS = {"ready": 0, "failed": 1, "hung_or_cut": 1, "compiling": 1, "unknown": 2}
DEGRADED = 3
POLL_S = 2.0

_COLOUR = {"ready": "green", "failed": "red"}
_STATE = {"engaged": ("+", "green"), "not_engaged": ("-", "red"), "unproven": ("?", "yellow")}
_ORDER = ("engaged", "not_engaged", "unproven")
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def main(argv: Sequence[str] | None = None) -> int:
    """Explains logs on standard output.

    Returns 0 for a healthy server, 1 for one that failed, hangs or is not up, 2 for input that is no server log, 3 for
    one that is up and serves badly; of several the worst.
    """
    parser = argparse.ArgumentParser(
        prog="sglang-sweep explain-log",
        description="Say what happened to an SGLang server: outcome, cause with its line, what was really active.",
        epilog="Exit status: 0 healthy, 1 failed, hung or not up, 2 no server log, 3 up but degraded.",
    )
    parser.add_argument(
        "files", type=Path, nargs="+", metavar="FILE",
        help="a server log, plain or .gz, from anywhere; - for standard input; several are nodes of one server",
    )  # fmt: skip
    parser.add_argument(
        "--sglang-version", metavar="V", help="the server's version, when you know it, such as 0.5.16"
    )
    parser.add_argument("--json", action="store_true", help="for machines")
    parser.add_argument("--follow", action="store_true", help="go on reading; say so when the state changes")
    options = parser.parse_args(argv)
    try:
        if options.follow:
            if len(options.files) > 1 or str(options.files[0]) == "-":
                raise UserError("--follow reads one file", key="--follow", remedy="name one file")
            return _follow(options.files[0], options.sglang_version)
        found = by_urgency(
            [one for file in options.files for one in _explained(file, options.sglang_version)]
        )
    except UserError as error:
        print(f"explain-log: {error}", file=sys.stderr)
        return 2
    if options.json:
        whole: Any = found[0].as_dict() if len(found) == 1 else [one.as_dict() for one in found]
        print(json.dumps(whole, indent=1, ensure_ascii=False, allow_nan=False))
    else:
        show(found)
    return max(map(status, found), key=lambda code: (code == 1, code == DEGRADED, code))


def status(found: Explanation) -> int:
    """The exit status that an explanation stands for."""
    degraded = found.outcome == "ready" and found.service and found.service["state"] == "degraded"
    return DEGRADED if degraded else STATUS[found.outcome]


def _explained(file: Path, version: str | None) -> list[Explanation]:
    if str(file) != "-":
        return explain(file, version)
    with tempfile.NamedTemporaryFile(suffix=".log") as kept:
        shutil.copyfileobj(sys.stdin.buffer, kept)
        kept.flush()
        found = explain(Path(kept.name), version)
    for one in found:
        one.file = "standard input"
    return found


def _follow(file: Path, version: str | None) -> int:
    """Explains a growing log until its server has failed, or until Ctrl-C."""
    said, size = "", -1
    code = 1
    try:
        while True:
            if file.exists() and file.stat().st_size != size:
                size = file.stat().st_size
                began = time.monotonic()
                newest = max(explain(file, version), key=lambda one: one.first_line) if size else None
                if newest and newest.headline != said:
                    said, code = newest.headline, status(newest)
                    show([newest])
                    if newest.outcome == "failed":
                        return code
                time.sleep(4 * (time.monotonic() - began))  # a large log is not read all the time
            time.sleep(POLL_S)
    except KeyboardInterrupt:
        return code


def show(found: Sequence[Explanation]) -> None:
    """Prints explanations, the most urgent first; never wrapped or padded, so that lines can be copied and searched."""
    console = Console(highlight=False, soft_wrap=True)
    if len(found) > 1:
        nodes = all(one.node for one in found)
        counts = Counter(_state(one) for one in found)
        several = f"{len(found)} {'nodes of one server' if nodes else 'servers'}"
        console.print(
            Text(f"{several}: {', '.join(f'{n} {state}' for state, n in counts.items())}\n", style="bold")
        )
    for index, one in enumerate(found):
        if index:
            console.print()
        for line in render(one):
            console.print(line)


def _state(found: Explanation) -> str:
    return "degraded" if status(found) == DEGRADED else found.outcome.replace("_", " ")


def _safe(text: str) -> str:
    """Without control characters: a log must not speak to the terminal."""
    return _UNPRINTABLE.sub("", text)


def render(found: Explanation) -> Iterator[Text]:
    """The explanation, line by line; it says the same without colour."""
    colour = "yellow" if status(found) == DEGRADED else _COLOUR.get(found.outcome, "yellow")
    first, colon, rest = found.headline.partition(":")
    yield Text(_safe(first + colon), style=f"bold {colour}").append(_safe(rest), style="default")
    troubles = found.service["problems"] if found.service else []
    shown = (
        {"line": troubles[0]["first_line"], **troubles[0]} if troubles else next(iter(found.evidence), None)
    )
    if shown:
        yield Text(f"  line {shown['line']}: {_safe(shown['text'])}")
    if found.reason and (not shown or _safe(found.reason) not in _safe(shown["text"])):
        yield Text(f"  {_safe(found.reason)}")
    yield from _section("What to do", (Text(f"  - {_safe(text)}") for text in found.remedies))
    yield from _section("Where", (Text(f"  {_safe(frame)}") for frame in found.frames))
    yield from _section("Also shown by", map(_at_line, found.evidence[1:]))
    yield from _section("What followed from it", map(_at_line, found.cascade))
    if found.service:
        yield from _section("Service", (_trouble(row) for row in found.service["problems"]))
    ends = (
        Text(f"  {rank:<8} line {row['line']}: {_safe(row['text'])}")
        for rank, row in found.last_of_rank.items()
    )
    yield from _section("The last line of each rank", ends)
    yield from _section("What was really active", _features(found.engaged))
    yield from _section("Also", (Text(f"  - {_safe(text)}") for text in found.notes))
    named = (("Settings", found.settings.items()), ("Memory", _memory(found)), ("Serving", _serving(found)))
    for title, rows in (*named, ("NCCL", _nccl(found))):
        yield from _section(title, (Text(f"  {name:<20} {_safe(str(value))}") for name, value in rows))
    yield from _section("Launch", _timeline(found.timeline))
    version = f"SGLang {found.sglang_version}" if found.sglang_version else "SGLang version not shown"
    where = f" from line {found.first_line}" if found.first_line > 1 else ""
    source = f" · {found.server}" if found.server else ""
    yield Text(f"\n{found.file}{source} · {found.lines} lines{where} · {version}", style="dim")


def _section(title: str, lines: Any) -> Iterator[Text]:
    rows = list(lines)
    if rows:
        yield Text(f"\n{title}", style="bold")
        yield from rows


def _at_line(row: dict[str, Any]) -> Text:
    return Text(f"  line {row['line']}: {_safe(row['text'])}")


def _trouble(row: dict[str, Any]) -> Text:
    span = f", {row['from']} to {row['to']}" if row["from"] else ""
    named = f"{row['kind'].replace('_', ' ')} {row['detail']}".strip()
    return Text(
        f"  {row['count']} x {named}, lines {row['first_line']} to {row['last_line']}{span}: {_safe(row['text'])}"
    )


def _features(engaged: dict[str, dict[str, Any]]) -> Iterator[Text]:
    for row in sorted(engaged.values(), key=lambda row: _ORDER.index(row["state"])):
        sign, colour = _STATE[row["state"]]
        said = Text(f"  {sign} {row['title']}: {row['state'].replace('_', ' ')}", style=colour)
        if row["note"]:
            said.append(f" ({_safe(row['note'])})", style="default")
        yield said
        if row["text"]:
            where = f"line {row['line']}: " if row["line"] else ""
            yield Text(f"      {where}{_short(_safe(row['text']))}", style="dim")


def _short(text: str, most: int = 150) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


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
        yield (
            "graphs",
            f"{len(sizes)} batch sizes up to {found.graphs['largest']} (line {found.graphs['line']})",
        )
    for what, size in m.get("graphs_gb", {}).items():
        yield f"graphs, {what}", f"{size} GB"
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


def _timeline(rows: Sequence[dict[str, Any]]) -> Iterator[Text]:
    for row in rows:
        seconds = "" if row["seconds"] is None else f"{row['seconds']:.0f} s"
        yield Text(f"  {seconds:>8}  {row['title']}, line {row['line']}")
