"""Every command of the project: ``sglang-sweep COMMAND``, or ``python -m sglang_sweep COMMAND``."""

import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

from sglang_sweep.errors import InfrastructureFault, UserError

COMMANDS = {
    "explain-log": ("evidence.explain", "what happened to this SGLang server?"),
    "analyze-trace": ("traces.cli", "where does a step's time go?"),
    "verify": ("files.launches", "are the records as they were measured?"),
    "check": ("report.check", "pass or fail a measured campaign, for CI"),
    "publish": ("publish", "a campaign's report and what it rests on, in one folder"),
    "lock": ("stacks.lock", "make the lock files of stacks anew"),
    "bundle": ("stacks.bundle", "pack what a host without network needs"),
    "record-host": ("host.recording", "record this host, for a test or a report of a fault"),
    "reference": ("reference", "make schemas and the tables of config/README.md anew"),
}
"""The module whose ``main(arguments)`` it is, and what it answers or does."""


def main(arguments: Sequence[str]) -> int:
    """The exit status: 0, 1 where what was looked at is wrong, 2 when arguments or files are of no use."""
    command, rest = (arguments[0], arguments[1:]) if arguments else ("--help", ())
    if command in ("-h", "--help"):
        lines = ["usage: sglang-sweep COMMAND ARGUMENT... [--help]", ""]
        lines += [f"  {name:<14} {purpose}" for name, (_, purpose) in COMMANDS.items()]
        lines += ["", "Campaigns are measured and reported by snakemake: see README.md."]
        print("\n".join(lines), file=sys.stdout if arguments else sys.stderr)
        return 0 if arguments else 2
    if command == "--version":
        print(f"sglang-sweep {_version()}")
        return 0
    if command not in COMMANDS:
        close = get_close_matches(command, COMMANDS, n=1)
        meant = f"did you mean {close[0]}?" if close else f"there are {', '.join(COMMANDS)}"
        print(f"there is no command {command!r}\n  remedy: {meant}", file=sys.stderr)
        return 2
    try:
        return int(import_module(f"sglang_sweep.{COMMANDS[command][0]}").main(rest))
    except (UserError, InfrastructureFault) as error:
        print(error, file=sys.stderr)
        return 2
    except BrokenPipeError:
        return 0


def _version() -> str:
    try:
        return version("sglang-sweep")
    except PackageNotFoundError:
        return "(not installed)"


def run() -> None:
    """The installed command."""
    sys.exit(main(sys.argv[1:]))


if __name__ == "__main__":
    run()
