import gzip
import json
import shutil
import tracemalloc
from pathlib import Path

import pytest
from sglang_sweep.errors import UserError
from sglang_sweep.traces.reader import read_trace


def test_a_recorded_trace_is_read_with_its_rank_world_and_devices(recording):
    trace = read_trace(recording("nccl")[1])
    assert (trace.rank, trace.world_size, trace.sglang) == (1, 2, True)
    assert trace.devices == ["NVIDIA H200", "NVIDIA H200"]
    assert len(trace.kernels) == 1988 + 26
    assert trace.truncated is None


def test_a_file_name_of_sglang_tells_profile_rank_and_stage(tmp_path, maker):
    made = maker().annotation("step[DECODE bs=1]", 0, 5)
    path = made.write(tmp_path / "tuned-1790857026.118-TP-3-DP-1-EXTEND.trace.json.gz", rank=3)
    trace = read_trace(path)
    assert (trace.profile_id, trace.rank, trace.stage) == ("tuned-1790857026.118", 3, "EXTEND")


def test_the_rank_is_taken_from_the_process_name_where_nothing_else_tells_it(tmp_path):
    events = [
        {"ph": "M", "name": "process_name", "args": {"name": "sglang::scheduler_TP5"}},
        {"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 1},
    ]
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(events))
    assert read_trace(path).rank == 5


def test_memory_does_not_grow_with_the_events_that_are_not_kept(tmp_path):
    filler = json.dumps({"ph": "X", "cat": "python_function", "name": "x" * 900, "ts": 1.5, "dur": 2.5})
    path = tmp_path / "big.json"
    with path.open("w") as out:
        out.write('{"traceEvents": [')
        out.writelines(filler + "," for _ in range(12_000))
        out.write('{"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 1, "args": {"stream": 7}}]}')
    tracemalloc.start()
    trace = read_trace(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert trace.events == 12_001
    assert trace.bytes_read > 11e6
    assert peak < 0.1 * trace.bytes_read


@pytest.mark.parametrize("zipped", [True, False])
def test_a_truncated_trace_is_read_as_far_as_it_goes_and_says_so(tmp_path, recording, zipped):
    source = recording("nccl")[0]
    content = source.read_bytes() if zipped else gzip.decompress(source.read_bytes())
    path = tmp_path / source.name.removesuffix("" if zipped else ".gz")
    path.write_bytes(content[: len(content) // 2])
    trace = read_trace(path)
    assert trace.truncated is not None
    assert "ends early" in trace.truncated
    assert f"{trace.events} events" in trace.truncated
    assert 100 < trace.events < 5000


def test_a_trace_damaged_in_the_middle_is_called_corrupt(tmp_path, recording):
    text = bytearray(gzip.decompress(recording("nccl")[0].read_bytes()))
    text[len(text) // 2 : len(text) // 2 + 40] = b'"}]{' * 10
    path = tmp_path / "decode-TP-0.trace.json"
    path.write_bytes(text)
    assert "is corrupt" in str(read_trace(path).truncated)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"not json at all", "not a Chrome trace"),
        (b'{"a": 1}', "no traceEvents"),
        (b'{"traceEvents": []}', "no trace events"),
        (b'{"traceEvents": [', "nothing could be read"),
        (b"\x1f\x8b\x08\x00broken", "cannot be unpacked"),
        (b'{"traceEvents": [1, null, {"ph": "X"}, {"ph": "X", "cat": "kernel", "ts": "x"}]}', None),
    ],
)
def test_what_is_no_trace_is_refused_in_words(tmp_path, content, message):
    path = tmp_path / "x.trace.json.gz"
    path.write_bytes(content)
    if message is None:
        assert len(read_trace(path).kernels) == 0
        return
    with pytest.raises(UserError, match=message):
        read_trace(path)


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    with pytest.raises(UserError, match="no such file"):
        read_trace(tmp_path / "absent.json")
    with pytest.raises(UserError, match="is a folder"):
        read_trace(tmp_path)


def test_a_merged_trace_of_several_gpus_is_refused(tmp_path, maker):
    made = maker().kernel("a", 0, 1).kernel("b", 1, 1, device=1)
    with pytest.raises(UserError, match="merged trace"):
        read_trace(made.write(tmp_path / "merged.json"))


def test_an_unpacked_file_that_kept_its_gz_name_still_opens(tmp_path, recording):
    path = tmp_path / "decode-TP-0.trace.json.gz"
    path.write_bytes(gzip.decompress(Path(recording("nccl")[0]).read_bytes()))
    assert read_trace(path).events > 1000
    shutil.rmtree(tmp_path)
