"""The library's rooms: imports point down, and what a rule depends on is all that its script loads."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from sglang_sweep import workflow

LIBRARY = workflow.LIBRARY
ROOMS = (
    "files", "campaign", "host", "stacks", "traces", "costs", "evidence", "gate", "launch", "plan", "statistics",
    "verdict", "calibration", "report",
)  # fmt: skip
"""From the ground up; beside them lie errors, which all use, and what serves the commands, which nobody imports."""

SCRIPTS = sorted(
    path.name
    for path in LIBRARY.parent.glob("*.py")
    if f'code("{path.name}")' in "".join(p.read_text() for p in (LIBRARY.parents[1] / "rules").glob("*.smk"))
)


def imported(file: Path) -> set[str]:
    """The rooms that a file imports from."""
    nodes = ast.walk(ast.parse(file.read_text(encoding="utf-8")))
    names = [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    return {name.split(".")[1] for name in names if name.startswith("sglang_sweep.")}


def test_no_import_points_upward() -> None:
    found = {path.name for path in LIBRARY.iterdir() if (path / "__init__.py").exists()}
    assert found == set(ROOMS)
    for place, room in enumerate(ROOMS):
        above = {*ROOMS[place + 1 :], "workflow", "publish", "reference"}
        for file in (LIBRARY / room).rglob("*.py"):
            assert not imported(file) & above, f"{file} imports from {imported(file) & above}"
    assert not any(
        "calibration" in imported(file) for file in LIBRARY.rglob("*.py") if "calibration" not in str(file)
    )


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_step_depends_on_every_module_that_its_script_loads(script: str) -> None:
    """Snakemake runs a step anew when one of these changes, and no other step."""
    file = LIBRARY.parent / script
    lines = [
        ast.unparse(n) for n in ast.parse(file.read_text()).body if isinstance(n, ast.Import | ast.ImportFrom)
    ]
    program = ";".join(
        [
            *lines,
            "import sys",
            "print(*(m.__file__ for n, m in sys.modules.items() if n.startswith('sglang_sweep.')))",
        ]
    )
    environment = {"PYTHONPATH": str(LIBRARY.parent), "PATH": "/usr/bin:/bin", "MPLCONFIGDIR": "/tmp"}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment
    )
    loaded = {path for path in done.stdout.split() if not path.endswith("__init__.py")}
    assert loaded <= set(workflow.code(script))
    assert not any("/calibration/" in path for path in workflow.code(script) if script != "calibration.py")
