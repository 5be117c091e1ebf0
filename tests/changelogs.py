"""Duality in one function: a changelog, applied to an empty table, is the table."""

from __future__ import annotations

from collections.abc import Iterable

from lakehouse.semantics.changelog import Change, Key
from lakehouse.semantics.tombstone import Row, is_tombstone


def apply(changes: Iterable[Change], table: dict[Key, Row] | None = None) -> dict[Key, Row]:
    """Fold a changelog into a table: key -> row. `table` is the initial state; it is not changed."""
    state = dict(table or {})
    for change in changes:
        if change.key is None:
            continue
        if is_tombstone(change.value):
            state.pop(change.key, None)
        else:
            assert change.value is not None
            state[change.key] = change.value
    return state
