"""Statements as the user wrote them, as frozen values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from lakehouse.ksql.syntax.kind import Kind
from lakehouse.ksql.syntax.tree import Expr, Name, Value

HowJoined = Literal["inner", "left", "right", "outer"]
Properties = dict[str, Value | Name]


@dataclass(frozen=True, slots=True)
class HistoryClause:
    """WITH (HISTORY='event', TRACK='...'): the table is the history of its rows. track: the columns; None for all."""

    track: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement; `position` is its place in the text."""

    position: int = field(default=0, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class SchemaElement:
    """A column of a schema.

    role: "", KEY, PRIMARY KEY, HEADERS, HEADER with the header's name, or METADATA with a path in a change's envelope.
    """

    name: str
    kind: Kind
    role: str = ""
    header: str = ""
    position: int = field(default=0, compare=False)

    @property
    def is_key(self) -> bool:
        """Whether its role says that it is of the key."""
        return self.role in ("KEY", "PRIMARY KEY")


@dataclass(frozen=True, slots=True)
class Constraint:
    """CONSTRAINT name EXPECT (condition) ON VIOLATION violation, among the columns of a schema, or in their place.

    violation: a word; empty if none is given.
    """

    name: str
    condition: Expr
    violation: str
    position: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class TableConstraint:
    """CONSTRAINT name EXPECT UNIQUE (columns), or EXPECT FRESH 'age': a rule about a table as a whole.

    columns: none for FRESH. max_age: empty for UNIQUE.
    """

    name: str
    columns: tuple[str, ...]
    max_age: str
    position: int = field(default=0, compare=False)


Constraints = tuple[Constraint | TableConstraint, ...]


@dataclass(frozen=True, slots=True)
class CreateSource(Statement):
    """CREATE STREAM or TABLE over a topic."""

    kind: str
    name: str
    elements: tuple[SchemaElement, ...]
    properties: Properties
    replace: bool = False
    if_not_exists: bool = False
    is_source: bool = False
    constraints: Constraints = ()


@dataclass(frozen=True, slots=True)
class Item:
    """One item of a SELECT; without an expression it is *, or all columns of one source."""

    expression: Expr | None
    alias: str | None = None
    source: str | None = None
    position: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Relation:
    """A source of a SELECT, under its alias."""

    name: str
    alias: str
    position: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class JoinClause:
    """A join. condition: that of ON. within: before and after, in milliseconds. grace: in milliseconds."""

    join_type: HowJoined
    right: Relation
    condition: Expr
    within: tuple[int, int] | None = None
    grace: int | None = None
    position: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class WindowClause:
    """A window; all lengths in milliseconds. size: the gap of a session."""

    name: str
    size: int
    advance: int | None = None
    retention: int | None = None
    grace: int | None = None
    position: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class MomentClause:
    """The moment of a pull query: the way in which it is named, and its value."""

    way: str
    value: str
    position: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Query(Statement):
    """SELECT."""

    items: tuple[Item, ...]
    relation: Relation
    joins: tuple[JoinClause, ...] = ()
    window: WindowClause | None = None
    where: Expr | None = None
    group_by: tuple[Expr, ...] = ()
    partition_by: tuple[Expr, ...] = ()
    having: Expr | None = None
    emit: str | None = None
    moment: MomentClause | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class CreateAs(Statement):
    """CREATE STREAM or TABLE ... AS SELECT."""

    kind: str
    name: str
    query: Query
    properties: Properties
    replace: bool = False
    if_not_exists: bool = False
    constraints: Constraints = ()


@dataclass(frozen=True, slots=True)
class InsertSelect(Statement):
    """INSERT INTO ... SELECT."""

    target: str
    query: Query
    properties: Properties


@dataclass(frozen=True, slots=True)
class InsertValues(Statement):
    """INSERT INTO ... VALUES."""

    target: str
    names: tuple[str, ...]
    values: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Drop(Statement):
    """DROP STREAM, TABLE or TYPE."""

    kind: str
    name: str
    if_exists: bool = False
    delete_topic: bool = False


@dataclass(frozen=True, slots=True)
class Alter(Statement):
    """ALTER STREAM or TABLE, with the columns to add."""

    kind: str
    name: str
    elements: tuple[SchemaElement, ...]


@dataclass(frozen=True, slots=True)
class CreateType(Statement):
    """CREATE TYPE."""

    name: str
    kind: Kind
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class Describe(Statement):
    """DESCRIBE a stream, a table or a function."""

    name: str
    is_function: bool = False
    is_extended: bool = False


@dataclass(frozen=True, slots=True)
class Show(Statement):
    """SHOW or LIST."""

    subject: str
    is_extended: bool = False


@dataclass(frozen=True, slots=True)
class Explain(Statement):
    """EXPLAIN a statement, or a query by its name."""

    target: Statement | str


@dataclass(frozen=True, slots=True)
class Print(Statement):
    """PRINT a topic."""

    topic: str
    from_beginning: bool = False
    interval: int = 1
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Control(Statement):
    """TERMINATE, PAUSE or RESUME a query."""

    word: str
    name: str


@dataclass(frozen=True, slots=True)
class SetProperty(Statement):
    """SET, or UNSET where the value is None."""

    name: str
    value: str | None


@dataclass(frozen=True, slots=True)
class Define(Statement):
    """DEFINE, or UNDEFINE where the value is None."""

    name: str
    value: str | None


@dataclass(frozen=True, slots=True)
class AssertTopic(Statement):
    """ASSERT TOPIC: it exists, or does not, with these properties, when the time is over at the latest."""

    topic: str
    properties: Properties
    exists: bool = True
    timeout_ms: int = 0


@dataclass(frozen=True, slots=True)
class AssertValues(Statement):
    """ASSERT VALUES: the next record of a stream or a table. is_null: a deleted row."""

    name: str
    names: tuple[str, ...]
    values: tuple[Expr, ...]
    is_null: bool = False


@dataclass(frozen=True, slots=True)
class AssertSource(Statement):
    """ASSERT STREAM or TABLE: it has this declaration."""

    kind: str
    name: str
    elements: tuple[SchemaElement, ...] = ()
    properties: Properties = field(default_factory=dict)
