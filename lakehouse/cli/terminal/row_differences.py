"""Rows that differ between two contents of a table, on a terminal: before and after."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lakehouse.cli.terminal import show

if TYPE_CHECKING:
    from lakehouse.semantics.difference import RowDifference


def print_differing_rows(changes: Sequence[RowDifference], caption: str | None) -> None:
    """Print keys that differ, each with its row before and after; of a changed row only the columns that differ."""
    from lakehouse.lake.row.difference import COLUMNS, change_cells

    show.print_table("", COLUMNS, list(map(change_cells, changes)), caption=caption)
