"""Load client: runs SGLang's own ``sglang.benchmark.serving`` several times in one process.

Started by the measuring job with the interpreter of the campaign's first stack, the same for every variant.
Each line on standard input is a JSON request ``{"args": [...]}`` (the command line of
``python -m sglang.benchmark.serving``) or ``{"tokenize": [...], "model": path}``; each is answered by one JSON
line on the descriptor given as the first argument. Importing SGLang and reading the tokenizer once saves
that time for every window; the arguments, the parser and the measuring code are SGLang's own.
"""

import functools
import importlib
import json
import os
import runpy
import sys
import traceback


def main() -> None:
    answers = os.fdopen(int(sys.argv[1]), "w", buffering=1)
    if "--trust-remote-code" not in sys.argv[2:]:
        _refuse_code_of_models()
    module = next(name for name in ("sglang.benchmark.serving", "sglang.bench_serving") if _importable(name))
    serving = importlib.import_module(module)
    if hasattr(serving, "get_tokenizer"):
        # Before a window's clock starts, but half a second of every window.
        serving.get_tokenizer = functools.cache(serving.get_tokenizer)
    answers.write(json.dumps({"ready": module}) + "\n")
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = _tokenize(request) if "tokenize" in request else _run(module, request["args"])
        except BaseException as error:  # SystemExit too: the answer must come, whatever happened
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")


def _refuse_code_of_models() -> None:
    """SGLang's client always lets transformers run code from the model's folder; only the campaign may say so."""
    import transformers

    for name in ("AutoTokenizer", "AutoProcessor", "AutoConfig"):
        loader = getattr(transformers, name)
        loader.from_pretrained = functools.partial(_without_code, loader.from_pretrained)


def _without_code(load, *arguments, **options):  # type: ignore[no-untyped-def]
    return load(*arguments, **{**options, "trust_remote_code": False})


def _importable(name: str) -> bool:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError:
        return False
    return True


def _run(module: str, arguments: list[str]) -> dict[str, object]:
    sys.argv = [module, *arguments]
    entry = getattr(importlib.import_module(module), "cli_main", None)
    if entry:
        entry()
    else:
        runpy.run_module(module, run_name="__main__")
    return {"ok": True}


def _tokenize(request: dict[str, object]) -> dict[str, object]:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(request["model"])
    return {"tokens": [len(tokenizer.encode(text)) for text in request["tokenize"]]}


if __name__ == "__main__":
    main()
