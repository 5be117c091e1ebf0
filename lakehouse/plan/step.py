"""The stateless steps of a stream, one class each: parameters, resulting columns, text and fingerprint.

A step is a frozen value. `declare` creates a step over the stream before it, and also returns the shape of the stream
after it; it raises PlanError for an impossible step. A step's type decides how it runs, once for the model
(`lakehouse.model.step`) and once for Spark (`lakehouse.spark.stream.step`).
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakehouse.errors import PlanError
from lakehouse.plan.expectation import Expectation
from lakehouse.plan.expression.expression import (
    Expression,
    Json,
    Named,
    columns_read_by,
    expression_type,
    parse_expression,
    parse_named,
    sql_part,
    sql_parts,
)
from lakehouse.plan.expression.expression import parse_predicate as condition
from lakehouse.plan.expression.function import function_digest, function_text
from lakehouse.plan.expression.schema import (
    Column,
    base_type,
    check_distinct,
    check_name,
    check_pseudo,
    item_type,
)
from lakehouse.plan.one_type import parse_one_type
from lakehouse.plan.refused.types import check_key_types


@dataclass(frozen=True, slots=True)
class Shape:
    """A stream as a step sees it: its name in messages, its key, and its columns."""

    label: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]

    @property
    def values(self) -> tuple[str, ...]:
        """The names of the value columns."""
        return tuple(column.name for column in self.columns if column.name not in self.key)

    def with_columns(self, columns: Iterable[Column], key: tuple[str, ...] | None = None) -> Shape:
        """Return the shape with other columns, and with another key unless `key` is None."""
        return Shape(self.label, self.key if key is None else key, tuple(columns))


class Step(ABC):
    """One stateless step."""

    __slots__ = ()

    @property
    @abstractmethod
    def expressions(self) -> tuple[Expression, ...]:
        """The expressions over a record that the step reads."""

    @abstractmethod
    def fingerprint(self, read_columns: set[str], *, keyed: bool) -> tuple[Json | None, set[str]]:
        """Return the step's part of a fingerprint, None if nothing reads its effect, and the columns read before it.

        read_columns: the columns that later steps read, in lower case. keyed: they also read the key, and whether it is
        null.
        """

    @abstractmethod
    def __str__(self) -> str:
        """The step as a line of the plan's text."""


@dataclass(frozen=True, slots=True)
class Filter(Step):
    """Keep the records for which the predicate is true, not null or false; leave out records with a null value."""

    predicate: Expression

    @classmethod
    def declare(cls, shape: Shape, predicate: str) -> tuple[Filter, Shape]:
        return cls(condition(predicate, shape.columns, f"{shape.label}: filter")), shape

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return (self.predicate,)

    def fingerprint(self, read_columns: set[str], *, keyed: bool) -> tuple[Json | None, set[str]]:
        return {"filter": sql_part(self.predicate)}, read_columns | columns_read_by(self.expressions)

    def __str__(self) -> str:
        return f"FILTER {self.predicate}"


@dataclass(frozen=True, slots=True)
class Judge(Step):
    """Count the records that do not meet an expectation, or stop at them. It changes and leaves out no record.

    stream: the name of the stream, which stands before the expectation's own in counts and messages.
    """

    expectation: Expectation
    stream: str

    @property
    def name(self) -> str:
        """The expectation's whole name: "orders.known"."""
        return f"{self.stream}.{self.expectation.name}"

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return (self.expectation.condition,)

    def fingerprint(self, read_columns: set[str], *, keyed: bool) -> tuple[Json | None, set[str]]:
        return None, read_columns

    def __str__(self) -> str:
        return f"EXPECT {self.expectation}"


@dataclass(frozen=True, slots=True)
class Select(Step):
    """Replace the value columns by these. The key is kept; a null value stays null."""

    columns: tuple[Named, ...]

    @classmethod
    def declare(
        cls, shape: Shape, columns: Sequence[str], renamed: Mapping[str, str], *, step: str = "select"
    ) -> tuple[Select, Shape]:
        """Return a select, and the shape after it. step: the name of the step in messages."""
        subject = f"{shape.label}: {step}"
        if any(isinstance(sql_text, str) and sql_text.strip() == "*" for sql_text in (*columns, *renamed.values())):
            raise PlanError(
                f"{subject}: found *, expected columns by their names. To keep all columns and add some, write "
                'with_columns(town="upper(city)").'
            )
        named_columns = [parse_named(sql_text, shape.columns, subject) for sql_text in columns]
        named_columns += [
            Named(check_name(n, subject), parse_expression(sql_text, shape.columns, subject))
            for n, sql_text in renamed.items()
        ]
        key_names = {name.lower() for name in shape.key}
        for named_column in named_columns:
            if named_column.name.lower() in key_names and not named_column.is_plain:
                raise PlanError(
                    f"{subject}: {named_column.name!r} is the key; give {named_column.expression.text!r} another name, "
                    "or rekey."
                )
        value_columns = [named_column for named_column in named_columns if named_column.name.lower() not in key_names]
        if not value_columns:
            raise PlanError(f"{subject}: no column is left beside the key {', '.join(shape.key)}. Name at least one.")
        typed_columns = _columns_with_types(value_columns, shape)
        key_columns = [column for column in shape.columns if column.name in shape.key]
        check_distinct((column.name for column in (*key_columns, *typed_columns)), subject)
        check_pseudo(typed_columns, subject)
        return cls(tuple(value_columns)), shape.with_columns((*key_columns, *typed_columns))

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return tuple(item.expression for item in self.columns)

    @property
    def is_plain(self) -> bool:
        """Whether its columns are some of those before it, unchanged."""
        return all(named_column.is_plain for named_column in self.columns)

    def fingerprint(self, read_columns: set[str], *, keyed: bool) -> tuple[Json | None, set[str]]:
        return _select_part(self.columns, read_columns)

    def __str__(self) -> str:
        return f"SELECT {', '.join(map(str, self.columns))}"


@dataclass(frozen=True, slots=True)
class Rekey(Step):
    """Make these columns the key; the old key becomes value columns. A record with a null key stays in the stream.

    For a record with a null value, an expression that reads a value column is null, whatever default it has; an
    expression that reads only the key, or nothing, has its value (ksqlDB's PARTITION BY). before: the names of the old
    key.
    """

    columns: tuple[Named, ...]
    before: tuple[str, ...]

    @classmethod
    def declare(cls, shape: Shape, columns: Sequence[str]) -> tuple[Rekey, Shape]:
        subject = f"{shape.label}: rekey"
        key_columns = tuple(parse_named(sql_text, shape.columns, subject) for sql_text in columns)
        if not key_columns:
            raise PlanError(f"{subject}: expected at least one expression.")
        check_distinct((key_column.name for key_column in key_columns), subject)
        typed_columns = _columns_with_types(key_columns, shape)
        check_key_types(((column.name, column.type) for column in typed_columns), subject)
        check_pseudo(typed_columns, subject)
        key_names = {key_column.name.lower() for key_column in key_columns}
        for key_column in key_columns:
            is_known = key_column.name.lower() in {column.name.lower() for column in shape.columns}
            if is_known and not key_column.is_plain:
                raise PlanError(
                    f"{subject}: a column {key_column.name!r} exists already. Give {key_column.expression.text!r} "
                    "another name."
                )
        value_columns = [column for column in shape.columns if column.name.lower() not in key_names]
        if not value_columns:
            raise PlanError(f"{subject}: no value column would be left beside the key.")
        return cls(key_columns, shape.key), shape.with_columns(
            (*typed_columns, *value_columns), tuple(key_column.name for key_column in key_columns)
        )

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return tuple(item.expression for item in self.columns)

    def needs_value(self, key_column: Named) -> bool:
        """Say whether a new key column is null for a record with a null value, since it reads more than the key."""
        return not columns_read_by([key_column.expression]) <= {name.lower() for name in self.before}

    def fingerprint(self, read_columns: set[str], *, keyed: bool) -> tuple[Json | None, set[str]]:
        if not keyed:
            part, columns_before = _select_part(self.columns, read_columns)
            # As a key, a number's -0.0 becomes 0.0, also for what reads the column later.
            zeros = [item for item in self.columns if item.name.lower() in read_columns and _may_have_zeros(item)]
            return ({"rekey zeros": sql_parts(zeros)} | (part or {}) if zeros else part), columns_before
        key_names = {key_column.name.lower() for key_column in self.columns}
        return {"rekey": sql_parts(self.columns)}, (read_columns - key_names) | columns_read_by(self.expressions)

    def __str__(self) -> str:
        return f"REKEY {', '.join(map(str, self.columns))}"


@dataclass(frozen=True, slots=True)
class Retime(Step):
    """Give each record another event time; without a possible one it is left out. A null value keeps its time."""

    time: Expression

    @classmethod
    def declare(cls, shape: Shape, time: str) -> tuple[Retime, Shape]:
        subject = f"{shape.label}: retime"
        time_expression = parse_expression(time, shape.columns, subject)
        if (kind := expression_type(time_expression, shape.columns)) not in (None, "timestamp", "bigint"):
            raise PlanError(f"{subject}: {time!r} is a {kind}; expected a timestamp, or milliseconds as a bigint.")
        return cls(time_expression), shape

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return (self.time,)

    def fingerprint(self, read_columns: set[str], *, keyed: bool) -> tuple[Json | None, set[str]]:
        return {"retime": sql_part(self.time)}, read_columns | columns_read_by(self.expressions)

    def __str__(self) -> str:
        return f"RETIME {self.time}"


@dataclass(frozen=True, slots=True)
class Explode(Step):
    """One record for each element of an array, in its order; none for an empty or null one, or for a null value."""

    column: Named

    @classmethod
    def declare(cls, shape: Shape, array: str, name: str) -> tuple[Explode, Shape]:
        subject = f"{shape.label}: explode"
        named_array = Named(check_name(name, subject), parse_expression(array, shape.columns, subject))
        array_type = expression_type(named_array.expression, shape.columns)
        if array_type is not None and base_type(array_type) != "array":
            raise PlanError(f"{subject}: {array!r} is a {array_type}; expected an array.")
        element_column = Column(name, item_type(array_type) if array_type else "")
        check_pseudo([element_column], subject)
        check_distinct((column.name for column in (*shape.columns, element_column)), subject)
        return cls(named_array), shape.with_columns((*shape.columns, element_column))

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return (self.column.expression,)

    def fingerprint(self, read_columns: set[str], *, keyed: bool) -> tuple[Json | None, set[str]]:
        return {"explode": sql_parts([self.column])}, (read_columns - {self.column.name.lower()}) | columns_read_by(
            self.expressions
        )

    def __str__(self) -> str:
        return f"EXPLODE {self.column}"


@dataclass(frozen=True, slots=True)
class Map(Step):
    """A column from a Python function over Arrow arrays, which returns as many values as its arguments have.

    A record on which the function fails gets a null. The function must give the same result for the same input.
    """

    name: str
    type: str
    arguments: tuple[Expression, ...]
    function: Callable[..., Any]

    @classmethod
    def declare(
        cls, shape: Shape, name: str, function: Callable[..., Any], arguments: Sequence[str], type: str
    ) -> tuple[Map, Shape]:
        subject = f"{shape.label}: map"
        if not callable(function) or not arguments:
            raise PlanError(
                f'{subject}: expected a function and its arguments: map("km", distance, "lat", "lon", type=…).'
            )
        check_pseudo([Column(check_name(name, f"{subject}: column"), "")], subject)
        column = Column(name, parse_one_type(type, subject, name))
        if name.lower() in {key_name.lower() for key_name in shape.key}:
            raise PlanError(f"{subject}: {name!r} is the key; choose another name.")
        argument_expressions = tuple(parse_expression(sql_text, shape.columns, subject) for sql_text in arguments)
        other_columns = [other_column for other_column in shape.columns if other_column.name.lower() != name.lower()]
        return cls(column.name, column.type, argument_expressions, function), shape.with_columns(
            (*other_columns, column)
        )

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return self.arguments

    def fingerprint(self, read_columns: set[str], *, keyed: bool) -> tuple[Json | None, set[str]]:
        if self.name.lower() not in read_columns:
            return None, read_columns
        map_part = {
            "type": self.type,
            "arguments": list(map(sql_part, self.arguments)),
            "function": function_digest(self.function),
        }
        return {"map": {self.name: map_part}}, (read_columns - {self.name.lower()}) | columns_read_by(self.arguments)

    def __str__(self) -> str:
        arguments = ", ".join(map(str, self.arguments))
        return f"MAP {self.name} {self.type} = {function_text(self.function)}({arguments})"


def _columns_with_types(named_columns: Iterable[Named], shape: Shape) -> list[Column]:
    """Return the columns of named expressions; a type that only Spark can tell is empty."""
    return [
        Column(named_column.name, expression_type(named_column.expression, shape.columns) or "")
        for named_column in named_columns
    ]


def _may_have_zeros(column: Named) -> bool:
    """Say whether a column may have two zeros, 0.0 and -0.0: also one whose type only Spark can tell."""
    type_text = expression_type(column.expression, column.expression.types)
    return not type_text or re.search(r"\b(float|double)\b", type_text) is not None


def _select_part(columns: Iterable[Named], read_columns: set[str]) -> tuple[Json | None, set[str]]:
    """Return the part for the columns that are computed and read later, without columns that are only passed on."""
    computed_columns = [
        named_column
        for named_column in columns
        if named_column.name.lower() in read_columns and not named_column.is_plain
    ]
    columns_before = (
        read_columns - {named_column.name.lower() for named_column in computed_columns}
    ) | columns_read_by(named_column.expression for named_column in computed_columns)
    return ({"select": sql_parts(computed_columns)} if computed_columns else None), columns_before
