"""A campaign on this site: commands, environments, keys and the facts jobs share."""

import dataclasses
from pathlib import Path

import pytest
from sglang_sweep.campaign.model import Change
from sglang_sweep.campaign.site import default_store
from sglang_sweep.errors import InfrastructureFault, UserError
from sglang_sweep.host.fingerprint import fingerprint
from sglang_sweep.host.recording import RecordedSources
from sglang_sweep.host.recording import recorded_host as read_host
from sglang_sweep.plan.declaration import declaration
from sglang_sweep.plan.sweep import Sweep, load_sweep, recorded_host

RECORDED = Path(__file__).parent / "recordings" / "hosts" / "no-gpu" / "host.yaml"
HOST = fingerprint(RecordedSources(read_host(RECORDED).document), folders=["/"])


def sweep(**config: object) -> Sweep:
    return load_sweep("cpu-demo", {"campaigns": ["cpu-demo"], **config}, HOST)


def keys(of: Sweep) -> dict[str, str]:
    return {arm.name: arm.key for arm in of.schedule.arms}


def test_the_servers_command_is_sorted_seeded_and_lacks_only_host_and_port(tmp_path: Path) -> None:
    command = sweep(store=str(tmp_path)).server_command(sweep().campaign.baseline)
    assert command[1:3] == ["-m", "sglang.launch_server"]
    flags = [word for word in command if word.startswith("--")]
    assert flags == sorted(flags)
    assert {"--random-seed", "--enable-metrics", "--model-path"} <= set(flags)
    assert not {"--host", "--port"} & set(flags)
    assert command[command.index("--model-path") + 1].startswith(str(tmp_path / "models" / "smollm2-135m-"))


def test_where_the_store_lies_is_in_no_key_and_what_servers_need_is(tmp_path: Path) -> None:
    assert keys(sweep(store=str(tmp_path))) == keys(sweep())
    assert set(keys(sweep(server_env={"NCCL_IB_DISABLE": "1"})).values()).isdisjoint(keys(sweep()).values())


def test_limits_of_patience_are_in_no_key() -> None:
    assert keys(sweep(limits={"launch_s": 99})) == keys(sweep())


def test_the_order_of_keys_is_in_no_parameter_of_a_rule() -> None:
    plain = sweep()
    flags = dict(reversed(plain.campaign.baseline.flags.items()))
    other = dataclasses.replace(
        plain,
        campaign=dataclasses.replace(
            plain.campaign, baseline=dataclasses.replace(plain.campaign.baseline, flags=flags)
        ),
    )
    assert repr(declaration(other)) == repr(declaration(plain))


def test_another_variant_has_another_gate_and_another_store_has_not(tmp_path: Path) -> None:
    assert sweep(store=str(tmp_path)).ready == sweep().ready
    fewer = dataclasses.replace(sweep().campaign, variants=sweep().campaign.variants[:1])
    assert dataclasses.replace(sweep(), campaign=fewer).ready != sweep().ready


def test_a_stack_that_is_not_built_is_declared_and_nothing_more(tmp_path: Path) -> None:
    facts = sweep(store=str(tmp_path)).stack_facts()["cpu"]
    assert (facts["built"], facts["sglang"]) == (None, "0.5.23")


def test_the_flags_of_a_variant_that_is_put_off_are_checked_too() -> None:
    first, *_ = sweep().campaign.variants
    change = Change(flags={"chunked-prefil-size": 512})
    later = dataclasses.replace(first, blocks=0, change=change, flags=first.flags | change.flags)
    campaign = dataclasses.replace(sweep().campaign, variants=(later,))
    with pytest.raises(UserError, match="chunked-prefil-size"):
        dataclasses.replace(sweep(), campaign=campaign).check_flags()


def test_ranks_are_counted_from_the_flags() -> None:
    loaded = sweep()
    ranks = {arm.name: loaded.ranks(arm.folder) for arm in loaded.schedule.arms}
    assert (ranks["baseline"], ranks["tp2"]) == (1, 2)


def test_the_store_follows_the_users_cache_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert default_store() == Path("/cache/sglang-sweep")
    assert sweep(store="~/s").store == Path("~/s").expanduser()


def test_a_job_without_a_fingerprint_says_how_to_get_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InfrastructureFault, match="snakemake --cores"):
        recorded_host()


def test_wrong_site_settings_are_told_before_the_campaign_is_read() -> None:
    with pytest.raises(UserError, match="unknown key 'shop'"):
        load_sweep("cpu-demo", {"campaigns": ["cpu-demo"], "shop": 1}, HOST)


def test_two_variants_with_one_command_are_an_error_that_names_both() -> None:
    plain = sweep()
    twin = dataclasses.replace(plain.campaign.variants[0], name="twin")
    campaign = dataclasses.replace(plain.campaign, variants=(*plain.campaign.variants, twin))
    first = plain.campaign.variants[0].name
    with pytest.raises(UserError, match=rf"variants\[twin\].change: is the same command.* as {first}"):
        dataclasses.replace(plain, campaign=campaign).check_changes()


def test_a_container_cannot_be_the_baselines_stack() -> None:
    plain = sweep()
    boxed = dataclasses.replace(plain.stacks["cpu"], kind="container")
    plain.__dict__["stacks"] = {"cpu": boxed}
    with pytest.raises(UserError, match="stack: the baseline's stack cpu is a container"):
        plain.check_changes()
