"""The operators of a table over its stream's records: a fold, and those after it. Frozen values.

    Latest (LatestSent), LatestBy, Aggregate   fold: a record and the row of its key become the key's next row
    RowHistory                    fold: each row that such a fold had, from one event time until the next
    Final                         a window's row becomes visible once, when the window has closed
    Having                        a row is visible while it qualifies
    Expire                        rows of windows leave, by the watermark
    Suppress                      a change that changes nothing is not emitted

A table has one fold, and at most one of each of the other operators, in this order. An operator's type decides how it
runs: on the model in `lakehouse.model.fold` and `lakehouse.model.keyed_table`, on Spark in
`lakehouse.spark.fold.fold_choice` (folds) and `lakehouse.spark.fold.visibility` (the visible part of the state).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from lakehouse.duration import duration_ms
from lakehouse.errors import PlanError
from lakehouse.plan.aggregation import NamedAggregation, aggregation_fingerprint, shown_type
from lakehouse.plan.expression.expression import (
    Expression,
    Json,
    Named,
    expression_type,
    parse_expression,
    sql_part,
    sql_parts,
)
from lakehouse.plan.expression.schema import Column
from lakehouse.plan.windows import window_fingerprint
from lakehouse.semantics.operators.cell import KeyOperator, Plain, Rules, TimeWindows
from lakehouse.semantics.operators.row_history import AggregateHistory
from lakehouse.semantics.operators.session import Sessions
from lakehouse.semantics.operators.sliding import SlidingWindows
from lakehouse.semantics.time.window import Hopping, Session, Window

WINDOW_COLUMNS = ("window_start", "window_end")
VALID_FROM, VALID_TO = "valid_from", "valid_to"
Tombstones = Literal["by order", "newest"]
TOMBSTONES = ("by order", "newest")


class Operator:
    """The facts about an operator.

    keeps_more: the state is more than the visible rows. looks_back: the visible side of a change depends on the row
    before it. leaves_out: the changelog lacks some changes of the state.
    """

    __slots__ = ()
    looks_back = False
    leaves_out = False

    @property
    def keeps_more(self) -> bool:
        return False

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """The expressions over the stream's records that the operator reads."""
        return ()

    def lag(self, window: Window | None) -> int | None:
        """The lag behind the watermark, in ms, that a record's horizon may have at most; None without a limit."""
        return None

    def lines(self) -> list[str]:
        """Return the operator as lines of the plan's text."""
        return []

    def warnings(self) -> list[str]:
        """Return sentences about options that are allowed but rarely meant."""
        return []

    def fingerprint(self) -> tuple[Json, Json]:
        """Return the operator's two parts of a fingerprint: for the values of rows, and for the "beside" part."""
        return {}, {}


class WithoutWindows:
    """The facts of a fold whose rows belong to no windows."""

    __slots__ = ()

    @property
    def window(self) -> None:
        return None

    @property
    def windows(self) -> tuple[str, ...]:
        return ()

    @property
    def own_key(self) -> tuple[str, ...]:
        """The columns that the fold adds to the key of a group, at its end."""
        return ()

    @property
    def has_clock(self) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class Latest(WithoutWindows, Operator):
    """The latest value of each key: an upsert; a null value deletes."""

    @property
    def grouping(self) -> tuple[Named, ...]:
        return ()

    @property
    def aggregations(self) -> tuple[NamedAggregation, ...]:
        return ()

    def columns(self, key_names: tuple[str, ...], stream_columns: Iterable[Column]) -> tuple[Column, ...]:
        """Return the columns of a row, the key's first. stream_columns: the columns of the stream's records."""
        return tuple(sorted(stream_columns, key=lambda column: column.name not in key_names))

    def lines(self) -> list[str]:
        return ["latest value per key; a null value deletes"]


@dataclass(frozen=True, slots=True)
class LatestSent(Latest):
    """The latest value of each column: what a record did not send stays as it was, since the key's last delete.

    unsent: the column of the stream, not of the table, with the names of the fields that a record did not send.
    fields: the field of each value column.
    """

    unsent: str
    fields: tuple[tuple[str, str], ...]

    def columns(self, key_names: tuple[str, ...], stream_columns: Iterable[Column]) -> tuple[Column, ...]:
        return Latest.columns(self, key_names, (column for column in stream_columns if column.name != self.unsent))

    def lines(self) -> list[str]:
        return ["latest value of each column that was sent, per key; a null value deletes"]


@dataclass(frozen=True, slots=True)
class LatestBy(Latest):
    """The latest value by an order in the records: an older record never overwrites a newer one.

    A delete leaves a marker. is_time: the order is a time, and the record's own time replaces a null. remembers: how
    many milliseconds before the watermark markers are kept and records are taken in; None is forever. tombstones: "by
    order" gives a null value its place in the order, which it lacks if the order is a number; "newest" makes it newer
    than all records before it.
    """

    order: Expression
    is_time: bool = False
    remembers: int | None = None
    tombstones: Tombstones = "by order"
    keeps_more = leaves_out = True

    @classmethod
    def declare(
        cls,
        columns: Iterable[Column],
        order_by: str | None,
        retention: str | None,
        tombstones: Tombstones,
        subject: str,
    ) -> Latest:
        """Return the operator over a stream's columns; `Latest` without an order. Raises PlanError for bad options."""
        if tombstones not in TOMBSTONES:
            raise PlanError(f"{subject}: tombstones={tombstones!r}; expected {' or '.join(map(repr, TOMBSTONES))}.")
        if order_by is None:
            if retention is None and tombstones == "by order":
                return Latest()
            option_text = f"tombstones={tombstones!r}" if retention is None else f"retention={retention!r}"
            raise PlanError(f"{subject}: {option_text} is for order_by; add order_by, or leave it out.")
        columns = list(columns)
        order_expression = parse_expression(order_by, columns, f"{subject}: order_by")
        order_type = expression_type(order_expression, columns)
        if order_type not in (None, "timestamp", "bigint", "int"):
            raise PlanError(
                f"{subject}: order_by={order_expression} is a {order_type}; expected a timestamp, or a number as a "
                "bigint."
            )
        is_time = order_type == "timestamp" or order_by.lower() == "rowtime"
        if retention is not None and not is_time:
            raise PlanError(
                f"{subject}: retention={retention!r} is a time, but order_by={order_expression} is a {order_type}. "
                "Leave one out."
            )
        retention_ms = duration_ms(retention, f"{subject}: retention", least=1) if retention is not None else None
        return cls(order_expression, is_time, retention_ms, tombstones)

    @property
    def is_always_deleted(self) -> bool:
        """True if a null value deletes the row, whatever the order."""
        return self.tombstones == "newest"

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return (self.order,)

    @property
    def has_clock(self) -> bool:
        return self.remembers is not None

    def lag(self, window: Window | None) -> int | None:
        return 0 if self.has_clock else None

    def lines(self) -> list[str]:
        if self.is_always_deleted:
            return [f"latest value per key by {self.order}; a null value deletes, whatever came before it"]
        effect_text = "deletes" if self.is_time else "has no order: it is late, and deletes nothing"
        return [f"latest value per key by {self.order}; a null value {effect_text}"]

    def warnings(self) -> list[str]:
        if self.is_time or self.is_always_deleted:
            return []
        return [
            f"order_by={self.order}: a null value has no such number, so a record with one deletes nothing: it is kept "
            'as late. With tombstones="newest" it deletes the row.'
        ]

    def fingerprint(self) -> tuple[Json, Json]:
        optional_parts: Json = {"order_unit": "microseconds"} if self.is_time else {}
        optional_parts |= {"tombstones": self.tombstones} if self.is_always_deleted else {}
        return {"order_by": sql_part(self.order), **optional_parts}, {"retention": self.remembers}


@dataclass(frozen=True, slots=True)
class Aggregate(Operator):
    """Aggregates of a stream: one row for each group, and for each window of event time if there are windows."""

    grouping: tuple[Named, ...]
    aggregations: tuple[NamedAggregation, ...]
    window: Window | None = None

    @property
    def expressions(self) -> tuple[Expression, ...]:
        arguments = [item.argument for item in self.aggregations if item.argument is not None]
        return (*(item.expression for item in self.grouping), *arguments)

    @property
    def has_clock(self) -> bool:
        return self.window is not None

    @property
    def windows(self) -> tuple[str, ...]:
        """The columns of a row that name its window; none without windows."""
        return WINDOW_COLUMNS if self.window is not None else ()

    @property
    def own_key(self) -> tuple[str, ...]:
        return self.windows

    @property
    def key(self) -> tuple[str, ...]:
        return (*(item.name for item in self.grouping), *self.windows)

    def columns(self, key_names: tuple[str, ...], stream_columns: Iterable[Column]) -> tuple[Column, ...]:
        """Return the columns of a row, the key's first; a type that only Spark can tell is empty."""
        stream_columns = list(stream_columns)
        key_columns = [
            Column(item.name, expression_type(item.expression, stream_columns) or "") for item in self.grouping
        ]
        value_columns = [Column(item.name, shown_type(item, stream_columns) or "") for item in self.aggregations]
        return (*key_columns, *(Column(name, "timestamp") for name in self.windows), *value_columns)

    def rule(self, rules: Rules, *, final: bool) -> KeyOperator:
        """Return the operator that applies a record to the rows of one group; rules: those of the aggregations."""
        match self.window:
            case None:
                return Plain(rules)
            case Hopping():
                return TimeWindows(rules, self.window)
            case Session():
                return Sessions(rules, self.window, final)
        return SlidingWindows(rules, self.window)

    def lines(self) -> list[str]:
        window_lines = [f"WINDOW {self.window}"] if self.window else []
        return [*map(str, self.aggregations), f"GROUP BY {', '.join(map(str, self.grouping))}", *window_lines]

    def fingerprint(self) -> tuple[Json, Json]:
        aggregate_parts = {aggregation.name: aggregation_fingerprint(aggregation) for aggregation in self.aggregations}
        return {
            "group_by": sql_parts(self.grouping),
            "aggregates": aggregate_parts,
            "window": window_fingerprint(self.window),
        }, {}


@dataclass(frozen=True, slots=True)
class RowHistory(WithoutWindows, Operator):
    """Each row that a key had, from one event time until the next: see `lakehouse.semantics.operators.row_history`.

    row_fold: the fold that gives these rows. track: the value columns that a row has; a row begins where one of them
    changes. None for all columns, and a row for each record that becomes a state.
    """

    row_fold: Latest | Aggregate
    track: tuple[str, ...] | None = None

    @classmethod
    def declare(cls, fold: Fold, track: tuple[str, ...] | None, subject: str) -> RowHistory:
        """Return the history of a table's fold. Raises PlanError for a fold whose rows have none."""
        match fold:
            case RowHistory():
                raise PlanError(f"{subject}: it is a history already.")
            case LatestSent():
                raise PlanError(
                    f"{subject}: a record of its change log need not send all values, so a row is put together from "
                    'several. Declare the change log with unsent="quarantine".'
                )
            case LatestBy() if fold.remembers is not None or fold.is_always_deleted:
                option_name = "retention" if fold.remembers is not None else 'tombstones="newest"'
                raise PlanError(f"{subject}: {option_name} counts from the records that came before. Leave it out.")
            case Aggregate() if fold.window is not None:
                raise PlanError(
                    f"{subject}: its rows belong to windows of event time, which are a history already. Expected a "
                    "table without a window."
                )
            case Aggregate() if track is not None:
                fold = replace(fold, aggregations=tuple(item for item in fold.aggregations if item.name in track))
        return cls(fold, track)

    @property
    def keeps_more(self) -> bool:
        return self.track is not None or self.row_fold.keeps_more

    @property
    def grouping(self) -> tuple[Named, ...]:
        return self.row_fold.grouping

    @property
    def aggregations(self) -> tuple[NamedAggregation, ...]:
        return self.row_fold.aggregations

    @property
    def own_key(self) -> tuple[str, ...]:
        return (VALID_FROM,)

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return self.row_fold.expressions

    def columns(self, key_names: tuple[str, ...], stream_columns: Iterable[Column]) -> tuple[Column, ...]:
        """Return the columns of a row: the key of the group, when the row holds, and the row's values."""
        group_names = key_names[:-1]
        columns = self.row_fold.columns(group_names, stream_columns)
        times = (Column(VALID_FROM, "timestamp"), Column(VALID_TO, "timestamp"))
        value_columns = [
            column for column in columns[len(group_names) :] if self.track is None or column.name in self.track
        ]
        return (*columns[: len(group_names)], *times, *value_columns)

    def rule(self, rules: Rules, *, final: bool) -> KeyOperator:
        """Return the operator that applies a record to the rows of one group; rules: those of the aggregations."""
        return AggregateHistory(rules)

    def lines(self) -> list[str]:
        begins = "" if self.track is None else f", which begins where {' or '.join(self.track)} changes"
        return [*self.row_fold.lines(), f"HISTORY by event time: each row from {VALID_FROM} until {VALID_TO}{begins}"]

    def warnings(self) -> list[str]:
        return self.row_fold.warnings()

    def fingerprint(self) -> tuple[Json, Json]:
        row_part, beside_part = self.row_fold.fingerprint()
        track_part: Json = {} if self.track is None else {"track": list(self.track)}
        return {**row_part, "history": "event", **track_part}, beside_part


@dataclass(frozen=True, slots=True)
class Final(Operator):
    """A window's row becomes visible once, when the window has closed (EMIT FINAL).

    idle: a partition without records for this many milliseconds no longer holds results back; never if None.
    """

    idle: int | None = None
    keeps_more = looks_back = leaves_out = True

    def lag(self, window: Window | None) -> int | None:
        return 0

    def lines(self) -> list[str]:
        return ["EMIT FINAL" + (f" (IDLE {self.idle} MS)" if self.idle else "")]

    def fingerprint(self) -> tuple[Json, Json]:
        return {"emit": "final"}, {"idle": self.idle}


@dataclass(frozen=True, slots=True)
class Having(Operator):
    """A row is visible while the predicate, over its columns, is true (rule 11)."""

    predicate: Expression
    keeps_more = looks_back = leaves_out = True

    def lines(self) -> list[str]:
        return [f"HAVING {self.predicate}"]

    def fingerprint(self) -> tuple[Json, Json]:
        return {"having": sql_part(self.predicate)}, {}


@dataclass(frozen=True, slots=True)
class Expire(Operator):
    """Rows are deleted this many milliseconds after their window's end, by the watermark."""

    after: int

    def lag(self, window: Window | None) -> int | None:
        """The retention beyond the window's need: within it, only a record's own partition decides if it is late."""
        return None if window is None else self.after - window.needed_after_end

    def lines(self) -> list[str]:
        return [f"RETENTION {self.after} MS"]

    def fingerprint(self) -> tuple[Json, Json]:
        return {}, {"retention": self.after}


@dataclass(frozen=True, slots=True)
class Suppress(Operator):
    """A change that changes nothing is not emitted."""

    looks_back = leaves_out = True

    def lines(self) -> list[str]:
        return ["SUPPRESS unchanged"]

    def fingerprint(self) -> tuple[Json, Json]:
        return {}, {"suppress": True}


Fold = Latest | LatestBy | Aggregate | RowHistory
IN_TEXT = (Having, Final, Expire, Suppress)  # in the order of SQL's clauses


def refuse_history(fold: Fold, table_name: str, reason: str) -> None:
    """Raise PlanError with a reason if a table's fold is a history."""
    if isinstance(fold, RowHistory):
        raise PlanError(f"table {table_name!r} is a history: {reason}.")
