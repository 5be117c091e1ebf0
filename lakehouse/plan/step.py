"""The stateless steps of a stream, one class each: parameters, resulting columns, text and fingerprint.

A step is a frozen value. `declared` creates one over the stream before it and returns the stream after it; it refuses
an impossible step. How a step runs is decided by its type, once for the model (`lakehouse.model.step`) and once for
Spark (`lakehouse.spark.stream.step`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakehouse.errors import PlanError
from lakehouse.plan.expression import Expression, Json, Named, expression, expression_type, named, read_by, sql, sql_of
from lakehouse.plan.expression import predicate as condition
from lakehouse.plan.function import digest, function_text
from lakehouse.plan.schema import (
    Column,
    base_type,
    check_distinct,
    check_name,
    check_pseudo,
    element_type,
    parse_schema,
)


@dataclass(frozen=True, slots=True)
class Shape:
    """A stream as a step sees it: its name in messages, its key, and the columns that can be read."""

    what: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]

    @property
    def values(self) -> tuple[str, ...]:
        """The names of the value columns."""
        return tuple(column.name for column in self.columns if column.name not in self.key)

    def with_columns(self, columns: Iterable[Column], key: tuple[str, ...] | None = None) -> Shape:
        """Return the shape with other columns, and another key if one is given."""
        return Shape(self.what, self.key if key is None else key, tuple(columns))


class Step(ABC):
    """One stateless step."""

    __slots__ = ()

    @property
    @abstractmethod
    def expressions(self) -> tuple[Expression, ...]:
        """The expressions that it reads of a record."""

    @abstractmethod
    def fingerprint(self, read: set[str], *, keyed: bool) -> tuple[Json | None, set[str]]:
        """Return the step's effect, None if nothing of it is read, and the columns that are read before it.

        read: the columns that are read after it, in lower case. keyed: the key is also read, and whether it is null.
        """

    @abstractmethod
    def __str__(self) -> str:
        """The step as a line of the plan's text."""


@dataclass(frozen=True, slots=True)
class Filter(Step):
    """Keep the records for which the predicate is true; null and false leave a record out, and so does a null value."""

    predicate: Expression

    @classmethod
    def declared(cls, shape: Shape, predicate: str) -> tuple[Filter, Shape]:
        return cls(condition(predicate, shape.columns, f"{shape.what}: filter")), shape

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return (self.predicate,)

    def fingerprint(self, read: set[str], *, keyed: bool) -> tuple[Json | None, set[str]]:
        return {"filter": sql(self.predicate)}, read | read_by(self.expressions)

    def __str__(self) -> str:
        return f"FILTER {self.predicate}"


@dataclass(frozen=True, slots=True)
class Select(Step):
    """Make these value columns, and no others. The key is kept; a null value stays null."""

    columns: tuple[Named, ...]

    @classmethod
    def declared(
        cls, shape: Shape, columns: Sequence[str], renamed: Mapping[str, str], *, step: str = "select"
    ) -> tuple[Select, Shape]:
        """Check a select, or what is one under another name: `step`, for messages."""
        what = f"{shape.what}: {step}"
        items = [named(text, shape.columns, what) for text in columns]
        items += [Named(check_name(n, what), expression(text, shape.columns, what)) for n, text in renamed.items()]
        keys = {name.lower() for name in shape.key}
        for item in items:
            if item.name.lower() in keys and not item.is_plain:
                raise PlanError(
                    f"{what}: {item.name!r} is the key; give {item.expression.text!r} another name, or rekey."
                )
        values = [item for item in items if item.name.lower() not in keys]
        if not values:
            raise PlanError(f"{what}: no column is left beside the key {', '.join(shape.key)}. Name at least one.")
        made = _made(values, shape)
        kept = [column for column in shape.columns if column.name in shape.key]
        check_distinct((column.name for column in (*kept, *made)), what)
        check_pseudo(made, what)
        return cls(tuple(values)), shape.with_columns((*kept, *made))

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return tuple(item.expression for item in self.columns)

    def fingerprint(self, read: set[str], *, keyed: bool) -> tuple[Json | None, set[str]]:
        return _computed(self.columns, read)

    def __str__(self) -> str:
        return f"SELECT {', '.join(map(str, self.columns))}"


@dataclass(frozen=True, slots=True)
class Rekey(Step):
    """Make these columns the key; the old key becomes value columns. A record with a null key stays in the stream.

    A null value has no columns: of such a record an expression that reads any is null, whatever default it has; one
    that reads the key alone, or nothing, has its value (ksqlDB's PARTITION BY). before: the names of the key until now.
    """

    columns: tuple[Named, ...]
    before: tuple[str, ...]

    @classmethod
    def declared(cls, shape: Shape, columns: Sequence[str]) -> tuple[Rekey, Shape]:
        what = f"{shape.what}: rekey"
        items = tuple(named(text, shape.columns, what) for text in columns)
        if not items:
            raise PlanError(f"{what}: expected at least one expression.")
        check_distinct((item.name for item in items), what)
        made = _made(items, shape)
        check_pseudo(made, what)
        names = {item.name.lower() for item in items}
        for item in items:
            known = item.name.lower() in {column.name.lower() for column in shape.columns}
            if known and not item.is_plain:
                raise PlanError(
                    f"{what}: a column {item.name!r} exists already. Give {item.expression.text!r} another name."
                )
        rest = [column for column in shape.columns if column.name.lower() not in names]
        if not rest:
            raise PlanError(f"{what}: no value column would be left beside the key.")
        return cls(items, shape.key), shape.with_columns((*made, *rest), tuple(item.name for item in items))

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return tuple(item.expression for item in self.columns)

    def needs_value(self, item: Named) -> bool:
        """Say whether a new key column is null for a record with a null value: it reads more than the key."""
        return not read_by([item.expression]) <= {name.lower() for name in self.before}

    def fingerprint(self, read: set[str], *, keyed: bool) -> tuple[Json | None, set[str]]:
        if not keyed:
            return _computed(self.columns, read)
        names = {item.name.lower() for item in self.columns}
        return {"rekey": sql_of(self.columns)}, (read - names) | read_by(self.expressions)

    def __str__(self) -> str:
        return f"REKEY {', '.join(map(str, self.columns))}"


@dataclass(frozen=True, slots=True)
class Retime(Step):
    """Give each record another event time; without a possible one it is left out. A null value keeps its time."""

    time: Expression

    @classmethod
    def declared(cls, shape: Shape, time: str) -> tuple[Retime, Shape]:
        what = f"{shape.what}: retime"
        made = expression(time, shape.columns, what)
        if (kind := expression_type(made, shape.columns)) not in (None, "timestamp", "bigint"):
            raise PlanError(f"{what}: {time!r} is a {kind}; expected a timestamp, or milliseconds as a bigint.")
        return cls(made), shape

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return (self.time,)

    def fingerprint(self, read: set[str], *, keyed: bool) -> tuple[Json | None, set[str]]:
        return {"retime": sql(self.time)}, read | read_by(self.expressions)

    def __str__(self) -> str:
        return f"RETIME {self.time}"


@dataclass(frozen=True, slots=True)
class Explode(Step):
    """One record for each element of an array, in its order; none for an empty or null one, or for a null value."""

    column: Named

    @classmethod
    def declared(cls, shape: Shape, array: str, name: str) -> tuple[Explode, Shape]:
        what = f"{shape.what}: explode"
        item = Named(check_name(name, what), expression(array, shape.columns, what))
        kind = expression_type(item.expression, shape.columns)
        if kind is not None and base_type(kind) != "array":
            raise PlanError(f"{what}: {array!r} is a {kind}; expected an array.")
        made = Column(name, element_type(kind) if kind else "")
        check_pseudo([made], what)
        check_distinct((column.name for column in (*shape.columns, made)), what)
        return cls(item), shape.with_columns((*shape.columns, made))

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return (self.column.expression,)

    def fingerprint(self, read: set[str], *, keyed: bool) -> tuple[Json | None, set[str]]:
        return {"explode": sql_of([self.column])}, (read - {self.column.name.lower()}) | read_by(self.expressions)

    def __str__(self) -> str:
        return f"EXPLODE {self.column}"


@dataclass(frozen=True, slots=True)
class Map(Step):
    """A column made by a Python function over Arrow arrays: as many values as there are in its arguments.

    A record on which the function fails gets a null. It must give the same result for the same input.
    """

    name: str
    type: str
    arguments: tuple[Expression, ...]
    function: Callable[..., Any]

    @classmethod
    def declared(
        cls, shape: Shape, name: str, function: Callable[..., Any], arguments: Sequence[str], type: str
    ) -> tuple[Map, Shape]:
        what = f"{shape.what}: map"
        if not callable(function) or not arguments:
            raise PlanError(
                f'{what}: expected a function and its arguments: map("km", distance, "lat", "lon", type=…).'
            )
        (column,) = parse_schema(f"`{name}` {type}", what)
        if name.lower() in {key.lower() for key in shape.key}:
            raise PlanError(f"{what}: {name!r} is the key; choose another name.")
        read = tuple(expression(text, shape.columns, what) for text in arguments)
        rest = [item for item in shape.columns if item.name.lower() != name.lower()]
        return cls(column.name, column.type, read, function), shape.with_columns((*rest, column))

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return self.arguments

    def fingerprint(self, read: set[str], *, keyed: bool) -> tuple[Json | None, set[str]]:
        if self.name.lower() not in read:
            return None, read
        made = {"type": self.type, "arguments": list(map(sql, self.arguments)), "function": digest(self.function)}
        return {"map": {self.name: made}}, (read - {self.name.lower()}) | read_by(self.arguments)

    def __str__(self) -> str:
        arguments = ", ".join(map(str, self.arguments))
        return f"MAP {self.name} {self.type} = {function_text(self.function)}({arguments})"


def _made(items: Iterable[Named], shape: Shape) -> list[Column]:
    """The columns that expressions make; a type that only Spark can tell is empty."""
    return [Column(item.name, expression_type(item.expression, shape.columns) or "") for item in items]


def _computed(columns: Iterable[Named], read: set[str]) -> tuple[Json | None, set[str]]:
    """The columns that are computed and read; a column that is only passed on is not one."""
    made = [item for item in columns if item.name.lower() in read and not item.is_plain]
    before = (read - {item.name.lower() for item in made}) | read_by(item.expression for item in made)
    return ({"select": sql_of(made)} if made else None), before
