"""When a row crosses a condition: it begins to meet it, or ceases to.

A condition that is null is not met, and a row that is not there meets none. What counts is one change, the row before
it and the row after it; a change from a row that meets the condition to another that does is no crossing.
"""

from __future__ import annotations

from typing import Literal

Crossing = Literal["enter", "leave"]


def find_crossing(met_before: bool | None, met_after: bool | None) -> Crossing | None:
    """Return what a change is, None for no crossing. before, after: the condition of each row; None without a row."""
    if met_before is not True and met_after is True:
        return "enter"
    if met_before is True and met_after is not True:
        return "leave"
    return None
