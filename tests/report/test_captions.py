"""Captions of `snakemake --report` exist, and are valid reStructuredText."""

from __future__ import annotations

import re
from pathlib import Path

import docutils.core
import pytest

ROOT = Path(__file__).parents[2]
CAPTIONS = sorted((ROOT / "reports" / "captions").glob("*.rst"))


def test_every_caption_a_rule_names_exists() -> None:
    named = [
        (path.parent / caption).resolve()
        for path in (ROOT / "rules").glob("*.smk")
        for caption in re.findall(r'caption="([^"]+)"', path.read_text(encoding="utf-8"))
    ]
    assert named
    assert [caption for caption in named if not caption.exists()] == []


@pytest.mark.parametrize("caption", CAPTIONS, ids=lambda path: path.stem)
def test_a_caption_is_valid_and_knows_its_campaign(caption: Path) -> None:
    text = caption.read_text(encoding="utf-8")
    filled = re.sub(r"\{\{ snakemake\.wildcards\.campaign \}\}", "cpu-demo", text)
    assert "{{" not in filled
    docutils.core.publish_string(filled, settings_overrides={"report_level": 2, "halt_level": 2})
