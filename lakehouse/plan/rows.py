"""Tables as the input of tables: the rows of one, of two joined by their keys, or by a foreign key. Frozen values.

A change of such an input takes out the row before it, and puts in the row after it; one of the two is missing if a row
comes or goes. So everything that reads the rows can undo: an aggregate, a filter, a join.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from lakehouse.errors import PlanError
from lakehouse.plan.expression.expression import (
    Expression,
    Json,
    columns_read_by,
    indicator_part,
    name_text,
    parse_key_expressions,
    sql_part,
)
from lakehouse.plan.expression.schema import PSEUDO_COLUMNS, Column, is_same_type, joined_columns
from lakehouse.plan.names.join_words import HOW, HOW_JOINED, How, HowJoined
from lakehouse.plan.operator import Expire, Operator, Suppress, refuse_history
from lakehouse.plan.origin import Origin, key_columns, upstream_part
from lakehouse.plan.refused.steps import Declaration, value_in_message
from lakehouse.plan.step import Map, Select, Shape

if TYPE_CHECKING:
    from lakehouse.plan.stream import Stream
    from lakehouse.plan.table import Grouped, Table


class OfRows(Origin):
    """The facts about an input that consists of rows."""

    __slots__ = ()
    undoes = True


@dataclass(frozen=True, slots=True)
class RowsOf(OfRows):
    """A table's rows, change by change."""

    table: Table

    @classmethod
    def declare(cls, table: Table) -> tuple[RowsOf, Shape]:
        """Return the input. Raises PlanError for a table whose rows expire: nothing would take them out again."""
        subject = f"table {table.name!r}"
        if table.find(Expire) is not None:
            raise PlanError(
                f"{subject}: its rows leave with time (retention), without a change, so what is made of them would "
                "keep them. Declare it without retention, or use its changes: table.to_stream()."
            )
        return cls(table), Shape(subject, table.key, table.columns)

    @property
    def name(self) -> str:
        return self.table.name

    @property
    def label(self) -> str:
        return f"table {self.name!r}"

    @property
    def tables(self) -> tuple[Table, ...]:
        return (self.table,)

    def over(self, new_parts: Sequence[Stream], new_tables: Sequence[Table]) -> Origin:
        return RowsOf(*new_tables)

    def lines(self) -> list[str]:
        return [f"ROWS OF TABLE {self.table.name}"]

    def fingerprint(self, read_columns: set[str], *, keyed: bool) -> Json:
        return upstream_part("rows_of", self.table)


class JoinOfRows(OfRows):
    """The facts about a join of two tables."""

    __slots__ = ()
    if TYPE_CHECKING:
        left: Table
        right: Table

    @property
    def name(self) -> str:
        return f"{self.left.name} + {self.right.name}"

    @property
    def label(self) -> str:
        return f"join of tables {self.name!r}"

    @property
    def tables(self) -> tuple[Table, ...]:
        return (self.left, self.right)

    def over(self, new_parts: Sequence[Stream], new_tables: Sequence[Table]) -> Origin:
        left, right = new_tables
        return replace(self, left=left, right=right)  # type: ignore[type-var]


@dataclass(frozen=True, slots=True)
class RowsJoin(JoinOfRows):
    """The rows of two tables that have the same key (docs/rules.md, rule 22). prefix: precedes the right's columns.

    indicator: the name of a column that says which sides have a row, "left", "right" or "both"; empty for none.
    """

    left: Table
    right: Table
    join_type: HowJoined
    prefix: str = ""
    indicator: str = ""

    @classmethod
    def declare(
        cls, left: Table, right: Table, join_type: HowJoined, prefix: str, indicator: str = ""
    ) -> tuple[RowsJoin, Shape]:
        """Return the join, and the shape of its rows. Raises PlanError, see `Rows.join`."""
        subject = _check_join(left, right, join_type, HOW_JOINED)
        left_key, right_key = map(key_columns, (left, right))
        if len(left_key) != len(right_key):
            raise PlanError(
                f"{subject}: found the key {', '.join(map(str, right_key))}, expected one like "
                f"{', '.join(map(str, left_key))}. By a foreign key: on=..., expressions of this table's columns."
            )
        for left_column, right_column in zip(left_key, right_key, strict=True):
            _check_same_type(subject, name_text(left_column.name), left_column.type, right_column)
        row_columns = _joined_row_columns(left, right, prefix, subject, indicator)
        return cls(left, right, join_type, prefix, indicator), Shape(subject, left.key, row_columns)

    def lines(self) -> list[str]:
        return [f"{self.join_type.upper()} JOIN OF TABLES {self.left.name}, {self.right.name}"]

    def fingerprint(self, read_columns: set[str], *, keyed: bool) -> Json:
        join_part: Json = {"how": self.join_type, "prefix": self.prefix, **indicator_part(self.indicator, read_columns)}
        return {**upstream_part("rows_join", *self.tables), **join_part}


@dataclass(frozen=True, slots=True)
class ForeignKeyJoin(JoinOfRows):
    """The rows of a table, each with the row of another table to which it refers (docs/rules.md, rule 22).

    key_expressions: over the left table's columns; they give the right table's key, in its order.
    """

    left: Table
    right: Table
    key_expressions: tuple[Expression, ...]
    join_type: How
    prefix: str = ""
    indicator: str = ""

    @classmethod
    def declare(
        cls, left: Table, right: Table, key_texts: Sequence[str], join_type: How, prefix: str, indicator: str = ""
    ) -> tuple[ForeignKeyJoin, Shape]:
        """Return the join, and the shape of its rows. Raises PlanError, see `Rows.join`."""
        subject = _check_join(left, right, join_type, HOW)
        key_expressions = parse_key_expressions(key_columns(right), key_texts, left.columns, subject)
        _refuse_names_of_change(set(PSEUDO_COLUMNS), key_expressions, f"{subject}: on")
        row_columns = _joined_row_columns(left, right, prefix, subject, indicator)
        return cls(left, right, key_expressions, join_type, prefix, indicator), Shape(subject, left.key, row_columns)

    def lines(self) -> list[str]:
        on_text = ", ".join(map(str, self.key_expressions))
        return [
            f"{self.join_type.upper()} JOIN TABLE {self.right.name} ON {on_text}",
            f"  ROWS OF TABLE {self.left.name}",
        ]

    def fingerprint(self, read_columns: set[str], *, keyed: bool) -> Json:
        join_part = {
            "on": [sql_part(key_expression) for key_expression in self.key_expressions],
            "how": self.join_type,
            "prefix": self.prefix,
        }
        return {
            **upstream_part("foreign_key_join", *self.tables),
            **join_part,
            **indicator_part(self.indicator, read_columns),
        }


def takes_out_rows(table: Table) -> bool:
    """Say whether a table's aggregates take out rows again: they must contain these, so the table can't be set back."""
    return table.stream.undoes and bool(table.fold.aggregations)


def parse_on(on: object, subject: str) -> tuple[str, ...] | None:
    """Return the expressions of a join's `on`; None if it is left out. Raises PlanError for what is none."""
    expressions = (on,) if isinstance(on, str) else on
    if expressions is None:
        return None
    if not isinstance(expressions, list | tuple) or not all(isinstance(item, str) for item in expressions):
        raise PlanError(
            f'{subject}: on={value_in_message(on)}, expected an expression, such as on="city", or a list of them.'
        )
    return tuple(expressions)


def refuse_rows(stream: Stream, step: str) -> None:
    """Raise PlanError for a step that would take the row that a change takes out for one more record."""
    if stream.undoes:
        raise PlanError(
            f"{stream.label}: {step}: these are rows: each change takes one out and puts one in. Expected records: "
            'table.to_stream(). Two tables are joined by table.join(...), and rows are kept by .table("name").'
        )


def check_reads_of_rows(stream: Stream, expressions: Iterable[Expression], subject: str) -> None:
    """Raise PlanError for expressions that decide by the time or place of a change of rows, if a stream is of rows.

    A row is taken out by a later change than the one that put it in, so they would have another value then. A table
    that keeps such a value as a column takes it out as it was.
    """
    if not stream.undoes:
        return
    names_of_change = set(PSEUDO_COLUMNS)
    for step in stream.steps:
        if isinstance(step, Select):
            made_names = {
                item.name.lower() for item in step.columns if columns_read_by([item.expression]) & names_of_change
            }
            names_of_change = {*PSEUDO_COLUMNS, *made_names}
        elif isinstance(step, Map):
            is_of_change = bool(columns_read_by(step.arguments) & names_of_change)
            names_of_change = (
                (names_of_change | {step.name.lower()}) if is_of_change else names_of_change - {step.name.lower()}
            )
    _refuse_names_of_change(names_of_change, expressions, subject)


def _refuse_names_of_change(names: set[str], expressions: Iterable[Expression], subject: str) -> None:
    for expression in expressions:
        if names_read := sorted(columns_read_by([expression]) & names):
            made_from = "" if names_read[0] in PSEUDO_COLUMNS else ", made from rowtime and its like"
            raise PlanError(
                f"{subject}: {expression.text!r} reads {names_read[0]}{made_from}, which belongs to a change of a row: "
                "when the row is taken out again, it has another value. Keep it as a column of a table first, "
                'table.with_columns(changed_at="rowtime").table("name"), in SQL ROWTIME AS CHANGED_AT, and read that.'
            )


def _check_join(left: Table, right: Table, join_type: str, allowed_types: tuple[str, ...]) -> str:
    """Return the join's text for messages. Raises PlanError for tables that can't be joined."""
    subject = f"table {left.name!r}: join with table {right.name!r}"
    if join_type not in allowed_types:
        hint = " A foreign key leads one way." if join_type in HOW_JOINED else ""
        raise PlanError(f"{subject}: how={join_type!r}; expected {', '.join(map(repr, allowed_types))}.{hint}")
    reasons: dict[type[Operator], str] = {
        Suppress: "suppresses changes that change nothing, so the time of its row is not known. Declare it without "
        "suppress, and suppress what comes of the join.",
    }
    for table in (left, right):
        refuse_history(table.fold, table.name, f"{subject} needs one row a key. Join the table itself")
        if table.windows:
            raise PlanError(
                f"{subject}: the rows of {table.name!r} belong to windows. Expected tables without a window; over its "
                "changes: table.to_stream()."
            )
        for operator_type, reason in reasons.items():
            if table.find(operator_type) is not None:
                raise PlanError(f"{subject}: {table.name!r} {reason}")
    return subject


def _check_same_type(subject: str, key_text: str, key_type: str, column: Column) -> None:
    if key_type and column.type and not is_same_type(key_type, column.type):
        raise PlanError(
            f"{subject}: the key {key_text} is a {key_type}, and {column.name!r} a {column.type}: they are never "
            "equal. Cast one of the two before its table."
        )


def _joined_row_columns(left: Table, right: Table, prefix: str, subject: str, indicator: str) -> tuple[Column, ...]:
    """Return the columns of a joined row: the left's with its key first, the right's values, and the indicator."""
    added_columns = (column for column in right.columns if column.name not in right.key)
    return joined_columns(left.columns, added_columns, prefix, right.name, subject, indicator)


class Rows(Declaration):
    """The steps over rows. A row that ceases to qualify is deleted; a row that never qualified gives nothing."""

    __slots__ = ()

    @property
    @abstractmethod
    def rows(self) -> Stream:
        """The rows, change by change."""

    def filter(self, predicate: str) -> View:
        """Return the rows for which `predicate` (Spark SQL) is true (docs/rules.md, rule 11)."""
        return View(self.rows.filter(predicate))

    def select(self, *columns: str, **renamed: str) -> View:
        """Return the rows with these value columns: "city", "upper(city) AS town", or town="upper(city)"."""
        return View(self.rows.select(*columns, **renamed))

    def with_columns(self, **expressions: str) -> View:
        """Return the rows with these columns added or replaced: with_columns(town="upper(city)")."""
        return View(self.rows.with_columns(**expressions))

    def rename(self, **names: str) -> View:
        """Return the rows with value columns under new names: rename(city="town") makes city the column town."""
        return View(self.rows.rename(**names))

    def cast(self, **types: str) -> View:
        """Return the rows with value columns of other types: cast(amount="decimal(10, 2)"); null if a cast fails."""
        return View(self.rows.cast(**types))

    def drop(self, *names: str) -> View:
        """Return the rows without these value columns."""
        return View(self.rows.drop(*names))

    def map(self, name: str, function: Callable[..., Any], *arguments: str, type: str) -> View:
        """Return the rows with a column made by a Python function: see `Stream.map`."""
        return View(self.rows.map(name, function, *arguments, type=type))

    def group_by(self, *columns: str) -> Grouped:
        """Return the rows grouped by these expressions, for `agg`: each row counts once, as it is now.

        A changed row is taken out of its old group and put into its new one (docs/rules.md, rules 9, 10 and 12). A null
        in any of the expressions leaves the row out.
        """
        return self.rows.group_by(*columns)

    def join(
        self,
        other: Rows,
        on: str | tuple[str, ...] | list[str] | None = None,
        *,
        how: HowJoined = "inner",
        prefix: str = "",
        indicator: str = "",
    ) -> View:
        """Return the rows of this table and another one, joined by their keys, or by a foreign key (rule 22).

        on: the foreign key: expressions of this table, one for each column of the other's key; without it both keys
        must be alike. how: "inner", "left", "right", "outer"; by a foreign key "inner" or "left". prefix: precedes the
        names of the other table's value columns. indicator: a column with which tables have a row: "left" (this one),
        "right", "both". A change of either table changes what comes out; its time is the larger of the two rows'.

        Raises PlanError for windows, keys of other types, or columns that exist on both sides.
        """
        if isinstance(self, View) or isinstance(other, View):
            view = self if isinstance(self, View) else other
            raise PlanError(
                f'{self.label}: join: {value_in_message(view)} has no name yet. Join tables: .table("name") keeps it.'
            )
        if not isinstance(other, Rows):
            raise PlanError(
                f"{self.label}: join: found {value_in_message(other)}, expected a table, such as planes = "
                "stream.latest('planes')."
            )
        left, right = (cast("Table", item) for item in (self, other))
        key_texts = parse_on(on, f"{self.label}: join")
        if key_texts is None:
            rows_join, shape = RowsJoin.declare(left, right, how, prefix, indicator)
            return View(left.stream.with_origin(rows_join, shape))
        foreign_key_join, shape = ForeignKeyJoin.declare(left, right, key_texts, cast(How, how), prefix, indicator)
        return View(left.stream.with_origin(foreign_key_join, shape))


@dataclass(frozen=True, slots=True, repr=False)
class View(Rows):
    """A table without a name: rows after some steps, or joined rows. The lake does not keep them."""

    rows: Stream

    def table(self, name: str, *, suppress: bool = False) -> Table:
        """Return the table that keeps these rows. suppress: a change that changes nothing is not emitted."""
        return self.rows.latest(name, suppress=suppress)
