import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sglang_sweep.evidence import knowledge as module
from sglang_sweep.evidence.literals import required_texts

PATTERNS = [entry.data["pattern"] for entry in module.load().entries() if entry.pattern is not None]


@pytest.mark.parametrize(
    ("pattern", "texts"),
    [
        ("Memory pool end", (b"Memory pool end",)),
        (r"Errno \d+\] error while", (b"] error while",)),
        ("ready to roll|fired up", (b"ready to roll", b"fired up")),
        ("(?:either|or) something else", (b" something else",)),
        ("colou?rs of the rainbow", (b"rs of the rainbow",)),
        ("many spaces{2,3}here", (b"many space",)),
        (r"a[bc\]]d then more", (b"d then more",)),
        ("[^]]+ closing", (b" closing",)),
        ("(?i)any case", None),
        ("(?:only|groups)", None),
        ("long enough|ab", None),
        (r"\d+", None),
    ],
)
def test_the_required_text_is_the_longest_plain_run_of_each_alternative(
    pattern: str, texts: tuple[bytes, ...] | None
) -> None:
    assert required_texts(pattern) == texts


@pytest.mark.parametrize("pattern", PATTERNS)
@settings(max_examples=5)
@given(data=st.data())
def test_whatever_a_pattern_matches_holds_a_required_text(pattern: str, data: st.DataObject) -> None:
    texts = required_texts(pattern)
    if texts is None:
        return
    line = data.draw(st.from_regex(re.compile(pattern, re.MULTILINE), fullmatch=False))
    assert any(text.decode() in line for text in texts)
