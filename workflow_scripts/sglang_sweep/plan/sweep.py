"""A campaign on this site and host: configuration, stacks, models and fingerprint brought together.

The Snakefile and every script build the same ``Sweep`` from the same configuration, so that a job never
depends on state that another process held.
"""

import os
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from sglang_sweep.campaign.flags import (
    FlagTable,
    client_flag_problems,
    command_line,
    flag_problems,
    gpus_needed,
    known_to_any_version,
    ranks,
    recorded_table,
    table_of,
    variable_problems,
)
from sglang_sweep.campaign.model import Campaign, Variant, load_campaign
from sglang_sweep.campaign.site import Site
from sglang_sweep.errors import InfrastructureFault, UserError, UserErrors
from sglang_sweep.files import records as record
from sglang_sweep.files.digest import digest
from sglang_sweep.gate.findings import Finding
from sglang_sweep.gate.gate import gate
from sglang_sweep.host.fingerprint import fingerprint
from sglang_sweep.host.host_class import class_digest, gpus_digest, host_identity
from sglang_sweep.host.sample import quick_check
from sglang_sweep.launch.environment import ambient, server_environment, thread_binding
from sglang_sweep.launch.order import LaunchOrder
from sglang_sweep.plan import schedule as plan
from sglang_sweep.stacks.models import Model, load_model, weights_gib
from sglang_sweep.stacks.stack import Stack, load_stack

ENVIRONMENT = Path("results/environment.json")
"""The host's fingerprint, made once; launch keys hold its class."""

RESULTS = Path("results")

RECORDED_STACKS = RESULTS / "stacks"
"""What stacks of kind ``existing`` were on the host that measured."""

ENVS = Path(__file__).parents[3] / "envs"
"""The stacks of this clone. Not a parameter of any rule: a clone that is moved must not measure again."""


@dataclass(frozen=True)
class Sweep:
    """Everything a rule may ask about one campaign."""

    campaign: Campaign
    site: Site
    host: dict[str, Any]

    @property
    def store(self) -> Path:
        """Where stacks and models are kept."""
        return self.site.store_folder

    @cached_property
    def stacks(self) -> dict[str, Stack]:
        """By name, the baseline's first."""
        return {name: load_stack(ENVS, name, RECORDED_STACKS) for name in self.campaign.stacks}

    @cached_property
    def models(self) -> dict[str, Model]:
        """By canonical name, for every model of every variant."""
        specs = {n: s for v in self.campaign.all_variants for n, s in plan.models_of(v).items()}
        return {name: load_model(spec, Path("config/models.yaml")) for name, spec in specs.items()}

    @cached_property
    def schedule(self) -> plan.Schedule:
        """What is launched, in which order."""
        arms = plan.arms_of(
            self.campaign,
            {name: stack.digest for name, stack in self.stacks.items()},
            {name: model.digest for name, model in self.models.items()},
            class_digest(self.host),
            ambient(self.host["environment"]) | self.site.server_env,
        )
        if not self.site.measure:
            made = plan.measured_so_far(self.campaign, arms, RESULTS)
            self._refuse_other_keys(made)
            return made
        return plan.schedule(self.campaign, arms, RESULTS, gpus_digest(self.host))

    def _refuse_other_keys(self, made: plan.Schedule) -> None:
        """A report of nothing must not replace one of launches that are there under other keys."""
        folders = (RESULTS / "launches", RESULTS / self.campaign.name / "launches")
        others = [path for folder in folders for path in folder.glob("*/block-*/launch.json")]
        if others and not made.launches:
            raise UserError(
                f"none of the {len(others)} launches here has one of this campaign's keys: campaign, stack, model or "
                f"host differ from when they were made",
                file=others[0].parents[2],
                remedy=f"put back what they were made with; earlier hosts are kept beside {ENVIRONMENT}",
            )

    @property
    def ready(self) -> Path:
        """The file that says these arms may run on this host; named by them, so that others are checked anew."""
        asked = digest({arm.name: arm.key for arm in self.schedule.arms})
        return RESULTS / self.campaign.name / f"ready-{asked}.json"

    def stack_marker(self, stack: str) -> Path:
        """The file whose presence says that the stack is complete."""
        return self.stacks[stack].folder(self.store) / "stack.json"

    def model_markers(self, variant: Variant) -> list[Path]:
        """The files whose presence says that the variant's models are complete."""
        markers = (self.models[name].marker(self.store) for name in plan.models_of(variant))
        return [marker for marker in markers if marker is not None]

    def stack_facts(self) -> dict[str, dict[str, Any]]:
        """Each stack as declared, and under ``built`` what is really in it; None while it is not built."""
        facts = {}
        for name, stack in self.stacks.items():
            marker = self.stack_marker(name)
            facts[name] = {**stack.declared, "built": record.read_json(marker) if marker.exists() else None}
        return facts

    def gate_findings(self) -> list[Finding]:
        """What the environment gate says of this campaign's variants on this host."""
        return gate(
            self.host,
            self.stack_facts(),
            self.campaign.all_variants,
            weights_gib={v.name: size for v in self.campaign.all_variants if (size := self.weights_gib(v))},
            server_env=self.site.server_env,
        )

    def weights_gib(self, variant: Variant) -> float | None:
        """GiB of the weights that the variant's GPUs hold together, each data-parallel replica its own; None where
        something else is loaded than what lies in the model's folder."""
        if any(variant.flags.get(name) for name in ("load-format", "quantization", "cpu-offload-gb")):
            return None
        size = weights_gib(Path(self.model_path(variant)))
        return size and size * gpus_needed(variant.flags) / ranks(variant.flags)

    def flag_table(self, stack: str) -> FlagTable:
        """Of the real parser when the stack is on this machine, else as recorded for its version."""
        flags = self.stacks[stack].folder(self.store) / "flags.json"
        if flags.exists():
            known = record.read_json(flags)
            if "options" in known:  # else an earlier version of this project asked for the names alone
                return table_of(known["sglang_version"], known["options"])
        return recorded_table(self.stacks[stack].sglang_version)

    def check_flags(self) -> None:
        """Raises UserErrors for every flag that its stack's SGLang does not know by exactly that name."""
        problems: list[UserError] = []
        campaign = self.campaign
        for index, variant in enumerate(campaign.all_variants):
            if variant.planned_only and (variant.change.patch or variant.stack not in self.stacks):
                continue  # a patch may bring flags of its own
            key = "baseline.flags" if index == 0 else f"variants[{variant.name}].change.flags"
            table = self.flag_table(variant.stack)
            declared = variant.change.flags if index else variant.flags
            problems += variable_problems(
                variant.change.env if index else variant.env, campaign.file, f"{key.removesuffix('flags')}env"
            )
            # What is taken away may be of another stack's SGLang, of the baseline or of a campaign that is extended.
            taken = {n for n, value in declared.items() if value is None and known_to_any_version(n)}
            own = {name: value for name, value in declared.items() if name not in taken}
            problems += flag_problems(own, table, campaign.file, key)
            inherited = {name: value for name, value in variant.flags.items() if name not in declared}
            if index and variant.change.stack:
                problems += flag_problems(inherited, table, campaign.file, f"{key} (inherited)")
        for workload in campaign.workloads:
            problems += client_flag_problems(
                workload.bench_flags, campaign.file, f"workloads[{workload.name}].bench_flags"
            )
        if problems:
            raise UserErrors(problems)

    def check_site(self) -> None:
        """Raises UserErrors for variables of this site that the campaign forbids."""
        forbidden = self.campaign.forbidden
        problems = [
            UserError(
                f"{name} must not run here: {forbidden.reason}",
                file="config/config.yaml",
                key=f"server_env.{name}",
                remedy=f"remove it, or leave {self.campaign.name} out",
            )
            for name in forbidden.env
            if name in self.site.server_env
        ]
        if problems:
            raise UserErrors(problems)

    def check_changes(self) -> None:
        """Raises UserErrors for every variant whose change leaves the baseline's own command."""
        baseline = self.schedule.arms[0]
        others = [arm for arm in self.schedule.arms if arm.variant.name != self.campaign.baseline.name]
        problems = [
            UserError(
                "changes nothing: this is the baseline's own command, environment and stack",
                file=self.campaign.file,
                key=f"variants[{arm.name}].change",
                remedy="take it out (A' is measured anyway), or correct the change",
            )
            for arm in others
            if arm.key == baseline.key
        ]
        first = {arm.key: arm.name for arm in reversed(others)}
        problems += [
            UserError(
                f"is the same command, environment and stack as {first[arm.key]}",
                file=self.campaign.file,
                key=f"variants[{arm.name}].change",
                remedy="take one of them out",
            )
            for arm in others
            if first[arm.key] != arm.name and arm.key != baseline.key
        ]
        stack = self.stacks[self.campaign.baseline.stack]
        if stack.kind == "container" and self.site.measure:
            problems.append(
                UserError(
                    f"the baseline's stack {stack.name} is a container: the load client has no interpreter to run in",
                    file=self.campaign.file,
                    key="stack",
                    remedy="let the baseline run in a stack of kind lock or existing, and a variant in the container",
                )
            )
        if problems:
            raise UserErrors(problems)

    def server_command(self, variant: Variant) -> list[str]:
        """All but ``--host`` and ``--port``."""
        stack = self.stacks[variant.stack]
        flags = {
            name: str(self.models[plan.model_name(value["model"])].path(self.store))
            if plan.is_model(value)
            else value
            for name, value in variant.flags.items()
        }
        # A fixed seed makes dummy weights and sampling the same in all arms; a declared one wins.
        flags = {"random-seed": 1, "enable-metrics": True, "model-path": self.model_path(variant)} | flags
        return [*stack.launcher(self.store), *command_line(flags)]

    def model_path(self, variant: Variant) -> str:
        """The served model's folder, or its hub id."""
        return str(self.models[plan.model_name(variant.model)].path(self.store))

    def identity(self, folder: str, block: int) -> dict[str, Any]:
        """The part of launch.json that is known before anything runs."""
        arm = self.schedule.arm(folder)
        stack = self.stacks[arm.variant.stack]
        position = next(
            (x.position for x in self.schedule.launches if x.arm is arm and x.block == block),
            len(self.schedule.arms),
        )
        return {
            "campaign": self.campaign.name,
            "variant": arm.name,
            "key": arm.key,
            "identity": arm.identity,
            "block": block,
            "position": position,
            "stack": {
                "name": stack.name,
                "digest": stack.digest,
                "sglang_version": stack.sglang_version,
                "python": None,
            },
            "host": host_identity(self.host),
        }

    def wants(self, folder: str, block: int | None = None) -> bool:
        """Whether the campaign asks for an arm, in ``block`` or in any."""
        if block is None:
            return any(arm.folder == folder for arm in self.schedule.arms)
        return any(x.arm.folder == folder and x.block == block for x in self.schedule.launches)

    def hidden_size(self, variant: Variant) -> int | None:
        """Elements of a hidden state, from the model's config.json; None for a model that is not on this machine."""
        config = Path(self.model_path(variant)) / "config.json"
        size = record.read_json(config).get("hidden_size") if config.exists() else None
        return int(size) if size else None

    def ranks(self, folder: str) -> int:
        """Processes that serve one replica of the arm, each with a trace of its own: tensor x pipeline ranks."""
        return ranks(self.schedule.arm(folder).variant.flags)

    def gpus(self, folder: str) -> int:
        """GPUs that a launch of the arm uses on a host that has some."""
        return gpus_needed(self.schedule.arm(folder).variant.flags) if self.host.get("gpus") else 0

    def launch_order(self, folder: str, block: int) -> LaunchOrder:
        """The launch whose record is ``<folder>/block-<block>/launch.json``."""
        arm = self.schedule.arm(folder)
        stack = self.stacks[arm.variant.stack]
        cpu_only = not self.host.get("gpus")
        binding = thread_binding(os.sched_getaffinity(0)) if cpu_only else {}
        declared = {**binding, **stack.env, **self.site.server_env, **arm.variant.env}
        facts = record.read_json(self.stack_marker(arm.variant.stack))
        identity = self.identity(folder, block)
        identity["stack"] |= {
            "sglang_version": facts.get("sglang") or stack.sglang_version,
            "python": facts.get("python"),
        }
        return LaunchOrder(
            **identity,
            command=self.server_command(arm.variant),
            environment=server_environment(dict(os.environ), declared),
            declared_environment=declared,
            model=self.model_path(arm.variant),
            workloads=self.campaign.workloads,
            windows=self.campaign.design.windows,
            client_python=self.stacks[self.campaign.baseline.stack].python(self.store),
            share_processors=cpu_only,
            limits=self.site.limits,
            gpus=visible_gpus(self.host, dict(os.environ) | declared),
            random_key=self.site.api_key,
        )


def load_site(config: dict[str, Any], file: str | Path = "config/config.yaml") -> Site:
    """The site's configuration with defaults filled in. Raises UserError(s)."""
    return Site.of(config, file)


def load_sweep(name: str, config: dict[str, Any], host: dict[str, Any] | None = None) -> Sweep:
    """The campaign ``name`` on this site; ``host`` is the recorded fingerprint.

    Raises UserError(s) for anything wrong in the configuration, InfrastructureFault without a fingerprint.
    """
    if host is None:
        host = recorded_host()
    sweep = Sweep(load_campaign(name), load_site(config), host)
    sweep.check_site()
    sweep.check_flags()
    return sweep


def visible_gpus(host: dict[str, Any], environment: dict[str, str]) -> tuple[str, ...]:
    """UUIDs of the GPUs that a server with this environment may use; all where its own list cannot be read."""
    known = {gpu["uuid"]: gpu["uuid"] for gpu in host.get("gpus") or [] if gpu["uuid"]}
    by_index = {str(gpu["index"]): gpu["uuid"] for gpu in host.get("gpus") or [] if gpu["uuid"]}
    words = environment.get("CUDA_VISIBLE_DEVICES", "").split(",")
    return tuple(u for word in words if (u := (known | by_index).get(word.strip()))) or tuple(known)


ASKED = "SNAKEMAKE_SWEEP_CAMPAIGNS"
"""Variable by which a run tells its jobs the campaigns that it was asked for beside those that the site names."""


def asking(folder: str, block: int | None, config: dict[str, Any]) -> list[Sweep]:
    """The campaigns of this run that want the launch ``folder`` in ``block`` (None: in any), or else the first one of
    config/campaigns/ that does. Raises UserError when none does."""
    named = dict.fromkeys([*filter(None, os.environ.get(ASKED, "").split(",")), *load_site(config).campaigns])
    if found := [sweep for sweep in (load_sweep(n, config) for n in named) if sweep.wants(folder, block)]:
        return found
    for name in sorted({file.stem for file in Path("config/campaigns").glob("*.yaml")} - named.keys()):
        with suppress(UserError):
            if (sweep := load_sweep(name, config)).wants(folder, block):
                return [sweep]
    raise UserError(
        f"no campaign asks for a launch of {folder}", remedy="name the campaign in config/config.yaml"
    )


def recorded_host() -> dict[str, Any]:
    """The fingerprint in results/environment.json."""
    if not ENVIRONMENT.exists():
        raise InfrastructureFault(f"{ENVIRONMENT} is missing", remedy="snakemake --cores all environment")
    host: dict[str, Any] = record.read_json(ENVIRONMENT)
    return host


def host_for_planning(main_process: bool) -> dict[str, Any]:
    """The recorded fingerprint, or a fresh one; a job never makes one."""
    if ENVIRONMENT.exists() or not main_process:
        return recorded_host()
    return fingerprint()


def refuse_other_host(host: dict[str, Any]) -> None:
    """Raises InfrastructureFault when this is no longer the host that the launch keys were made for."""
    changed = quick_check(host)
    recorded, present = ambient(host["environment"]), ambient(os.environ)
    for name in sorted({*recorded, *present}):
        if recorded.get(name) != present.get(name):
            changed.append(f"{name} was {recorded.get(name, 'unset')}, is {present.get(name, 'unset')}")
    if changed:
        raise InfrastructureFault(
            "this host is not the one in the launch keys: " + "; ".join(changed),
            remedy="snakemake --cores 1 environment (its fingerprint is then the new host's, and what was measured "
            "on the old one is kept under its keys)",
        )
