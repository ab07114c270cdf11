"""Secrets kept out of everything that is written down."""

import re

SECRET = re.compile(
    r"TOKEN(?!S|IZ)|SECRET|PASSW|CREDENTIAL|(API|ACCESS|PRIVATE)_?KEY|(^|_)(KEY|AUTH|PWD)($|_)", re.IGNORECASE
)
"""Names of variables whose value nobody may read; a number of tokens is none (``SGLANG_..._MAX_DISPATCH_TOKENS``)."""

REDACTED = "<redacted>"


def redacted(name: str, value: str) -> str:
    """The value, unless the name speaks of a secret; credentials inside a URL are cut out."""
    if SECRET.search(name) and value:
        return REDACTED
    return re.sub(r"(?<=://)[^/@\s]+@", f"{REDACTED}@", value)


def redacted_environment(environment: dict[str, str]) -> dict[str, str]:
    """The environment, sorted, without its secrets."""
    return {name: redacted(name, value) for name, value in sorted(environment.items())}
