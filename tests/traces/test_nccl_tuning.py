import gzip

from sglang_sweep.costs.nccl_tuning import nccl_tuning, nsys_prefix, tuning_environment

# of recording nccl-tree, NCCL 2.28.9
RECORDED = """\
vm:2407:2407 [0] NCCL INFO AllReduce: 4 Bytes -> Algo TREE proto LL channel{Lo..Hi}={0..0}
Capturing batches (bs=256):   0%| | 0/36vm:2407:2407 [0] NCCL INFO AllReduce: 262144 Bytes \
-> Algo TREE proto SIMPLE channel{Lo..Hi}={0..7}
vm:2407:2407 [0] NCCL INFO AllReduce: 8192 Bytes -> Algo TREE proto LL channel{Lo..Hi}={0..1}
vm:2408:2408 [1] NCCL INFO AllReduce: 8192 Bytes -> Algo TREE proto LL channel{Lo..Hi}={0..1}
vm:2408:2408 [1] NCCL INFO AllReduce: 8192 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..0}
vm:2408:2408 [1] NCCL INFO AllGather: 128256 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..5}
"""


def test_the_choice_by_message_size_is_read(tmp_path):
    log = tmp_path / "server.log.gz"
    log.write_bytes(gzip.compress(RECORDED.encode()))
    found = nccl_tuning(log)
    assert list(found) == [4, 8192, 262144]
    assert found[262144] == {"algo": "TREE", "proto": "SIMPLE", "channels": 8, "count": 1}
    assert (found[8192]["algo"], found[8192]["count"]) == ("TREE", 3)
    assert found[8192]["also"] == [{"algo": "RING", "proto": "LL", "channels": 1, "count": 1}]
    assert nccl_tuning(log, "AllGather")[128256]["channels"] == 6


def test_the_numbers_of_older_releases_are_named(tmp_path):
    log = tmp_path / "nccl.log"
    log.write_text("NCCL INFO AllReduce: 4096 Bytes -> Algo 1 proto 2 time 12.3\n")
    assert nccl_tuning(log) == {4096: {"algo": "RING", "proto": "SIMPLE", "channels": None, "count": 1}}


def test_the_files_of_all_processes_are_read_from_their_folder(tmp_path):
    for pid in (1, 2):
        (tmp_path / f"nccl-vm-{pid}.log").write_text(RECORDED)
    assert nccl_tuning(tmp_path)[4]["count"] == 2
    assert tuning_environment(tmp_path)["NCCL_DEBUG_FILE"].startswith(str(tmp_path))


def test_nsys_is_used_only_where_it_is_installed(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert nsys_prefix("out") == []
    tool = tmp_path / "nsys"
    tool.touch()
    tool.chmod(0o755)
    assert nsys_prefix("out")[:2] == [str(tool), "profile"]
