"""What can really be imported in an interpreter, and which flags its SGLang knows.

Run by path with the stack's own interpreter, never imported by the library, hence the standard library only:
``python importable.py`` prints ``{"stack": {...}, "flags": {...}}`` as the last line of its output. Importing
SGLang's server here also byte-compiles what a server imports, so that the first launch is not a slow one.
"""

import argparse
import contextlib
import importlib
import importlib.metadata
import json
import os
import platform
import sys
from typing import Any

SERVER_MODULES = (
    "sglang.launch_server",
    "sglang.srt.entrypoints.http_server",
    "sglang.srt.managers.scheduler",
    "sglang.srt.managers.detokenizer_manager",
    "sglang.srt.models.registry",
)
"""What a launch imports: this package says whether a server can start at all."""

CLIENT_MODULES = ("sglang.benchmark.serving", "sglang.bench_serving")
"""The load client's module, by its newer and older name; one of them is enough."""

DISTRIBUTIONS = {
    "flashinfer": "flashinfer",
    "sgl_kernel": "sgl_kernel",
    "triton": "triton",
    "transformers": "transformers",
}


def version_of(module: str) -> tuple[str | None, str | None]:
    """Version and None, or None and the reason why it cannot be imported."""
    try:
        loaded = importlib.import_module(module)
    except BaseException as error:  # an import may end the interpreter; that too is a reason
        return None, f"{type(error).__name__}: {error}"[:300]
    version = getattr(loaded, "__version__", None)
    if not isinstance(version, str):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            version = importlib.metadata.version(module.replace("_", "-"))
    return (version or "unknown"), None


def stack_facts() -> dict[str, Any]:
    """Versions by name, ``null`` with an entry in ``reasons`` for what is not there."""
    facts: dict[str, Any] = {"python": platform.python_version(), "executable": sys.executable}
    reasons: dict[str, str] = {}

    def note(name: str, value: str | None, reason: str | None) -> None:
        facts[name] = value
        if value is None:
            reasons[name] = reason or "absent"

    note("torch", *version_of("torch"))
    torch = sys.modules.get("torch") if facts["torch"] else None
    cuda = getattr(getattr(torch, "version", None), "cuda", None)
    note("cuda", cuda, "torch is not built for CUDA" if torch else "no torch")
    note("nccl", *_nccl(torch))
    facts["gpu_architectures"] = _gpu_architectures(torch)
    for name, module in DISTRIBUTIONS.items():
        note(name, *version_of(module))
    note("sglang", *version_of("sglang"))
    for module in SERVER_MODULES:
        _, reason = version_of(module)
        if reason:
            reasons[module] = reason
    if client := _missing_client():
        reasons["client"] = client
    facts["serves"] = not any(module in reasons for module in SERVER_MODULES) and "client" not in reasons
    facts["reasons"] = reasons
    return facts


def _nccl(torch: Any) -> tuple[str | None, str | None]:
    if torch is None:
        return None, "no torch"
    try:
        return ".".join(map(str, torch.cuda.nccl.version())), None
    except Exception as error:
        return None, f"{type(error).__name__}: {error}"[:300]


def _missing_client() -> str | None:
    """Why no load client can be imported, or None when one can (the older name is tried only then)."""
    reasons = []
    for module in CLIENT_MODULES:
        _, reason = version_of(module)
        if reason is None:
            return None
        reasons.append(reason)
    return reasons[0]


def _gpu_architectures(torch: Any) -> list[str]:
    """Built into torch, also where no GPU can be seen (``torch.cuda.get_arch_list`` is empty there)."""
    with contextlib.suppress(Exception):
        return str(torch._C._cuda_getArchFlags() or "").split()
    return []


def flags() -> dict[str, Any]:
    """Long option names without dashes, as SGLang's own parser has them, and which of them are deprecated."""
    from sglang.srt.server_args import ServerArgs  # type: ignore[import-not-found,unused-ignore]

    parser = argparse.ArgumentParser()
    ServerArgs.add_cli_args(parser)
    return {"options": sorted(filter(None, map(_row, parser._actions)))}


_KINDS = {"int": "int", "float": "float", "str": "str", "nullable_str": "str", "human_readable_int": "size"}
"""What argparse's ``type`` functions of SGLang take; others have a syntax of their own."""


def _row(action: argparse.Action) -> str | None:
    """``names<TAB>kind<TAB>choices<TAB>deprecated``, as in config/knowledge/flags/; None for help."""
    names = [option[2:] for option in action.option_strings if option.startswith("--")]
    action_name = type(action).__name__
    if not names or "help" in names:
        return None
    if isinstance(action, argparse.BooleanOptionalAction):
        kind, names = "bool", [name for name in names if not name.startswith("no-")]
    elif action.nargs == 0:
        kind = "flag"
    elif action.type is None:
        kind = "str" if action_name == "_StoreAction" else "any"
    else:
        kind = _KINDS.get(getattr(action.type, "__name__", ""), "any")
    many = "+" if isinstance(action.nargs, int) and action.nargs > 1 else str(action.nargs or "")
    old = "deprecat" in action_name.lower() or "deprecated" in (action.help or "").lower()[:40]
    columns = [
        ",".join(names),
        kind + many.strip("0"),
        " ".join(map(str, action.choices or ())),
        "deprecated" * old,
    ]
    return "\t".join(columns).rstrip("\t")


def main() -> None:
    # SGLang and its imports print at will: only this program's answer goes to standard output.
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    facts = stack_facts()
    found = {
        "sglang_version": facts["sglang"],
        **(flags() if facts["sglang"] else {"options": []}),
    }
    answer.write(json.dumps({"stack": facts, "flags": found}) + "\n")
    answer.flush()
    os._exit(0)  # some libraries crash while the interpreter shuts down


if __name__ == "__main__":
    main()
