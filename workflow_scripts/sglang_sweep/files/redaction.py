"""Secrets kept out of everything that is written down, and control characters out of the terminal."""

import hashlib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

SECRET = re.compile(
    r"(^|[_.-])(PAT|PASS|PWD|AUTH|TOKEN)$|SECRET|PASSW|PASSPHRASE|CREDENTIAL|(API|ACCESS|PRIVATE|ADMIN|AUTH|ACCOUNT|"
    r"ENCRYPTION|SIGNING)[_-]?(KEY|TOKEN)S?$|^[A-Z0-9_]+_KEY$|^(KEY|AUTHORIZATION|COOKIE|SAS|JWT)$",
)
"""Names, in capitals, of variables, flags and fields whose value nobody may read; a number of tokens is none
(``SGLANG_..._MAX_DISPATCH_TOKENS``), nor a file of them (``--speculative-token-map``)."""

REDACTED = "<redacted>"

_IN_TEXT = (
    (re.compile(r"(?<=://)[^/@\s'\"]+(?=@)"), REDACTED),
    (
        re.compile(
            r"(?i)([?&;](?:[a-z_-]*token|[a-z_-]*key|sig|signature|password|passwd|pwd|secret|auth)=)[^&\s'\"#;]+"
        ),
        rf"\g<1>{REDACTED}",
    ),
    (
        re.compile(r"(?i)(authorization\W+(?:bearer|basic)|\bbearer)\s+(?!<redacted)[A-Za-z0-9._~+/=-]{12,}"),
        rf"\g<1> {REDACTED}",
    ),
    (
        re.compile(
            r"\b(hf_[A-Za-z0-9]{16,}|gh[opsur]_[A-Za-z0-9]{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}|sk-[\w-]{16,}|"
            r"xox[abprs]-[\w-]{10,}|AKIA[0-9A-Z]{16}|nvapi-[\w-]{16,}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*)"
        ),
        REDACTED,
    ),
    (
        re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL),
        REDACTED,
    ),
    (
        re.compile(
            r"(?i)(--?[a-z-]*(?:api-key|password|passwd|secret|auth-token|access-token)[= ])(?!<redacted)[^\s'\"]+"
        ),
        rf"\g<1>{REDACTED}",
    ),
)
"""Secrets that are known by their form: inside URLs and headers, tokens of hubs and clouds, words of a command."""


def is_secret(name: str) -> bool:
    """Whether the name is that of a secret: of a variable, or of a flag in any case."""
    # A field called "key" or "class_key" is a launch's own, "KEY" and "MY_KEY" are variables.
    own = (
        name.islower() and re.search(r"(^|_)keys?$", name) and not re.search("api|access|private|admin", name)
    )
    return not own and bool(SECRET.search(name.upper().replace("-", "_")))


def redacted(name: str, value: str, *, digest: bool = False) -> str:
    """The value, unless the name speaks of a secret or the value holds one.

    With ``digest`` two secrets can still be told apart, as the keys of launches must.
    """
    if value.startswith(REDACTED[:-1]):
        return value
    shown = REDACTED if is_secret(name) and value else redacted_text(value)
    if digest and shown != value:
        return shown.replace(REDACTED, f"{REDACTED[:-1]}:{hashlib.sha256(value.encode()).hexdigest()[:8]}>")
    return shown


def redacted_text(text: str) -> str:
    """The text without secrets that their form gives away."""
    for form, shown in _IN_TEXT:
        text = form.sub(shown, text)
    return text


def redacted_environment(environment: Mapping[str, str], *, digest: bool = False) -> dict[str, str]:
    """The environment, sorted, without its secrets."""
    return {name: redacted(name, value, digest=digest) for name, value in sorted(environment.items())}


def redacted_flags(flags: Mapping[str, Any]) -> dict[str, Any]:
    """Flags with a digest instead of each secret."""
    return {n: redacted(n, v, digest=True) if isinstance(v, str) else v for n, v in flags.items()}


def redacted_data(value: Any, name: str = "") -> Any:
    """Plain data without secrets, whatever it is part of: by the name of a field, by form, or behind a flag."""
    if isinstance(value, str):
        return redacted(name, value)
    if isinstance(value, Mapping):
        return {key: redacted_data(inner, str(key)) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        # A command line: the word after --api-key is a secret.
        before = ["", *value]
        return [
            redacted_data(word, flag[2:] if isinstance(flag, str) and flag.startswith("--") else name)
            for flag, word in zip(before, value, strict=False)
        ]
    return value


def secrets_of(environment: Mapping[str, str], command: Iterable[str] = ()) -> list[bytes]:
    """The secrets that a server was given, the longest first; shorter than four characters is no secret."""
    words = list(command)
    found = {value for name, value in environment.items() if is_secret(name)}
    for flag, word in zip(words, [*words[1:], ""], strict=True):
        name, _, joined = flag.partition("=")
        if name.startswith("--") and is_secret(name[2:]):
            found.add(joined or word)
    return sorted((v.encode() for v in found if len(v) >= 4 and not v.startswith("/")), key=len, reverse=True)


def redact_file(file: Path, secrets: Iterable[bytes]) -> None:
    """Takes known secrets, and those known by form, out of a log; what holds none is not touched."""
    known = list(secrets)
    changed = False
    cleaned = file.with_name(f".{file.name}.clean")
    with file.open("rb") as raw, cleaned.open("wb") as clean:
        while line := raw.readline(1 << 20):
            shown = line
            for secret in known:
                shown = shown.replace(secret, REDACTED.encode())
            text = shown.decode("utf-8", "surrogateescape")
            shown = redacted_text(text).encode("utf-8", "surrogateescape")
            changed |= shown != line
            clean.write(shown)
    if changed:
        cleaned.replace(file)
    else:
        cleaned.unlink()


_CONTROL = re.compile(
    r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|"
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"
)


def printable(text: str) -> str:
    """The text without what moves a terminal's cursor, changes its title or colours, or turns its direction."""
    return _CONTROL.sub("", text)
