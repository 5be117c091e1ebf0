"""Helpers of the window tests: records go through an operator, and its rows are shown."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate

from lakehouse.semantics.aggregate.collection import CollectList
from lakehouse.semantics.operators.cell import Arrival, CellChange, Cells, KeyOperator, Rules, Span

LISTED: Rules = (CollectList(),)
ShownStep = tuple[Span | None, list[int] | None, int]


def applied(operator: KeyOperator, times: Iterable[int]) -> tuple[Cells, list[list[CellChange]], list[list[Span]]]:
    """Records at these times, each with its time as its value: the rows, and each record's steps and late windows."""
    times = list(times)
    cells = Cells()
    outcomes = [
        operator.apply(cells, Arrival(time, horizon, number, (time,)))
        for number, (time, horizon) in enumerate(zip(times, accumulate(times, max), strict=True))
    ]
    return cells, [steps for steps, _ in outcomes], [late for _, late in outcomes]


def shown(steps: Iterable[CellChange]) -> list[ShownStep]:
    """Steps as (window, values, time); the values of a tombstone are None."""
    return [(step.span, None if step.cell is None else step.cell.accumulators[0], step.time) for step in steps]


def held(cells: Cells) -> dict[Span | None, list[int]]:
    """What each window holds, in the order of time."""
    return {span: sorted(cell.accumulators[0]) for span, cell in cells.items()}
