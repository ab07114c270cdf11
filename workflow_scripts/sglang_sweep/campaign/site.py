"""What is true of this site rather than of a campaign: ``config/config.yaml``."""

import os
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from sglang_sweep.campaign.declared import Count, Environment
from sglang_sweep.files.models import Declared, Items, Number, Positive


class Limits(Declared):
    """When a launch is given up, in seconds."""

    launch_s: Positive = 1200
    """From spawn to ready while nothing compiles; a stalled server is given up earlier."""
    stall_s: Positive = 180
    """Without log growth, processor time or compiler processes."""
    window_s: Positive = 900
    """One timed pass of a workload."""
    stop_s: Positive = 30
    """From TERM to KILL."""
    busy_wait_s: Annotated[Number, Field(ge=0)] = 3600
    """How long to wait for another measurement on this host to end."""


def _listed(value: Any) -> Any:
    """``--config campaigns=cpu-demo`` means a list of one."""
    return [value] if isinstance(value, str) else value


def _switched(value: Any) -> Any:
    """Snakemake's ``--config`` knows True and False, and leaves YAML's own spelling a text."""
    return {"true": True, "false": False}.get(value, value) if isinstance(value, str) else value


class Site(Declared):
    """What is true of this site rather than of a campaign. Nothing here changes a launch's key except server_env."""

    campaigns: Annotated[Items[str], Field(min_length=1), BeforeValidator(_listed)]
    """The campaigns that plain `snakemake` builds, names of files in config/campaigns/."""
    measure: Annotated[bool, BeforeValidator(_switched)] = True
    """Whether to measure what is missing. False makes the reports of what is there and launches nothing."""
    store: str | None = None
    """Where stacks and converted models are kept, shared by clones and campaigns. Default, the user's cache folder."""
    bundle_part_mib: Count = 1024
    """Size of the parts of a bundle for a host without network, MiB."""
    api_key: bool = True
    """Whether servers get a random API key, for as long as they live, where the campaign gives them none."""
    server_env: Environment = {}
    """Environment variables that every server on this site needs. They enter the launch keys."""
    limits: Limits = Limits()
    """When a launch is given up, in seconds."""

    @property
    def store_folder(self) -> Path:
        """Where stacks and models are kept."""
        return Path(self.store).expanduser() if self.store else default_store()


def default_store() -> Path:
    """The user's cache folder (XDG base directory specification)."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sglang-sweep"
