"""Tables in the model: their records folded, and the visible part of what is kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import singledispatch

from lakehouse.model.evaluate import evaluate
from lakehouse.model.event import Event, unhashable
from lakehouse.model.fold import Given, Made, folded
from lakehouse.plan.operator import Having, Operator, Suppress
from lakehouse.plan.table import Table
from lakehouse.semantics.aggregate.collection import hashable_form
from lakehouse.semantics.changelog import Change
from lakehouse.semantics.position import Position
from lakehouse.semantics.tombstone import Row


def run(
    table: Table, events: Iterable[Event], until: int | None = None, judged: Mapping[Position, int] | None = None
) -> Made:
    """Run a table over its stream's events, in position order. until: see `lakehouse.model.model.run`.

    judged: the time that judges each record, if other records move the clock too. Then nothing closes and nothing
    expires: final results are changes like others.
    """
    made = Made()
    for change in folded(table.fold, Given(table, events, until, judged), made):
        assert change.key is not None
        before, value = made.rows.get(change.key), change.value
        for operator in table.behind:
            value = shown(operator, table, change, value)
        if any(hides(operator, before, value) for operator in table.behind):
            made.unseen.append(change)
            made.unqualified += [change] if value is None and change.value is not None else []
            continue
        made.changes.append(Change(change.key, value, change.timestamp, change.position))
        if value is None:
            made.rows.pop(change.key, None)
        else:
            made.rows[change.key] = value
    return made


@singledispatch
def shown(operator: Operator, table: Table, change: Change, value: Row | None) -> Row | None:
    """Return the row that an operator leaves visible; None for no row."""
    return value


@shown.register
def _qualifying(operator: Having, table: Table, change: Change, value: Row | None) -> Row | None:
    if value is None:
        return None
    assert change.key is not None
    row = dict(zip((name.lower() for name in table.key), map(unhashable, change.key), strict=True))
    qualifies = evaluate(operator.predicate, row | {name.lower(): v for name, v in value.items()}) is True
    return value if qualifies else None


@singledispatch
def hides(operator: Operator, before: Row | None, value: Row | None) -> bool:
    """Say whether an operator keeps a visible change out of the changelog."""
    return False


@hides.register
def _never_seen(operator: Having, before: Row | None, value: Row | None) -> bool:
    return value is None and before is None


@hides.register
def _unchanged(operator: Suppress, before: Row | None, value: Row | None) -> bool:
    # Not `==`: a NaN sum of doubles is unchanged.
    return bool(hashable_form(value) == hashable_form(before))
