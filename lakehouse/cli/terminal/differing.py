"""Rows that differ between two contents of a table, on a terminal: before and after."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lakehouse.cli.terminal import show

if TYPE_CHECKING:
    from lakehouse.semantics.difference import Unlike


def differing_rows(changes: Sequence[Unlike], caption: str | None) -> None:
    """Print keys that differ, each with its row before and after; of a changed row only the columns that differ."""
    rows = [(of["change"], show.pairs(of["key"]), *map(show.pairs, _unlike(of))) for of in changes]
    show.table("", ("change", "key", "before", "after"), rows, caption=caption)


def _unlike(change: Unlike) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    before, after = change["before"], change["after"]
    if before is None or after is None:
        return before, after
    names = list(dict.fromkeys([*before, *after]))
    unlike = [name for name in names if name not in before or name not in after or before[name] != after[name]]
    return tuple({name: side[name] for name in unlike if name in side} for side in (before, after))  # type: ignore[return-value]
