"""The resolved arguments that SGLang prints at start, as data."""

import ast
import re
from collections.abc import Iterator
from typing import Any


def parse_arguments(text: str) -> dict[str, Any]:
    """The resolved arguments SGLang prints, ``server_args=ServerArgs(...)`` or, since 0.5.20, ``server_args={...}``.

    Nested calls become mappings; what is not a literal becomes its source text. An unreadable text gives ``{}``.
    """
    _, _, expression = text.partition("server_args=")
    try:
        node = ast.parse(expression.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return dict(_loose_arguments(expression))
    value = _literal(node)
    return value if isinstance(value, dict) else {}


def _literal(node: ast.AST) -> Any:
    if isinstance(node, ast.Call):
        return {word.arg: _literal(word.value) for word in node.keywords if word.arg}
    if isinstance(node, ast.Dict):
        return {
            _literal(k): _literal(v) for k, v in zip(node.keys, node.values, strict=True) if k is not None
        }
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        return [_literal(item) for item in node.elts]
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, MemoryError, RecursionError):
        return ast.unparse(node)


def _loose_arguments(expression: str) -> Iterator[tuple[str, Any]]:
    """Simple ``name=value`` pairs of a text that is no Python, for instance with enum representations in it."""
    for match in re.finditer(r"'?\b(\w+)'?(?:=|: )('[^']*'|None|True|False|-?[\d.]+)(?=[,)}])", expression):
        try:
            yield match[1], ast.literal_eval(match[2])
        except (ValueError, SyntaxError):
            continue
