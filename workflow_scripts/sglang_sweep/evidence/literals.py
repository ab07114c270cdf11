"""The texts of which a line must hold one before a regular expression is worth trying on it.

Searching for a fixed text is some fifty times faster than trying a regular expression, and a log with requests in
it has hundreds of thousands of lines that no pattern fits.
"""

_CLASSES = frozenset("dDwWsSbBAZ")
SHORTEST = 3
"""Characters below which a text says too little to be worth looking for."""


def required_texts(pattern: str) -> tuple[bytes, ...] | None:
    """One text for each top-level alternative, the longest that every match of it holds; None when there is none.

    Only plain characters outside groups and classes count, and not one that a quantifier makes optional. A
    pattern that ignores case has none.
    """
    if "(?i" in pattern:
        return None
    texts = [max(runs, key=len, default="") for runs in _runs(pattern)]
    if any(len(text) < SHORTEST for text in texts):
        return None
    return tuple(text.encode() for text in texts)


def _runs(pattern: str) -> list[list[str]]:
    """For each top-level alternative, its runs of characters that must stand in a match."""
    alternatives: list[list[str]] = [[]]
    run, depth, position = "", 0, 0

    def end() -> None:
        nonlocal run
        if run:
            alternatives[-1].append(run)
        run = ""

    while position < len(pattern):
        char = pattern[position]
        position += 1
        if char == "\\":
            escaped = pattern[position]
            position += 1
            if depth:
                continue
            if escaped in _CLASSES:
                end()
            else:
                run += escaped
        elif char == "[":
            position = _after_class(pattern, position)
            if not depth:
                end()
        elif char in "()":
            if not depth:
                end()
            depth += 1 if char == "(" else -1
        elif depth:
            continue
        elif char == "|":
            end()
            alternatives.append([])
        elif char in "?*{":
            run = run[:-1]  # the character before may be absent
            end()
            if char == "{":
                position = pattern.index("}", position) + 1
        elif char in "+.^$":
            end()
        else:
            run += char
    end()
    return alternatives


def _after_class(pattern: str, position: int) -> int:
    """The position behind the ``]`` that closes a character class whose inside begins at ``position``."""
    position += 1 if pattern[position] == "^" else 0
    position += 1 if pattern[position] == "]" else 0
    while pattern[position] != "]":
        position += 2 if pattern[position] == "\\" else 1
    return position + 1
