"""``python -m sglang_sweep analyze-trace FILE...``: where does a step's time go?"""

import argparse
import json
import sys
from collections.abc import Sequence

from sglang_sweep.errors import UserError
from sglang_sweep.traces.breakdown import analyze
from sglang_sweep.traces.show import show


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the breakdown of the traces named in ``argv``; 0, or 2 when they cannot be analysed."""
    parser = argparse.ArgumentParser(
        prog="python -m sglang_sweep analyze-trace",
        description="Where a step's time goes: phases, kernel classes, and what the collectives really cost.",
        epilog="Give the traces of all ranks of one profile: one rank alone cannot tell cost from waiting.",
    )
    parser.add_argument(
        "files", nargs="+", metavar="FILE", help="torch-profiler trace (.json or .json.gz), one per rank"
    )
    parser.add_argument("--json", action="store_true", help="print the breakdown as JSON")
    parser.add_argument(
        "--sglang-version",
        metavar="V",
        help="the version that was profiled, so that kernel names are read by its patterns",
    )
    arguments = parser.parse_args(argv)
    try:
        breakdown = analyze(arguments.files, arguments.sglang_version)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, MemoryError) as error:
        named = ", ".join(arguments.files)
        print(
            f"analyze-trace: {named}: damaged beyond analysis ({type(error).__name__}: {error})",
            file=sys.stderr,
        )
        return 2
    except UserError as error:
        print(f"analyze-trace: {error}", file=sys.stderr)
        return 2
    if arguments.json:
        print(json.dumps(breakdown, indent=2))
    else:
        show(breakdown)
    return 0
