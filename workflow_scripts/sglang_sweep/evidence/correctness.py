"""Are the variant's answers still right? Greedy probe outputs against the baseline's, and token counts that must agree.

Pure functions on launch.json records. A faster server that answers garbage with HTTP 200 is WRONG_OUTPUT.
"""

import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

AGREEMENT = 0.35
"""Least share of tokens, up to the first divergence, that a numeric change must keep. One early flip of a near tie
changes everything after it, so this is generous; garbage agrees on almost nothing."""

LOGPROB_DISTANCE = 0.5
"""Most mean absolute difference, in nats, of the log-probabilities of the tokens before the first divergence."""

TIE = 0.05
"""Two tokens whose log-probabilities differ by less, at a divergence, are a tie: summing in another order turns it."""

REPETITION = 0.9
"""Share of one token among the output above which it is degenerate, unless the baseline's is too."""

Answer = Mapping[str, Any]


@dataclass
class Comparison:
    """``ok`` is None when outputs cannot be compared. ``agreement`` is a share of tokens, distances are in nats."""

    ok: bool | None
    tolerance: str
    agreement: float | None = None
    baseline_agreement: float | None = None
    logprob_distance: float | None = None
    reason: str | None = None
    notes: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """As in verdicts.json; state is ok, wrong or not_comparable."""
        state = {True: "ok", False: "wrong", None: "not_comparable"}[self.ok]
        rounded = {
            name: round(value, 4) if value is not None else None
            for name, value in (
                ("agreement", self.agreement),
                ("baseline_agreement", self.baseline_agreement),
                ("logprob_distance", self.logprob_distance),
            )
        }
        return {
            "ok": self.ok,
            "state": state,
            "tolerance": self.tolerance,
            **rounded,
            "reason": self.reason,
            "notes": self.notes,
        }


def judge(
    variant: Sequence[Mapping[str, Any]],
    baseline: Sequence[Mapping[str, Any]],
    tolerance: str,
    *,
    dummy_weights: bool = False,
    simulated: bool = False,
) -> Comparison:
    """Compares the probes of a variant's launches with those of the baseline's.

    ``exact`` demands identical tokens up to a numerical tie, but never more than the baseline's own launches
    keep among themselves (A against A'); otherwise, and for ``numeric``, AGREEMENT and LOGPROB_DISTANCE apply.
    """
    ours, theirs = _probes(variant), _probes(baseline)
    result = Comparison(None, tolerance)
    if not ours or not theirs:
        result.reason = "no probe answers to compare"
        return result
    if reason := _counts(ours, theirs):
        return Comparison(False, tolerance, reason=reason)
    if simulated:
        result.reason = "acceptance is simulated (SGLANG_SIMULATE_ACC_LEN): the text is meaningless by design"
        return result
    if reason := _degenerate(ours, theirs):
        return Comparison(False, tolerance, reason=reason)
    result.baseline_agreement = _mean([_agreement(a, b) for a, b in combinations(theirs, 2)])
    pairs = [
        max(((_agreement(one, base), one, base) for base in theirs), key=lambda pair: pair[0]) for one in ours
    ]
    result.agreement = _mean([pair[0] for pair in pairs])
    result.logprob_distance = _mean([d for _, one, base in pairs if (d := _distance(one, base)) is not None])
    if dummy_weights and (result.agreement or 0.0) < 1.0:
        result.reason = "dummy weights: the text means nothing, and differs; compare with a real model"
        return result
    _decide(result, [(one, base) for _, one, base in pairs])
    if dummy_weights:
        result.notes.append(
            "dummy weights: equal outputs say that the arithmetic is the same, not that it is right"
        )
    return result


def _decide(result: Comparison, pairs: Sequence[tuple[list[Answer], list[Answer]]]) -> None:
    steady = result.baseline_agreement is None or result.baseline_agreement >= 1.0
    if result.tolerance == "exact" and steady:
        broken = [prompt for one, base in pairs for prompt in _broken(one, base)]
        result.ok = not broken
        if broken:
            result.reason = (
                f"outputs differ from the baseline's beyond a tie for {broken[0]!r} "
                f"({result.agreement:.0%} of tokens agree); declare `tolerance: numeric` if the change is numeric"
            )
        elif (result.agreement or 0.0) < 1.0:
            result.notes.append(f"equal up to numerical ties (log-probabilities within {TIE})")
        return
    if result.tolerance == "exact":
        result.notes.append(
            f"the baseline's own launches agree on {result.baseline_agreement:.0%} of tokens only, so exact is too much"
        )
    least = min(
        AGREEMENT, 0.8 * (result.baseline_agreement if result.baseline_agreement is not None else 1.0)
    )
    near = result.logprob_distance is None or result.logprob_distance <= LOGPROB_DISTANCE
    result.ok = (result.agreement or 0.0) >= least and near
    if not result.ok:
        distance = (
            ""
            if result.logprob_distance is None
            else f", log-probabilities {result.logprob_distance:.2f} nats apart"
        )
        result.reason = (
            f"only {result.agreement:.0%} of tokens agree with the baseline's{distance} "
            f"(at least {least:.0%} and at most {LOGPROB_DISTANCE} nats are allowed)"
        )


def _probes(launches: Sequence[Mapping[str, Any]]) -> list[list[Answer]]:
    return [list(launch["probe"]) for launch in launches if launch.get("probe")]


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _tokens(answer: Answer) -> list[int]:
    return list(answer.get("output_ids") or [])


def _common(one: Answer, base: Answer) -> int:
    """Tokens before the first divergence."""
    length = 0
    for mine, other in zip(_tokens(one), _tokens(base), strict=False):
        if mine != other:
            break
        length += 1
    return length


def _agreement(ours: Sequence[Answer], theirs: Sequence[Answer]) -> float:
    """Share of tokens before each prompt's first divergence, over all prompts."""
    total = sum(max(len(_tokens(a)), len(_tokens(b))) for a, b in zip(ours, theirs, strict=False))
    return sum(_common(a, b) for a, b in zip(ours, theirs, strict=False)) / total if total else 0.0


def _logprob(answer: Answer, index: int) -> float | None:
    values = answer.get("logprobs") or []
    return float(values[index]) if index < len(values) and values[index] is not None else None


def _distance(ours: Sequence[Answer], theirs: Sequence[Answer]) -> float | None:
    distances = [
        abs(mine - other)
        for a, b in zip(ours, theirs, strict=False)
        for index in range(_common(a, b))
        if (mine := _logprob(a, index)) is not None and (other := _logprob(b, index)) is not None
    ]
    return _mean(distances)


def _broken(ours: Sequence[Answer], theirs: Sequence[Answer]) -> list[str]:
    """Prompts whose outputs part at something else than a tie."""
    parted = []
    for a, b in zip(ours, theirs, strict=False):
        at = _common(a, b)
        if at == len(_tokens(a)) == len(_tokens(b)):
            continue
        mine, other = _logprob(a, at), _logprob(b, at)
        if mine is None or other is None or abs(mine - other) > TIE:
            parted.append(str(a.get("prompt")))
    return parted


def _counts(ours: Sequence[Sequence[Answer]], theirs: Sequence[Sequence[Answer]]) -> str | None:
    """Token counts of server, tokenizer and output that should be the same and are not."""
    for probe in ours:
        for answer in probe:
            prompt, made = answer.get("prompt"), _tokens(answer)
            said = answer.get("completion_tokens")
            if said is not None and made and said != len(made):
                return f"{prompt!r}: the server says {said} tokens and sent {len(made)}"
            server, tokenizer = answer.get("prompt_tokens"), answer.get("tokenizer_prompt_tokens")
            if server is not None and tokenizer is not None and abs(server - tokenizer) > 1:
                return f"{prompt!r} is {server} tokens to the server and {tokenizer} to the tokenizer"
    base = {answer.get("prompt"): answer.get("prompt_tokens") for probe in theirs for answer in probe}
    for probe in ours:
        for answer in probe:
            expected, got = base.get(answer.get("prompt")), answer.get("prompt_tokens")
            if expected is not None and got is not None and expected != got:
                return f"{answer['prompt']!r} is {got} tokens here, {expected} in the baseline: another tokenizer"
    return None


def _degenerate(ours: Sequence[Sequence[Answer]], theirs: Sequence[Sequence[Answer]]) -> str | None:
    """Empty, repeating or unprintable output where the baseline's is not."""
    usual = {answer.get("prompt"): _defect(answer) for probe in theirs for answer in probe}
    for probe in ours:
        for answer in probe:
            defect = _defect(answer)
            if defect and usual.get(answer.get("prompt")) != defect:
                return f"{answer.get('prompt')!r} was answered with {defect} output: {str(answer.get('text'))[:60]!r}"
    return None


def _defect(answer: Answer) -> str | None:
    tokens, text = _tokens(answer), str(answer.get("text") or "")
    if not tokens:
        return "empty"
    if any(_logprob(answer, index) != _logprob(answer, index) for index in range(len(tokens))):  # NaN
        return "not-a-number"
    if len(tokens) >= 8 and Counter(tokens).most_common(1)[0][1] / len(tokens) >= REPETITION:
        return "repeating"
    odd = sum(c == "\ufffd" or (unicodedata.category(c).startswith("C") and c not in "\n\t\r") for c in text)
    return "unprintable" if text and odd / len(text) > 0.3 else None


def token_counts(
    windows: Sequence[Mapping[str, Any]], served: Mapping[str, float] | None, *, slack: float = 0.02
) -> dict[str, Any]:
    """Client's against server's token totals over the measured windows.

    ``served`` holds the server's ``prompt`` and ``generation`` token counters over the same time (/metrics after
    minus before). ``slack`` is relative; a profiler's or health check's few tokens are let through besides.
    ``retokenized_share`` is what the tokenizer makes of the text, over the tokens asked for: it is below 1 for
    meaningless text, and only noted.
    """
    metrics = [window.get("metrics") or {} for window in windows]
    client = {
        "prompt": sum(m.get("total_input_tokens") or 0 for m in metrics),
        "generation": sum(m.get("total_output_tokens") or 0 for m in metrics),
    }
    again = sum(m.get("total_output_tokens_retokenized") or 0 for m in metrics)
    share = again / client["generation"] if again and client["generation"] else None
    problems = []
    for kind, sent in client.items():
        counted = (served or {}).get(kind)
        if counted and sent and not (1 - slack) * sent <= counted <= (1 + slack) * sent + 64:
            problems.append(f"{kind} tokens: the client counts {sent}, the server {counted:.0f}")
    return {
        "client": client,
        "server": dict(served) if served else None,
        "retokenized_share": share,
        "problems": problems,
    }
