"""Crossings: a row begins to meet a condition, or ceases to.

A null condition is not met, and a missing row meets no condition. Each change is judged by the row before it and the
row after it; if both meet the condition, the change is no crossing.
"""

from __future__ import annotations

from typing import Literal

Crossing = Literal["enter", "leave"]


def find_crossing(met_before: bool | None, met_after: bool | None) -> Crossing | None:
    """Return a change's crossing; None if it is none.

    met_before, met_after: the condition for the row before and after the change; None without a row.
    """
    if met_before is not True and met_after is True:
        return "enter"
    if met_before is True and met_after is not True:
        return "leave"
    return None
