import json

from sglang_sweep.traces.cli import main


def test_the_breakdown_fits_80_columns_and_names_the_essentials(recording, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    assert main([str(path) for path in recording("eagle3-random-draft")]) == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 80
    assert "\x1b" not in text
    for word in ("TARGET_VERIFY bs=1", "draft_extend", "65 x 2.3 us", "rank 0 came late"):
        assert word in text


def test_json_is_the_whole_breakdown(recording, capsys):
    assert main([*map(str, recording("nccl")), "--json", "--sglang-version", "0.5.16"]) == 0
    breakdown = json.loads(capsys.readouterr().out)
    assert breakdown["ranks"] == [0, 1]
    assert {"kind", "count", "ms_per_step", "kernels_per_step", "allreduce", "classes", "gap_share"} <= set(
        breakdown["steps"][0]
    )


def test_a_mistake_is_one_message_and_status_2(tmp_path, capsys):
    empty = tmp_path / "decode-TP-0.trace.json.gz"
    empty.touch()
    assert main([str(empty)]) == 2
    captured = capsys.readouterr()
    assert "is empty" in captured.err
    assert "Traceback" not in captured.err + captured.out
