"""Any file given as YAML is read, or refused with one sentence, in bounded time and memory."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sglang_sweep.errors import UserError
from sglang_sweep.files.yaml_files import read_yaml

BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12)
)


@pytest.mark.parametrize(
    "text", [BOMB, "a: &a [*a]\n", "a: &a {b: {c: *a}}\n", "[" * 100_000, "x" * (1 << 21), "a: \0\n"],
    ids=["bomb", "own list", "own mapping", "deep", "large", "NUL"],
)  # fmt: skip
def test_a_hostile_file_is_refused_with_a_sentence(text: str, tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(text)
    with pytest.raises(UserError, match=r"x\.yaml"):
        read_yaml(file)


@given(text=st.text(st.sampled_from("a: &*[]{}-\n'\"!|>#%@?,\t0"), max_size=40))
def test_any_text_is_read_or_refused(text: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("yaml") / "x.yaml"
    file.write_text(text)
    try:
        read_yaml(file)
    except UserError as error:
        assert "x.yaml" in str(error)
