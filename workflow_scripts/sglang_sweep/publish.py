"""A finished campaign as one folder that stands alone: what its report rests on, and the report rebuilt from it."""

import argparse
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import chdir
from pathlib import Path
from typing import Any

from sglang_sweep.errors import UserError
from sglang_sweep.evidence.arm import assess_arm
from sglang_sweep.evidence.artifacts import PUBLISHED_KERNELS, kernel_names
from sglang_sweep.files import places
from sglang_sweep.files.launches import read_launch, without_buckets
from sglang_sweep.files.records import read_json, write_json
from sglang_sweep.plan.declaration import collectives_file
from sglang_sweep.report.documents import write_documents
from sglang_sweep.verdict.verdicts import build_verdicts

CAMPAIGN_FILES = ("declaration.json", "verdicts.json", "report.json")

EVIDENCE_FILES = (
    "server.log",
    "server_info_after.json",
    "metrics_before.txt",
    "metrics_after.txt",
    "kernels.txt",
)
"""Of a launch, what evidence reads. Each request's details, traces and the client's log stay behind."""

ARM = re.compile(r"[a-z0-9][a-z0-9-]*-[0-9a-f]{10}")


def publish(results: Path, folder: Path) -> None:
    """Copies of ``results`` (``results/<campaign>``) what the report needs into ``folder``, and writes it there.

    Nothing is judged again; what a judgement needs goes along, so that `rebuild` comes to the same verdicts.

    Copied back, ``folder/results`` is also enough to measure on. Raises UserError without a finished report.
    """
    held = {path.parent.name for path in folder.glob("results/*/declaration.json")} - {results.name}
    if held:
        raise UserError(
            f"{folder} holds the campaign {', '.join(sorted(held))} already",
            remedy="name a folder of its own",
        )
    missing = [name for name in CAMPAIGN_FILES if not (results / name).exists()]
    if missing:
        raise UserError(
            f"{results} has no {', '.join(missing)}",
            remedy=f"snakemake --cores all reports/{results.name}/findings.md",
        )
    named = [results / name for name in CAMPAIGN_FILES]
    beside = [*_collectives(results), *results.glob("bare-client.json"), *_evidence(results)]
    for file in [*_site_files(results), *named, *beside, *_records(results)]:
        copy = folder / "results" / file.relative_to(results.parent)
        copy.parent.mkdir(parents=True, exist_ok=True)
        if file.name.startswith("metrics_"):
            copy.write_text(without_buckets(file.read_text(encoding="utf-8")), encoding="utf-8")
        else:
            shutil.copyfile(file, copy)
    for profile in (path for arm in _arms(results) for path in _profiles(results, arm)):
        traces = sorted(profile.parent.rglob("*.trace.json*"))
        if traces and not (read_launch(profile).files or {}).get("kernels"):
            names = folder / "results" / profile.relative_to(results.parent).with_name(PUBLISHED_KERNELS)
            names.write_text("\n".join(kernel_names(traces)) + "\n", encoding="utf-8")
    with chdir(folder):
        _write(Path("results") / results.name)


def _site_files(results: Path) -> list[Path]:
    """The host, and the stacks that only it has: both are part of the launch keys."""
    return [results.parent / "environment.json", *sorted((results.parent / "stacks").glob("*.json"))]


def _collectives(results: Path) -> list[Path]:
    """The measurement of the collectives alone that the campaign asks for, where it was made."""
    declared = read_json(results / "declaration.json")
    made = collectives_file(results.parent, next(iter(declared["arms"])), declared.get("communication"))
    return [made] if made and made.exists() else []


def _records(results: Path) -> Iterator[Path]:
    for arm in _arms(results):
        for record in [*_launches(results, arm), *_profiles(results, arm)]:
            yield record
            for file in filter(None, (read_launch(record).files or {}).values()):
                if Path(file).name in EVIDENCE_FILES and (record.parent / file).is_file():
                    if not (record.parent / file).resolve().is_relative_to(record.parent.resolve()):
                        raise UserError(
                            f"{file} leads out of its folder", file=record, remedy="remove that link"
                        )
                    yield record.parent / file


def _arms(results: Path) -> list[str]:
    """The folders of the declared arms. Raises UserError for a name that is no folder's."""
    arms = list(read_json(results / "declaration.json")["arms"])
    if wrong := [arm for arm in arms if not ARM.fullmatch(arm)]:
        raise UserError(f"{wrong[0]!r} is no name of an arm", file=results / "declaration.json", key="arms")
    return arms


def _evidence(results: Path) -> list[Path]:
    return [file for arm in _arms(results) if (file := results / "evidence" / f"{arm}.json").is_file()]


def _launches(results: Path, arm: str) -> list[Path]:
    return list(places.launch_files(results.parent, arm).values())


def _profiles(results: Path, arm: str) -> list[Path]:
    """profile.json, or nothing."""
    made = places.profile_file(results.parent, arm)
    return [made] if made.exists() else []


def rebuild(folder: Path, campaign: str) -> None:
    """Evidence, verdicts, figures and both documents of a published campaign, from the records in it.

    Neither the campaign's file, nor its stack, nor its host is asked.
    """
    with chdir(folder):
        results = Path("results") / campaign
        declared: dict[str, Any] = read_json(results / "declaration.json")
        launches = {arm: _launches(results, arm) for arm in declared["arms"]}
        first = next(iter(declared["arms"].values()))["key"]  # the baseline's arms share its key
        baseline = [
            path for arm, of in declared["arms"].items() if of["key"] == first for path in launches[arm]
        ]
        evidence = [results / "evidence" / f"{arm}.json" for arm in declared["arms"]]
        for file, (name, arm) in zip(evidence, declared["arms"].items(), strict=True):
            profile = next(iter(_profiles(results, name)), None)
            write_json(file, assess_arm(arm, launches[name], baseline, profile))
        every = [path for paths in launches.values() for path in paths]
        verdicts = build_verdicts(declared, every, evidence).model_dump(mode="json")
        write_json(results / "verdicts.json", verdicts)
        _write(results)


def _write(results: Path) -> None:
    """The documents, in the working directory."""
    every = [path for arm in _arms(results) for path in _launches(results, arm)]
    write_documents(results, every, Path(), next(iter(_collectives(results)), None))


def main(arguments: Sequence[str]) -> int:
    """``python -m sglang_sweep publish CAMPAIGN FOLDER``."""
    parser = argparse.ArgumentParser(prog="python -m sglang_sweep publish", description=__doc__)
    parser.add_argument("campaign", help="its results are read from results/CAMPAIGN")
    parser.add_argument("folder", type=Path, help="where the published campaign goes; what is there is kept")
    asked = parser.parse_args(arguments)
    publish(Path("results") / asked.campaign, asked.folder)
    print(asked.folder / "findings.md")
    return 0
