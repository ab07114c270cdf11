"""``python -m sglang_sweep explain-log FILE``, ``analyze-trace FILE...`` and ``publish CAMPAIGN FOLDER``."""

import sys
from collections.abc import Callable, Sequence

from sglang_sweep import publish
from sglang_sweep.errors import UserError
from sglang_sweep.evidence import explain
from sglang_sweep.traces import cli as traces

COMMANDS: dict[str, tuple[Callable[[Sequence[str]], int], str]] = {
    "explain-log": (explain.main, "what happened to this SGLang server?"),
    "analyze-trace": (traces.main, "where does a step's time go?"),
    "publish": (publish.main, "a campaign's report and what it rests on, in one folder"),
}


def main(arguments: Sequence[str]) -> int:
    """The exit status: 0, or 2 when the arguments or files are of no use."""
    if not arguments or arguments[0] not in COMMANDS:
        print("usage: python -m sglang_sweep COMMAND ARGUMENT... [--help]\n", file=sys.stderr)
        for name, (_, purpose) in COMMANDS.items():
            print(f"  {name:<14} {purpose}", file=sys.stderr)
        return 0 if arguments and arguments[0] in ("-h", "--help") else 2
    try:
        return COMMANDS[arguments[0]][0](arguments[1:])
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    except BrokenPipeError:
        return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
