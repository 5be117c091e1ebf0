"""The streams and tables that statements have declared, by their names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from lakehouse.errors import PlanError, SqlError
from lakehouse.ksql.function.sql import Sql
from lakehouse.ksql.syntax import kind as k
from lakehouse.ksql.syntax.kind import Kind
from lakehouse.ksql.syntax.statement import Query
from lakehouse.plan.app import named_window, read_window
from lakehouse.plan.refused.near import near
from lakehouse.plan.schema import check_name
from lakehouse.plan.stream import Stream
from lakehouse.plan.table import Table

HIDDEN_KEY = "NO_KEY"
HIDDEN_VALUE = "NO_VALUE"


@dataclass(frozen=True, slots=True)
class SqlColumn:
    """A column of a stream or a table, with its type in ksqlDB."""

    name: str
    kind: Kind
    is_key: bool = False


@dataclass(frozen=True, slots=True)
class Relational:
    """A stream or a table as SQL sees it: its columns, the keys first, and its node in the graph."""

    node: Stream | Table
    columns: tuple[SqlColumn, ...]

    @property
    def key(self) -> tuple[str, ...]:
        """The names of its key; none for a stream without one."""
        return tuple(column.name for column in self.columns if column.is_key)


@dataclass(frozen=True, slots=True)
class Entry:
    """A stream or a table of the catalog.

    topic: what it reads, or what its query writes. statement: its text. query: what makes it; inserts: the queries of
    INSERT INTO, with their names. formats: of its key and its value. is_wrapped: whether a single value in JSON has an
    object around it. delimiter: of values that are delimited text;
    key_delimiter: of keys. limits: see `Visible`. time: Spark SQL for the time of its records, by TIMESTAMP of a query;
    empty for that which they have. over: the name of what writes the topic that it reads, if it is here.
    """

    kind: str
    name: str
    topic: str
    formats: tuple[str, str]
    made: Relational
    statement: str
    query: Query | None = None
    inserts: tuple[tuple[str, Query], ...] = ()
    partitions: int | None = None
    is_source: bool = False
    query_name: str = ""
    is_wrapped: bool = True
    delimiter: str = ","
    key_delimiter: str = ","
    limits: Mapping[str, int] = field(default_factory=dict)
    time: str = ""
    over: str = ""

    @property
    def columns(self) -> tuple[SqlColumn, ...]:
        return self.made.columns

    @property
    def pseudo(self) -> tuple[SqlColumn, ...]:
        """The columns that every stream has besides its own."""
        if self.kind == "TABLE":
            return ()
        return tuple(SqlColumn(name, kind) for name, kind in PSEUDO.items())

    @property
    def is_windowed(self) -> bool:
        """Whether its key names windows."""
        return is_windowed(self.made.node)


PSEUDO = {"ROWTIME": k.BIGINT, "ROWPARTITION": k.INTEGER, "ROWOFFSET": k.BIGINT}
BOUNDS = {"WINDOWSTART": "window_start", "WINDOWEND": "window_end"}


def is_windowed(node: Stream | Table) -> bool:
    """Say whether the key of a node names windows."""
    return (named_window(node) if isinstance(node, Table) else read_window(node)) is not None


def bound(name: str) -> Sql:
    """Return WINDOWSTART or WINDOWEND of a row whose key names its window: milliseconds."""
    return Sql(f"unix_millis({BOUNDS[name]})", k.BIGINT)


@dataclass(slots=True)
class Catalog:
    """What is declared, in its order; and the types of CREATE TYPE."""

    declared: dict[str, Entry] = field(default_factory=dict)
    types: dict[str, Kind] = field(default_factory=dict)
    queries: int = 0

    def get(self, name: str, at: int) -> Entry:
        """Return a stream or a table. Raises SqlError if there is none of this name."""
        if name not in self.declared:
            raise SqlError(f"{name} does not exist.{near(name, self.declared)}", at, expected=listed(self.declared))
        return self.declared[name]

    def readers(self, name: str) -> list[str]:
        """Return the names of what is made of a stream or a table directly."""
        return [of.name for of in self.declared.values() if name in read_by(of)]

    def writer(self, topic: str, name: str) -> Entry | None:
        """Return what else, by another name, writes a topic by its queries."""
        written = [of for of in self.declared.values() if queries(of) and of.topic == topic]
        return next((of for of in written if of.name != name), None)

    def unread(self) -> tuple[str, ...]:
        """Return a sentence for each stream over a topic that queries insert into: its own records are not read."""
        return tuple(
            f"stream {of.name}: INSERT INTO {of.name} SELECT makes it what these queries insert. Records that topic "
            f"{of.topic!r} has from elsewhere are not read: declare them as a stream of another name and topic, and "
            f"insert that, too."
            for of in self.declared.values()
            if of.query is None and of.inserts
        )

    def reached(self, query: Query) -> set[str]:
        """Return the names of all that a query reads, directly or through others."""
        found: set[str] = set()
        waiting = sources_of(query)
        while waiting:
            name = waiting.pop()
            if name not in found and name in self.declared:
                found.add(name)
                waiting += read_by(self.declared[name])
        return found

    def next_query(self, prefix: str, given: str = "") -> str:
        """Return a query's name: the given one, or as ksqlDB counts them: CTAS_VISITS_3."""
        self.queries += 1
        return given or f"{prefix}_{self.queries}"

    def add(self, item: Entry) -> None:
        """Add a stream or a table, or put it in the place of the earlier one."""
        self.declared[item.name] = item

    def insert(self, target: str, name: str, query: Query) -> None:
        """Add a query of INSERT INTO to its target."""
        of = self.declared[target]
        self.declared[target] = replace(of, inserts=(*of.inserts, (name, query)))


def queries(of: Entry) -> list[Query]:
    """Return the queries that write to a stream or a table."""
    return [*([of.query] if of.query is not None else []), *(query for _, query in of.inserts)]


def read_by(of: Entry) -> list[str]:
    """Return the names of what a stream or a table is made of directly."""
    return [*([of.over] if of.over else []), *(name for query in queries(of) for name in sources_of(query))]


def sources_of(query: Query) -> list[str]:
    """Return the names of what a query reads."""
    return [query.relation.name, *(join.right.name for join in query.joins)]


def listed(names: Iterable[str]) -> str:
    """Return names as a message lists what there is."""
    return f"one of {', '.join(names)}" if names else "a stream or a table that is declared before"


def checked_name(name: str, what: str, at: int) -> str:
    """Return a name if it can be a table's or a column's here, and so a folder's. Raises SqlError."""
    try:
        return check_name(name, what)
    except PlanError as error:
        raise SqlError(str(error), at) from None
