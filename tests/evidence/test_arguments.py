from sglang_sweep.evidence.arguments import parse_arguments


def test_arguments_are_read_from_both_notations() -> None:
    call = "x server_args=ServerArgs(tp_size=2, a=None, nested=Config(decode=Phase(bs=[1, 2])), s='a, b')"
    mapping = "x server_args={'tp_size': 2, 'a': None, 'nested': {'decode': {'bs': [1, 2]}}, 's': 'a, b'}"
    expected = {"tp_size": 2, "a": None, "nested": {"decode": {"bs": [1, 2]}}, "s": "a, b"}
    assert parse_arguments(call) == parse_arguments(mapping) == expected


def test_arguments_that_are_no_python_still_give_their_simple_values() -> None:
    text = "server_args=ServerArgs(tp_size=2, mode=<Mode.X: 1>, name='m', on=True)"
    assert parse_arguments(text) == {"tp_size": 2, "name": "m", "on": True}
