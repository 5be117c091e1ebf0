"""Alerts: changes at which a table's row begins, or ceases, to meet a condition; and functions that are called.

A missing row meets no condition. So two rows decide about a crossing, the row before a change and the row after it, and
the batch has no influence:

    condition n > 2      n: -    1    3    4    2    3    (deleted)
    row meets it            no   no   yes  yes  no   yes  no
    crossing                          enter     leave enter leave
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from lakehouse.errors import PlanError
from lakehouse.plan.expectation import parse_row_condition
from lakehouse.plan.expression.expression import Expression, Json, sql_part
from lakehouse.plan.expression.schema import Column, check_distinct, check_name
from lakehouse.plan.operator import Expire
from lakehouse.plan.origin import Origin, upstream_part
from lakehouse.plan.refused.steps import Declaration, value_in_message
from lakehouse.plan.step import Shape
from lakehouse.semantics.position import Position

if TYPE_CHECKING:
    from lakehouse.plan.stream import Stream
    from lakehouse.plan.table import Table

On = Literal["enter", "leave", "both"]
ON = ("enter", "leave", "both")
ALWAYS = "true"  # every row meets this condition, so a row crosses it when it comes or goes


@dataclass(frozen=True, slots=True)
class Crossings(Origin):
    """The changes of a table at which its row begins (enter) or ceases (leave) to meet a condition, as records.

    alert: the name of the alert, which is also in the identities of the records. when: the condition. direction: the
    crossings that count.
    """

    alert: str
    table: Table
    when: Expression
    direction: On = "enter"

    @classmethod
    def declare(cls, table: Table, alert: str, condition_text: str, direction: On) -> tuple[Crossings, Shape]:
        """Return the crossings, and the shape of their records.

        condition_text: Spark SQL over the row. A record has the table's key, `alert`, `crossing` ("enter" or "leave"),
        `before` and `after` (the values of the two rows; null for no row), `alert_id` (its identity: name and
        position).

        Raises PlanError for a condition that can't be used, and for "leave" if rows leave with time.
        """
        subject = f"table {table.name!r}: alert {check_name(alert, 'alert')!r}"
        if direction not in ON:
            raise PlanError(f"{subject}: on={direction!r}; expected {', '.join(map(repr, ON))}.")
        if direction != "enter" and table.find(Expire) is not None:
            raise PlanError(
                f"{subject}: rows of {table.name!r} leave with time (retention), without a change that could be told. "
                'Declare the table without retention, or on="enter".'
            )
        condition = parse_row_condition(condition_text, table.columns, subject)
        key_columns = [column for column in table.columns if column.name in table.key]
        row_type = _row_type([column for column in table.columns if column.name in table.values])
        crossing_columns = [Column("crossing", "string"), Column("before", row_type), Column("after", row_type)]
        columns = [*key_columns, Column("alert", "string"), *crossing_columns, Column("alert_id", "string")]
        try:
            check_distinct((column.name for column in columns), subject)
        except PlanError as error:
            raise PlanError(f'{error} In the table\'s key: group_by("alert AS name"), or rekey.') from None
        return cls(alert, table, condition, direction), Shape(f"alert {alert!r}", table.key, tuple(columns))

    @property
    def name(self) -> str:
        return self.alert

    @property
    def label(self) -> str:
        return f"alert {self.alert!r}"

    @property
    def tables(self) -> tuple[Table, ...]:
        return (self.table,)

    def over(self, new_parts: Sequence[Stream], new_tables: Sequence[Table]) -> Origin:
        (table,) = new_tables
        return replace(self, table=table)

    def lines(self) -> list[str]:
        crossing_words = {"enter": "BEGINS TO MEET", "leave": "CEASES TO MEET", "both": "BEGINS OR CEASES TO MEET"}[
            self.direction
        ]
        crossing_words = f"{crossing_words} {self.when}"
        if self.when.text == ALWAYS:
            crossing_words = {"enter": "COMES", "leave": "GOES", "both": "COMES OR GOES"}[self.direction]
        return [f"ALERT {self.alert}: ROW OF TABLE {self.table.name} {crossing_words}"]

    def fingerprint(self, read_columns: set[str], *, keyed: bool) -> Json:
        return {
            **upstream_part("alert_of", self.table),
            "alert": self.alert,
            "when": sql_part(self.when),
            "crossing": self.direction,
        }


@dataclass(frozen=True, slots=True)
class StreamRecord:
    """A record as a function receives it.

    key: None for a null key; value: None for a null value; both by column. time: the event time. position: that of the
    record, or change, that caused this record. id: a unique text; the same if the function receives the record again.
    """

    key: dict[str, Any] | None
    value: dict[str, Any] | None
    time: datetime
    position: Position
    id: str


@dataclass(frozen=True, slots=True, repr=False)
class FunctionSink(Declaration):
    """A Python function that is called with each record of a stream. name: the name of its progress in the lake."""

    name: str
    source: Stream
    function: Callable[[StreamRecord], Any]

    @classmethod
    def declare(cls, stream: Stream, name: str, function: Callable[[StreamRecord], Any]) -> FunctionSink:
        """Return the sink. Raises PlanError for an impossible name, or a function that can't be called."""
        subject = f"{stream.label}: to_function"
        if not callable(function):
            raise PlanError(
                f"{subject}: found {value_in_message(function)}, expected a function of one argument, the record."
            )
        return cls(check_name(name, subject), stream, function)


def _row_type(columns: Sequence[Column]) -> str:
    """Return the type of a row's values; empty if only Spark can tell the type of one."""
    if not all(column.type for column in columns):
        return ""
    return f"struct<{', '.join(f'{column.name}: {column.type}' for column in columns)}>"
