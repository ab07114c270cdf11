"""What the Snakefile asks: campaigns by name, the files each step needs, the order of launches."""

import ast
import os
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

from rich.console import Console

from sglang_sweep.campaign.checks import PRIME
from sglang_sweep.errors import InfrastructureFault, UserError
from sglang_sweep.files import places
from sglang_sweep.files.launches import read_launch, set_aside
from sglang_sweep.files.records import write_json
from sglang_sweep.files.yaml_files import read_yaml
from sglang_sweep.plan import schedule as plan
from sglang_sweep.plan.declaration import collectives_file, declaration, declared
from sglang_sweep.plan.sweep import (
    ASKED,
    ENVIRONMENT,
    ENVS,
    RECORDED_STACKS,
    RESULTS,
    Sweep,
    asking,
    host_for_planning,
    load_site,
    load_sweep,
)
from sglang_sweep.stacks.stack import Stack, load_stack, record_existing

LIBRARY = Path(__file__).parent

KNOWLEDGE = ("log", "engagement", "causes", "implications", "limits")
"""Files of config/knowledge/ that turn launches into evidence."""


DOCUMENTS = (
    "findings.md",
    "index.html",
    "ratios.svg",
    "blocks.svg",
    "windows.svg",
    "verdicts.csv",
    "metrics.csv",
    "launches.csv",
)
"""What every campaign has in reports/<campaign>/."""


class Sweeps:
    """All campaigns a run may touch, loaded when first asked for; wrong configuration ends the run, readably."""

    def __init__(self, config: dict[str, Any], *, main_process: bool) -> None:
        try:
            self.config, self.site = config, load_site(config)
            self.host = host_for_planning(main_process)
            self.main_process = main_process
            self.named = [self._load(name) for name in self.site.campaigns]
        except (UserError, InfrastructureFault) as error:
            _end(error)
        self._others: dict[str, Sweep] = {}
        for name in filter(None, [] if main_process else os.environ.get(ASKED, "").split(",")):
            self.sweep(name)

    def _load(self, name: str) -> Sweep:
        if self.main_process:
            for told in (*set_aside(RESULTS), *set_aside(RESULTS / name)):
                print(told, file=sys.stderr)
        sweep = load_sweep(name, self.config, self.host)
        sweep.check_changes()  # whatever is wrong with stacks and models is said now too, readably
        return sweep

    def sweep(self, campaign: str) -> Sweep:
        """The campaign of a wildcard."""
        for sweep in self.named:
            if sweep.campaign.name == campaign:
                return sweep
        if campaign not in self._others:
            try:
                self._others[campaign] = self._load(campaign)
            except (UserError, InfrastructureFault) as error:
                _end(error)
        return self._others[campaign]

    @property
    def measures(self) -> bool:
        """Whether anything may be launched; else reports are made of what is there."""
        return self.site.measure

    @property
    def names(self) -> list[str]:
        """The campaigns of config/config.yaml."""
        return [sweep.campaign.name for sweep in self.named]

    @property
    def store(self) -> Path:
        """Where stacks and models are kept."""
        return self.named[0].store

    def declared(self, campaign: str, launch: str | None = None) -> dict[str, Any]:
        """What was declared about one arm, or about all: it decides evidence and verdicts, not measurements."""
        sweep = self.sweep(campaign)
        return declared(sweep, sweep.schedule.arm(launch)) if launch else declaration(sweep)

    def targets(self) -> list[str]:
        """Every outcome of every named campaign, so that a deleted one is made again."""
        files: list[str] = []
        for sweep in self.named:
            name = sweep.campaign.name
            files += self.launches(name) + self.profiles(name) + self.evidence(name)
            files += [f"results/{name}/{made}.json" for made in ("verdicts", "declaration", "report")]
            files += [f"reports/{name}/{made}" for made in DOCUMENTS]
        return files

    def launches(self, campaign: str) -> list[str]:
        """launch.json of every launch the campaign wants."""
        return [str(launch.path) for launch in self.sweep(campaign).schedule.launches]

    def launches_of(self, campaign: str, launch: str) -> list[str]:
        """launch.json of one arm's launches, over all blocks."""
        sweep = self.sweep(campaign)
        return [str(x.path) for x in sweep.schedule.launches if x.arm.folder == launch]

    def baseline_launches(self, campaign: str) -> list[str]:
        """launch.json of the baseline's arms."""
        sweep = self.sweep(campaign)
        return [
            str(x.path) for x in sweep.schedule.launches if x.arm.variant.name == sweep.campaign.baseline.name
        ]

    def profiles(self, campaign: str) -> list[str]:
        """profile.json of every arm that asks for one."""
        return self._wanted(
            str(places.profile_file(RESULTS, arm.folder))
            for arm in self.sweep(campaign).schedule.arms
            if arm.variant.profile and PRIME not in arm.name
        )

    def profile_of(self, campaign: str, launch: str) -> list[str]:
        """profile.json of one arm, or nothing."""
        return [path for path in self.profiles(campaign) if f"/{launch}/" in path]

    def communication(self, campaign: str) -> list[str]:
        """The measurement of the collectives alone, where the campaign asks for it; named by what it asks."""
        sweep = self.sweep(campaign)
        baseline, asked = sweep.schedule.arms[0].folder, sweep.campaign.communication
        made = collectives_file(RESULTS, baseline, asked)
        return self._wanted([str(made)] if made else [])

    def _wanted(self, files: Iterable[str]) -> list[str]:
        """All of them, or with ``measure: false`` those that are there."""
        return [file for file in files if self.measures or Path(file).exists()]

    def evidence(self, campaign: str) -> list[str]:
        """Evidence of every arm."""
        return [
            f"results/{campaign}/evidence/{arm.folder}.json" for arm in self.sweep(campaign).schedule.arms
        ]

    def requirements(self, campaign: str) -> list[str]:
        """Markers of every stack and model of the campaign."""
        sweep = self.sweep(campaign)
        models = [
            marker
            for v in sweep.campaign.all_variants
            if not v.planned_only
            for marker in sweep.model_markers(v)
        ]
        return list(dict.fromkeys(map(str, [*map(sweep.stack_marker, sweep.stacks), *models])))

    def asking(self, launch: str) -> str:
        """The name of a campaign that asks for an arm: of those that this run was asked for, or of the named ones."""
        for sweep in [*self._others.values(), *self.named]:
            if sweep.wants(launch):
                return sweep.campaign.name
        (sweep, *_) = asking(launch, None, self.config)
        return self._others.setdefault(sweep.campaign.name, sweep).campaign.name

    def before(self, made: str, launch: str) -> list[str]:
        """What must be there before ``made`` is measured; nothing once it is.

        Else a clone that holds results but not their stack would measure everything again to get one launch
        more: for Snakemake even an ``ancient`` input that is not there makes what depends on it outdated.
        """
        if Path(made).exists():
            return []
        campaign = self.asking(launch)
        return [str(self.sweep(campaign).ready), *self.requirements_of(campaign, launch)]

    def requirements_of(self, campaign: str, launch: str) -> list[str]:
        """Markers of the stack and models of one arm, and of the stack that the load client runs in."""
        sweep = self.sweep(campaign)
        variant = sweep.schedule.arm(launch).variant
        stacks = {variant.stack, sweep.campaign.baseline.stack}
        return list(
            dict.fromkeys(map(str, [*map(sweep.stack_marker, sorted(stacks)), *sweep.model_markers(variant)]))
        )

    def converter(self, model: str) -> Stack:
        """The stack whose interpreter writes the model of a ``{model}`` wildcard.

        Only the cpu stack reads GGUF; anything else is written by a stack that the campaign needs anyway.
        """
        for sweep in [*self.named, *self._others.values()]:
            for made in sweep.models.values():
                marker = made.marker(self.store)
                if marker and marker.parent.name == model:
                    name = "cpu" if made.kind == "wheel" else sweep.campaign.baseline.stack
                    return load_stack(ENVS, name, RECORDED_STACKS)
        raise UserError(f"no campaign of this run needs the model {model}")

    def converter_marker(self, model: str) -> str:
        """The file whose presence says that the converter is complete."""
        return str(self.converter(model).folder(self.store) / "stack.json")

    def priority(self, launch: str, block: str) -> int:
        """The launch's place in the random order, higher first."""
        return self.sweep(self.asking(launch)).schedule.priority(launch, int(block))

    def gpus(self, launch: str) -> int:
        """GPUs that a launch of the arm needs, for clusters that hand them out."""
        return self.sweep(self.asking(launch)).gpus(launch)

    def announce(self) -> None:
        """What this run will cost, before it starts. Only a run that really starts keeps the fingerprint."""
        if not ENVIRONMENT.exists():
            write_json(ENVIRONMENT, self.host)
        os.environ[ASKED] = ",".join(self._others)
        for sweep in self.asked:
            for stack in sweep.stacks.values():
                record_existing(stack, RECORDED_STACKS)
            cost = plan.estimate(sweep.schedule, RESULTS)
            if cost.launches:
                Console(stderr=True, highlight=False).print(
                    f"{sweep.campaign.name}: {cost.launches} launches, about {cost.minutes:.0f} minutes"
                    f" (from {cost.basis}), besides stacks and models still to be made"
                )

    def summarise(self, log: str | None = None) -> None:
        """The answer and one line a variant, of the campaigns that this run was asked for, and where the report is.

        ``log`` is Snakemake's own, given when a job failed: what there is to conclude is concluded all the same.
        """
        from sglang_sweep.report.documents import read_campaign
        from sglang_sweep.report.terminal import closing

        console = Console(stderr=True, highlight=False, width=None if sys.stderr.isatty() else 110)
        for sweep in self.asked:
            name = sweep.campaign.name
            results, report = RESULTS / name, Path("reports") / name
            if log:
                jobs = f"{RESULTS}/logs and {results}/logs"
                console.print(f"[red]{name}: a job failed[/]; logs of jobs in {jobs}, of the run in {log}")
            if not (report / "index.html").exists():
                continue
            console.print(closing(read_campaign(results, [x.path for x in sweep.schedule.launches]), report))
            # A launch says itself when it ended: the times of a copied tree mean nothing.
            made = datetime.fromtimestamp((results / "verdicts.json").stat().st_mtime, UTC)
            ended = [read_launch(x.path).finished_at for x in sweep.schedule.launches if x.path.exists()]
            if newer := sum(datetime.fromisoformat(when) > made for when in ended):
                launches = "1 newer launch" if newer == 1 else f"{newer} newer launches"
                console.print(f"[yellow]without {launches}:[/] snakemake --cores all {report}/findings.md")

    @property
    def asked(self) -> list[Sweep]:
        """The campaigns that this run was asked for: by a target of theirs, or by the configuration."""
        return list(self._others.values()) or self.named


def check_config_files(*files: str | Path) -> None:
    """Ends the run, readably, where Snakemake would take the last of two equal keys or show a traceback."""
    try:
        for file in files:
            if not isinstance(read_yaml(Path(file)), dict):
                raise UserError("it says nothing", file=file, remedy="name a campaign: campaigns: [cpu-demo]")
    except UserError as error:
        _end(error)


def lead_scripts_here() -> None:
    """Lets the scripts import this library too, before an installed one, which may be another clone's."""
    inherited = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(LIBRARY.parent), inherited]))


@cache
def code(script: str) -> list[str]:
    """Source files that ``workflow_scripts/<script>`` imports, directly or through others: its result may depend on
    each.

    Snakemake notices a changed script, never a changed module that the script imports.
    """
    found: set[Path] = set()
    waiting = [LIBRARY.parent / script]
    while waiting:
        for module in _imported(waiting.pop()) - found:
            found.add(module)
            waiting.append(module)
    return sorted(map(str, found))


def _imported(file: Path) -> set[Path]:
    """The library's files that one file imports, at its top or within a function."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    paths = (LIBRARY.parent.joinpath(*name.split(".")) for name in names if name.startswith(LIBRARY.name))
    return {path.with_suffix(".py") for path in paths if path.with_suffix(".py").is_file()}


def _end(error: Exception) -> NoReturn:
    print(f"\n{error}\n", file=sys.stderr)
    sys.exit(1)
