"""What decides verdicts in a campaign's design."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MIN_BLOCKS = 3
"""WIN, LOSS and NO_DIFFERENCE need this many: with two, the spread rests on one difference."""


@dataclass(frozen=True)
class Design:
    """``smallest_effect`` is relative (0.02 is 2 %)."""

    smallest_effect: float = 0.02
    alpha: float = 0.05
    mode: str = "fixed"
    blocks: int = 6
    max_blocks: int = 10
    baselines: int = 2
    aa_alpha: float = 0.01
    contemporary_hours: float = 24.0

    @property
    def margin(self) -> float:
        """The smallest effect on the log scale: ratios between 1/(1+s) and 1+s are 'no difference'."""
        return math.log1p(self.smallest_effect)

    @property
    def adaptive(self) -> bool:
        """Whether looks after each block are counted."""
        return self.mode == "adaptive"


def design_from(campaign_design: Mapping[str, Any]) -> Design:
    """Read what verdicts need from a campaign's ``design``; absent keys take the defaults of the schema."""
    known = Design.__dataclass_fields__
    return Design(**{key: value for key, value in campaign_design.items() if key in known})
