"""Reads a server log once, in constant memory.

Speed: a log of millions of lines has few kinds of line. Lines that differ only in their digits share a
template, and the patterns are tried once for each template, on lines that hold one of their required texts.
"""

import re
from collections.abc import Iterable
from datetime import datetime
from itertools import zip_longest
from pathlib import Path
from typing import Any

from sglang_sweep.evidence.arguments import parse_arguments
from sglang_sweep.evidence.conditions import holds
from sglang_sweep.evidence.knowledge import Entry, Knowledge
from sglang_sweep.evidence.lines import printed_lines
from sglang_sweep.evidence.log import Answers, Collective, Hit, Line, LogScan, Mark, Stack
from sglang_sweep.evidence.tracebacks import HEADER, Block, Collector

MOST_TEMPLATES = 20_000
MOST_BLOCKS = 50
MOST_COLLECTIVES = 4_000
LONGEST_TEXT = 1000
FAR_IN = 80
CACHED_SHARE = 0.02
"""Of a prompt's tokens, above which a prefill shows the prefix cache at work and not just a shared first token."""

_DIGITS = b"0123456789"
_STAMP = re.compile(rb"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?: ([A-Z][\w ]*?))?\]")
_FAILED_REQUEST = re.compile(rb'"[A-Z]+ ([^\s?"]+)\S* HTTP/[\d.]+" (5\d\d)')
_DUMPED = re.compile(rb"^Process \d+: (.+)$")
_THREAD = re.compile(
    rb'^(?:Current thread|Thread) \S+(?: \([^)]*\))?(?:: "(?P<name>[^"]*)"| \(most recent call first\):|:)?'
)
_STOOD = re.compile(
    rb'^\s+(?:File "(?P<file>[^"]+)", line \d+ in (?P<function>\S+)'
    rb"|(?P<native>\S.*?) \((?P<place>[^()\s]+?)(?::\d+)?\))$"
)
_RANK = re.compile(rb"scheduler_?((?:DP\d+ ?_?)?(?:[A-Z]+\d+[ _]?)*)")
MOST_STACKS, MOST_RATES = 64, 40
FULL = 0.98
"""Token usage from which the KV cache is called full."""
_RANKED = re.compile(rb"^\[rank(\d+)\]:")
_HEADED_BY = re.compile(rb"^Process \S+:$|Exception in thread|^Exception ignored in")


def scan(path: Path, knowledge: Knowledge, entries: Iterable[Entry] | None = None) -> LogScan:
    """What one server printed: of several in a file, the newest. Raises UserError for no text file."""
    return scan_servers(path, knowledge, entries)[-1]


def scan_servers(path: Path, knowledge: Knowledge, entries: Iterable[Entry] | None = None) -> list[LogScan]:
    """Reads ``path`` once against the knowledge's entries (or the given ones); a result for each server in it.

    A server begins where its resolved arguments are printed: by another source, or by the same one after an earlier
    server got somewhere. Raises UserError for no text file.
    """
    chosen = tuple(entry for entry in (knowledge.entries() if entries is None else entries) if entry.of_lines)
    prefixes = [re.compile(prefix.encode()) for prefix in knowledge.log["line_prefixes"]]
    servers = [_Scanner(path, knowledge, chosen)]
    by_source: dict[bytes, _Scanner] = {}
    number = 0
    for number, text, source in printed_lines(path, prefixes):
        one = by_source.get(source, servers[0])
        if b"server_args=" in text and _BEGINS.search(text):
            if source not in by_source and not servers[0].result.arguments and not servers[0].stillborn():
                one.begin(number if by_source else 1, source)
            elif source not in by_source or one.got_somewhere or one.stillborn():
                one = _Scanner(path, knowledge, chosen)
                one.begin(number, source)
                servers.append(one)
            else:
                one.result.mixed = True
            by_source[source] = one
        if b"\r" in text:  # ends of lines elsewhere, and progress bars, which write over themselves
            for piece in text.rstrip(b"\r").split(b"\r"):
                one.take(piece, number)
        else:
            one.take(text, number)
    ended = [one.end(number if one is servers[-1] else one.number) for one in servers]
    return [part for one in ended for part in _with_stillborn(one)]


def _with_stillborn(log: LogScan) -> list[LogScan]:
    """Apart from it, servers that died of their arguments before they printed them, behind this one."""
    late = [block for block in log.blocks if block.of_arguments]
    hit = log.hits.get("argparse")
    if log.arguments_line is None:
        late = late[1:]
        hit = None
    else:
        late = [block for block in late if block.line > log.arguments_line.number]
        hit = hit if hit and hit.first.number > log.arguments_line.number else None
    if not late and not hit:
        return [log]
    log.blocks = [block for block in log.blocks if block not in late]
    parts = []
    for block in late:
        block.phase = None
        parts.append(LogScan(log.path, began=block.line, source=log.source, blocks=[block]))
    if hit:
        del log.hits["argparse"]
        parts.append(LogScan(log.path, began=hit.first.number, source=log.source, hits={"argparse": hit}))
    parts = [log, *sorted(parts, key=lambda part: part.began)]
    end = log.lines
    for part, after in zip_longest(parts, parts[1:]):
        part.last_line, part.lines = log.last_line, after.began - 1 if after else end
    return parts


_BEGINS = re.compile(rb"server_args=(?:ServerArgs\(|\{)")


class _Scanner:
    def __init__(self, path: Path, knowledge: Knowledge, entries: tuple[Entry, ...]) -> None:
        self.result = LogScan(path)
        chosen = entries
        self.number, self.stamped = 0, b""
        self.dump: Stack | None = None
        self.last_of: dict[bytes, tuple[int, bytes]] = {}
        self.process = b""
        self.full = 0
        self.problems = {entry.id for entry in chosen if entry.data.get("problem")}
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
        self.templates: dict[bytes, tuple[Entry, ...]] = {}
        self.collector = Collector()
        self.phase_of: dict[str | None, str] = {}
        self.seen_marks: set[tuple[str, str | None]] = set()
        self.previous = b""

    def begin(self, number: int, source: bytes) -> None:
        """Where in the file this server begins, and who prints it."""
        self.result.began, self.result.source = number, source.decode("utf-8", "replace")

    @property
    def got_somewhere(self) -> bool:
        """Whether the server did anything after its arguments were resolved: a new one may then have begun."""
        return len(self.result.marks) > 1 or bool(self.result.blocks) or self.collector.open

    def stillborn(self) -> bool:
        """Whether it died of its arguments before it printed them."""
        self.keep(self.collector.close())
        return "argparse" in self.result.hits or any(block.of_arguments for block in self.result.blocks)

    def end(self, lines: int) -> LogScan:
        """The result, once there are no more lines."""
        result = self.result
        result.lines = lines
        self.keep(self.collector.close())
        if self.previous:
            result.last_line = _line(self.number, self.previous)
        result.last_time = _time(self.stamped[1:20]) if self.stamped else None
        result.ranks = {
            rank.decode(): _line(*last) for rank, last in sorted(self.last_of.items(), key=_by_rank)
        }
        return result

    def take(self, raw: bytes, number: int) -> None:
        self.number = number
        if not raw:
            self.dump = None
            if self.collector.open:
                self.keep(self.collector.feed(raw, number))
            return
        if raw.startswith(b"[2"):
            self.stamped, self.dump = raw[:48], None
            self.result.last_stamped = number
            if raw[20:21] == b" " and (close := raw.find(b"]", 21, 48)) > 0:
                self.last_of[raw[21:close]] = number, raw
            if b'" 5' in raw and (failed := _FAILED_REQUEST.search(raw)):
                self.failed_request(failed, raw, number)
        elif raw.startswith((b"Process ", b"Thread ", b"Current thread ")) or self.dump is not None:
            self.dumped(raw, number)
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
        self.previous = raw

    def failed_request(self, found: re.Match[bytes], raw: bytes, number: int) -> None:
        if self.result.ready is None:
            return  # a server that is not up yet answers 503, as it should
        line, when = _line(number, raw), _time(raw[1:20])
        path, status = (word.decode("utf-8", "replace") for word in found.groups())
        known = self.result.answers.setdefault((status, path), Answers(0, line, line, when, when))
        known.count, known.last, known.ended = known.count + 1, line, when

    def dumped(self, raw: bytes, number: int) -> None:
        """Lines of a stack dump by py-spy or faulthandler: the main thread of each process is kept."""
        if process := _DUMPED.match(raw):
            self.process, self.dump = process[1], None
        elif thread := _THREAD.match(raw):
            of_rank = _RANK.search(self.process)
            rank = (of_rank[1] if of_rank and of_rank[1] else _rank_of(self.stamped)).decode().strip()
            wanted = thread["name"] in (None, b"MainThread") and len(self.result.stacks) < MOST_STACKS
            self.dump = Stack(rank, [], _line(number, raw)) if wanted else None
            if self.dump is not None:
                self.result.stacks.append(self.dump)
        elif self.dump is not None and (frame := _STOOD.match(raw)) and len(self.dump.frames) < MOST_RATES:
            function, file = frame["function"] or frame["native"], frame["file"] or frame["place"]
            self.dump.frames.append(
                f"{function.decode('utf-8', 'replace')} ({file.decode('utf-8', 'replace')})"
            )

    def matching(self, raw: bytes) -> tuple[Entry, ...]:
        """The entries whose pattern the line matches; only those are tried of whose texts it holds one."""
        told = {entry.id: entry for text in self.speaking if text in raw for entry in self.speaking[text]}
        return tuple(entry for entry in (*self.always, *told.values()) if entry.found_in(raw))

    def hit(self, entry: Entry, raw: bytes, number: int) -> None:
        old = self.result.hits.get(entry.id)
        if old is not None and entry.id not in self.phases:
            old.count += 1  # with a `when`: lines of a template that matched once
            if entry.id in self.problems:
                old.last, old.ended = _line(number, raw), _time(self.stamped[1:20])
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
            when = _time(self.stamped[1:20])
            self.result.hits[entry.id] = Hit(1, line, groups, line, when, when)
            for name, value in groups.items():
                self.result.facts.setdefault(name, (value, line))
        if entry.id == "graph-capture-done" and "graph_gb" in groups:
            self.result.graphs.setdefault(groups.get("capture", "cuda").lower(), float(groups["graph_gb"]))
        if entry.id in self.phases:
            self.mark(entry, raw, number)

    def mark(self, entry: Entry, raw: bytes, number: int) -> None:
        stamp = _STAMP.search(raw)
        rank = stamp[2].decode() if stamp and stamp[2] else None
        time = _time(stamp[1]) if stamp else None
        result = self.result
        if entry.id in ("ready", "worker-ready", "http", "stopping"):
            self.phase_of.clear()  # a phase of the whole server ends every rank's
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
        stamp = _STAMP.search(raw) or _STAMP.search(self.stamped)
        rank = stamp[2].decode() if stamp and stamp[2] and HEADER in raw and _STAMP.search(raw) else None
        if ranked := _RANKED.match(raw):
            rank = ranked[1].decode()
        header = raw.split(HEADER)[0].decode("utf-8", "replace").strip()
        before = self.previous.decode("utf-8", "replace").strip()
        if not header and _HEADED_BY.search(self.previous):
            header = before
        phase = self.phase_of.get(rank, self.phase_of.get(None))
        self.collector.begin(
            Block(header, number, rank, phase, time=_time(stamp[1]) if stamp else None, before=before)
        )

    def keep(self, block: Block | None) -> None:
        if block is not None and len(self.result.blocks) < MOST_BLOCKS:
            self.result.blocks.append(block)

    def batch(self, raw: bytes, number: int) -> bool:
        if self.phase_of.get(None) != "serving" and self.result.mark("scheduler-up"):
            self.phase_of = {None: "serving"}  # whatever a rank was last seen doing, it is done
        if self.decode_line in raw:
            self.load(raw)
            return self.decode_step(raw, number)
        return self.prefill_line in raw and self.prefill_step(raw, number)

    def load(self, raw: bytes) -> None:
        """How full the KV cache is while requests wait, and how fast a number of requests is served."""
        batches = self.result.batches
        waiting = self.decode["waiting"].search(raw)
        usage = self.decode["usage"].search(raw)
        self.full = self.full + 1 if waiting and usage and int(waiting[1]) and float(usage[1]) > FULL else 0
        batches.full = max(batches.full, self.full)
        running, rate = self.decode["running"].search(raw), self.decode["rate"].search(raw)
        if running and rate and float(rate[1]):
            rates = batches.rates.setdefault(int(running[1]), [])
            rates.append(float(rate[1]))
            if len(rates) > MOST_RATES:
                del rates[MOST_RATES // 2]  # the first and the last are kept

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


def _rank_of(stamped: bytes) -> bytes:
    """The rank in a line's stamp, ``[2026-11-30 09:35:24 TP1]``; empty for the parent's."""
    close = stamped.find(b"]", 21)
    return stamped[21:close] if stamped[20:21] == b" " and close > 0 else b""


def _by_rank(item: tuple[bytes, Any]) -> list[int]:
    return [int(number) for number in re.findall(rb"\d+", item[0])]


def _time(stamp: bytes) -> datetime | None:
    try:
        return datetime.strptime(stamp.decode(), "%Y-%m-%d %H:%M:%S")
    except ValueError:
        return None
