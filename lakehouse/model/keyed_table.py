"""Tables in the model: the folds of their records, and the visible part of their rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import singledispatch

from lakehouse.model.evaluate import evaluate
from lakehouse.model.event import Event, from_hashable
from lakehouse.model.fold import FoldInput, TableResult, fold_events
from lakehouse.plan.operator import Having, Operator, Suppress
from lakehouse.plan.table import Table
from lakehouse.semantics.aggregate.collection import exact_form
from lakehouse.semantics.changelog import Change
from lakehouse.semantics.position import Position
from lakehouse.semantics.tombstone import Row


def run_table(
    table: Table, events: Iterable[Event], until: int | None = None, judging_times: Mapping[Position, int] | None = None
) -> TableResult:
    """Run a table over its stream's events, in position order. until: see `lakehouse.model.model.run`.

    judging_times: the time that judges each record, if other records move the clock, too. Then no window closes and no
    row expires: final results are changes like others.
    """
    result = TableResult()
    for change in fold_events(table.fold, FoldInput(table, events, until, judging_times), result):
        assert change.key is not None
        row_before, row_after = result.rows.get(change.key), change.value
        for operator in table.later_operators:
            row_after = visible_row(operator, table, change, row_after)
        if any(hides_change(operator, row_before, row_after) for operator in table.later_operators):
            result.unseen.append(change)
            result.unqualified += [change] if row_after is None and change.value is not None else []
            continue
        result.changes.append(Change(change.key, row_after, change.timestamp, change.position))
        if row_after is None:
            result.rows.pop(change.key, None)
        else:
            result.rows[change.key] = row_after
    return result


@singledispatch
def visible_row(operator: Operator, table: Table, change: Change, value: Row | None) -> Row | None:
    """Return the row that an operator leaves visible; None if it hides the row."""
    return value


@visible_row.register
def _visible_row_of_having(operator: Having, table: Table, change: Change, value: Row | None) -> Row | None:
    if value is None:
        return None
    assert change.key is not None
    row = dict(zip((name.lower() for name in table.key), map(from_hashable, change.key), strict=True))
    qualifies = evaluate(operator.predicate, row | {name.lower(): v for name, v in value.items()}) is True
    return value if qualifies else None


@singledispatch
def hides_change(operator: Operator, before: Row | None, value: Row | None) -> bool:
    """Say whether an operator keeps a visible change out of the changelog."""
    return False


@hides_change.register
def _hides_never_seen(operator: Having, before: Row | None, value: Row | None) -> bool:
    return value is None and before is None


@hides_change.register
def _hides_unchanged(operator: Suppress, before: Row | None, value: Row | None) -> bool:
    # Not `==`: a NaN sum of doubles is unchanged, and one that goes from 0.0 to -0.0 is not.
    return bool(exact_form(value) == exact_form(before))
