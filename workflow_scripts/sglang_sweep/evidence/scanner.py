"""Reads a server log once, in constant memory.

Speed: a log of millions of lines has few kinds of line. Lines that differ only in their digits share a
template, and the patterns are tried once for each template, on lines that hold one of their required texts.
"""

import re
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

from sglang_sweep.evidence.arguments import parse_arguments
from sglang_sweep.evidence.conditions import holds
from sglang_sweep.evidence.knowledge import Entry, Knowledge
from sglang_sweep.evidence.lines import read_lines
from sglang_sweep.evidence.log import Collective, Hit, Line, LogScan, Mark
from sglang_sweep.evidence.tracebacks import HEADER, Block, Collector

MOST_TEMPLATES = 20_000
MOST_BLOCKS = 50
MOST_COLLECTIVES = 4_000
LONGEST_TEXT = 400
FAR_IN = 80
CACHED_SHARE = 0.02
"""Of a prompt's tokens, above which a prefill shows the prefix cache at work and not just a shared first token."""

_DIGITS = b"0123456789"
_ANSI = re.compile(rb"\x1b\[[0-9;]*m")
_STAMP = re.compile(rb"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?: ([A-Z][\w ]*?))?\]")
_HEADED_BY = re.compile(rb"^Process \S+:$|Exception in thread|^Exception ignored in")


def scan(path: Path, knowledge: Knowledge, entries: Iterable[Entry] | None = None) -> LogScan:
    """Reads ``path`` once against the knowledge's entries (or the given ones). Raises UserError for no text file."""
    return _Scanner(path, knowledge, tuple(knowledge.entries() if entries is None else entries)).run()


class _Scanner:
    def __init__(self, path: Path, knowledge: Knowledge, entries: tuple[Entry, ...]) -> None:
        self.result = LogScan(path)
        chosen = tuple(entry for entry in entries if entry.of_lines)
        self.always = tuple(entry for entry in chosen if not entry.texts)
        self.speaking: dict[bytes, list[Entry]] = {}
        for entry in chosen:
            for text in entry.texts or ():
                self.speaking.setdefault(text, []).append(entry)
        self.phases = {entry.id for entry in knowledge.phases}
        batches = knowledge.log["batches"]
        self.decode, self.prefill = (
            {name: re.compile(pattern.encode()) for name, pattern in batches[kind].items()}
            for kind in ("decode", "prefill")
        )
        self.decode_line, self.prefill_line = (
            batches[kind]["line"].encode() for kind in ("decode", "prefill")
        )
        self.collective = re.compile(batches["collective"].encode())
        self.choices: dict[bytes, Collective | None] = {}
        self.prefixes = [re.compile(prefix.encode()) for prefix in knowledge.log["line_prefixes"]]
        self.prefix: re.Pattern[bytes] | None = None
        self.templates: dict[bytes, tuple[Entry, ...]] = {}
        self.collector = Collector()
        self.phase_of: dict[str | None, str] = {}
        self.seen_marks: set[tuple[str, str | None]] = set()
        self.previous = b""

    def run(self) -> LogScan:
        result = self.result
        number = 0
        for number, raw in enumerate(read_lines(result.path), start=1):
            if b"\x1b" in raw:
                raw = _ANSI.sub(b"", raw)
            if number == 1:
                self.prefix = next((prefix for prefix in self.prefixes if prefix.match(raw)), None)
            if self.prefix is not None:
                raw = self.prefix.sub(b"", raw, count=1)
            for piece in raw.split(b"\r") if b"\r" in raw else (raw,):
                self.take(piece, number)
        result.lines = number
        self.keep(self.collector.close())
        if self.previous:
            result.last_line = _line(number, self.previous)
        return result

    def take(self, raw: bytes, number: int) -> None:
        if not raw:
            if self.collector.open:
                self.keep(self.collector.feed(raw, number))
            return
        if HEADER in raw:
            self.traceback(raw, number)
        elif self.collector.open:
            self.keep(self.collector.feed(raw, number))
        if b" batch" in raw and b"#" in raw and self.batch(raw, number):
            self.previous = raw
            return
        if b"-> Algo" in raw:
            self.nccl_choice(raw, number)
        template = raw.translate(None, _DIGITS)
        known = self.templates.get(template)
        if known is None:
            if len(self.templates) >= MOST_TEMPLATES:
                self.templates.clear()
            known = self.matching(raw)
            self.templates[template] = known
        for entry in known:
            self.hit(entry, raw, number)
        if raw.startswith(b"[2"):
            self.result.last_stamped = number
        self.previous = raw

    def matching(self, raw: bytes) -> tuple[Entry, ...]:
        """The entries whose pattern the line matches; only those are tried of whose texts it holds one."""
        told = {entry.id: entry for text in self.speaking if text in raw for entry in self.speaking[text]}
        return tuple(entry for entry in (*self.always, *told.values()) if entry.found_in(raw))

    def hit(self, entry: Entry, raw: bytes, number: int) -> None:
        old = self.result.hits.get(entry.id)
        if old is not None and entry.id not in self.phases:
            old.count += 1  # with a `when`: lines of a template that matched once
            return
        assert entry.pattern is not None
        match = entry.pattern.search(raw)
        if match is None:
            return
        groups = {k: v.decode("utf-8", "replace") for k, v in match.groupdict().items() if v is not None}
        if not all(holds(groups.get(name), wanted) for name, wanted in entry.data.get("when", {}).items()):
            return
        if old is not None:
            old.count += 1
        else:
            # Ranks write over each other's progress bars: begin where the match does, if that is far in.
            line = _line(number, raw[match.start() :] if match.start() > FAR_IN else raw)
            self.result.hits[entry.id] = Hit(1, line, groups)
            for name, value in groups.items():
                self.result.facts.setdefault(name, (value, line))
        if entry.id in self.phases:
            self.mark(entry, raw, number)

    def mark(self, entry: Entry, raw: bytes, number: int) -> None:
        stamp = _STAMP.search(raw)
        rank = stamp[2].decode() if stamp and stamp[2] else None
        time = _time(stamp[1]) if stamp else None
        result = self.result
        self.phase_of[rank] = self.phase_of[None] = entry.id
        if (entry.id, rank) not in self.seen_marks:
            self.seen_marks.add((entry.id, rank))
            result.marks.append(Mark(entry.id, entry.data["title"], rank, _line(number, raw), time))
        result.first_time = result.first_time or time
        if entry.id == "stopping" and result.stopping_line is None:
            result.stopping_line = number
        if entry.id == "arguments" and not result.arguments:
            result.arguments = parse_arguments(raw.decode("utf-8", "replace"))
            result.arguments_line = _line(number, raw)

    def traceback(self, raw: bytes, number: int) -> None:
        if self.collector.open:
            self.keep(self.collector.feed(raw, number))
            if self.collector.open:
                return
        stamp = _STAMP.search(raw)
        rank = stamp[2].decode() if stamp and stamp[2] else None
        header = raw.split(HEADER)[0].decode("utf-8", "replace").strip()
        before = self.previous.decode("utf-8", "replace").strip()
        if not header and _HEADED_BY.search(self.previous):
            header = before
        self.collector.begin(header, before, number, rank, self.phase_of.get(rank, self.phase_of.get(None)))

    def keep(self, block: Block | None) -> None:
        if block is not None and len(self.result.blocks) < MOST_BLOCKS:
            self.result.blocks.append(block)

    def batch(self, raw: bytes, number: int) -> bool:
        if self.decode_line in raw:
            return self.decode_step(raw, number)
        return self.prefill_line in raw and self.prefill_step(raw, number)

    def decode_step(self, raw: bytes, number: int) -> bool:
        running_found, graph_found = self.decode["running"].search(raw), self.decode["graph"].search(raw)
        if running_found is None or graph_found is None:
            return False
        batches, running = self.result.batches, int(running_found[1])
        batches.decode += 1
        batches.running += running
        batches.most_running = max(batches.most_running, running)
        inside = graph_found[1] == b"True"
        if not inside:
            batches.outside_graph += 1
            batches.running_outside_graph += running
        kinds = ["decode_in_graph" if inside else "decode_outside_graph"]
        if accepted := self.decode["accept"].search(raw):
            batches.accept_sum += float(accepted[1]) * max(running, 1)
            batches.accept_weight += max(running, 1)
            kinds.append("accept_length")
        self.first(kinds, raw, number)
        return True

    def prefill_step(self, raw: bytes, number: int) -> bool:
        new_found, cached_found = self.prefill["new"].search(raw), self.prefill["cached"].search(raw)
        if new_found is None or cached_found is None:
            return False
        batches, new, cached = self.result.batches, int(new_found[1]), int(cached_found[1])
        batches.prefill_new += new
        batches.prefill_cached += cached
        self.first(
            ["prefill", "prefill_cached"] if cached > CACHED_SHARE * (new + cached) else ["prefill"],
            raw,
            number,
        )
        return True

    def first(self, kinds: Iterable[str], raw: bytes, number: int) -> None:
        for kind in kinds:
            if kind not in self.result.batches.first:
                self.result.batches.first[kind] = _line(number, raw)

    def nccl_choice(self, raw: bytes, number: int) -> None:
        """Counts NCCL's choice; the same text after the process's name is the same choice."""
        text = raw[raw.find(b"NCCL INFO") :]
        known = self.choices.get(text)
        if known is not None:
            known.count += 1
        elif text not in self.choices and len(self.choices) < MOST_COLLECTIVES:
            match = self.collective.search(text)
            self.choices[text] = self.choice(match, number, text) if match else None

    def choice(self, match: re.Match[bytes], number: int, text: bytes) -> Collective:
        words = {name: value.decode() for name, value in match.groupdict().items()}
        key = (words["function"], int(words["bytes"]), words["algorithm"], words["protocol"])
        channels = int(words["high"]) - int(words["low"]) + 1
        known = self.result.collectives.setdefault(key, Collective(*key, channels, 0, _line(number, text)))
        known.count += 1
        return known


def _line(number: int, raw: bytes) -> Line:
    return Line(number, raw.decode("utf-8", "replace").strip()[:LONGEST_TEXT])


def _time(stamp: bytes) -> datetime | None:
    try:
        return datetime.strptime(stamp.decode(), "%Y-%m-%d %H:%M:%S")
    except ValueError:
        return None
