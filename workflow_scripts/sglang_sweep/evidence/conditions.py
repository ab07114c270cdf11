"""The small language in which knowledge files state a condition on a value: ``"> 1"``, ``not null``, ``EAGLE3``."""

import operator
import re
from collections.abc import Callable, Iterator
from typing import Any

_COMPARISON = re.compile(r"^(<=|>=|==|!=|<|>)\s*(.+)$")
_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


def holds(value: Any, condition: Any) -> bool:
    """Whether ``value`` satisfies ``condition``.

    A condition is a comparison ("> 1", "!= none"), ``not null`` (neither null, false nor empty), a list of
    which one must hold, or a plain value that must be equal. A value that cannot be compared does not satisfy.
    """
    if isinstance(condition, list):
        return any(holds(value, one) for one in condition)
    if condition == "not null":
        return value not in (None, False, "", "none", "None", "null", [], {})
    if isinstance(condition, str) and (match := _COMPARISON.match(condition)):
        return _compare(value, match[1], match[2])
    return equal(value, condition)


def _compare(value: Any, sign: str, wanted: str) -> bool:
    if sign in ("==", "!="):
        return equal(value, wanted) is (sign == "==")
    left, right = number(value), number(wanted)
    return left is not None and right is not None and _OPERATORS[sign](left, right)


def number(value: Any) -> float | None:
    """``value`` as a float; None for what is no number (true and false are none)."""
    if isinstance(value, bool) or value is None:
        return None
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def equal(one: Any, other: Any) -> bool:
    """Equality as a command line means it: ``"8"`` is 8, ``"True"`` is true, 0.90 is 0.9."""
    if one == other and isinstance(one, bool) is isinstance(other, bool):
        return True
    left, right = number(one), number(other)
    if left is not None and right is not None:
        return left == right
    return _word(one) == _word(other)


def _word(value: Any) -> str:
    if isinstance(value, list | tuple):
        return " ".join(_word(item) for item in value)
    text = str(value).strip().lower()
    return "none" if text in ("null", "") else text


def lookup(document: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Every (path, value) in nested mappings and lists under a dotted path; ``*`` stands for any list index."""
    if not path:
        yield "", document
        return
    head, _, rest = path.partition(".")
    if isinstance(document, dict) and head in document:
        children: list[tuple[str, Any]] = [(head, document[head])]
    elif isinstance(document, list) and head == "*":
        children = [(str(index), item) for index, item in enumerate(document)]
    else:
        return
    for name, child in children:
        for below, value in lookup(child, rest):
            yield (f"{name}.{below}" if below else name), value
