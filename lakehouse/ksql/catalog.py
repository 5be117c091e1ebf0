"""The streams and tables that statements have declared, by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from lakehouse.errors import PlanError, SqlError
from lakehouse.ksql.expression.expression import ScopeColumn
from lakehouse.ksql.function.sql import Sql, column_sql
from lakehouse.ksql.syntax import kind as k
from lakehouse.ksql.syntax.kind import Kind
from lakehouse.ksql.syntax.statement import Constraints, CreateSource, HistoryClause, Query
from lakehouse.plan.app import named_window, read_window
from lakehouse.plan.expression.schema import check_name
from lakehouse.plan.names.format_traits import traits_of
from lakehouse.plan.refused.near import suggest_near
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
class SqlRelation:
    """A stream or a table as SQL sees it: its columns, the keys first, and its node in the graph."""

    node: Stream | Table
    columns: tuple[SqlColumn, ...]

    @property
    def stream(self) -> Stream:
        """The stream, or that of which the table is made."""
        return self.node.stream if isinstance(self.node, Table) else self.node

    @property
    def key(self) -> tuple[str, ...]:
        """The names of the key columns; none for a stream without a key."""
        return tuple(column.name for column in self.columns if column.is_key)


@dataclass(frozen=True, slots=True)
class Entry:
    """A stream or a table of the catalog.

    topic: the topic that it reads, or that its query writes. statement: its text. query: the query of its CREATE ...
    AS; insert_queries: the queries of INSERT INTO, with their names. formats: those of its key and of its value.
    is_wrapped: whether a single value in JSON has an object around it. delimiter: the delimiter in values that are
    delimited text; key_delimiter: the delimiter in keys. limits: see `ColumnScope`. time: Spark SQL for the time of its
    records, by TIMESTAMP of a query; empty if they keep their own time. writer_name: the name of the entry that writes
    the topic which this entry reads; empty if no entry does. record_names: see `WithClause`. history: the entry is the
    history of its query's rows, or of its topic's, and has no topic to write. constraints: of its query's rows.
    header_names: the columns that are of its records' headers. created: the statement that declares it over a topic,
    with the columns of ALTER; None for that of a query. settings: those of SET by which `created` was read.
    """

    kind: str
    name: str
    topic: str
    formats: tuple[str, str]
    relation: SqlRelation
    statement: str
    query: Query | None = None
    insert_queries: tuple[tuple[str, Query], ...] = ()
    partitions: int | None = None
    is_source: bool = False
    query_name: str = ""
    is_wrapped: bool = True
    delimiter: str = ","
    key_delimiter: str = ","
    limits: Mapping[str, int] = field(default_factory=dict)
    time: str = ""
    writer_name: str = ""
    record_names: tuple[str, str] = ("", "")
    history: HistoryClause | None = None
    constraints: Constraints = ()
    header_names: tuple[str, ...] = ()
    created: CreateSource | None = None
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def columns(self) -> tuple[SqlColumn, ...]:
        return self.relation.columns

    @property
    def unwritten_format(self) -> str:
        """The format of its key or its value that is only read, never written; empty if there is none."""
        return next((format for format in self.formats if traits_of(format.lower()).written_as), "")

    @property
    def pseudo_columns(self) -> tuple[SqlColumn, ...]:
        """The columns that every stream has besides its declared ones."""
        if self.kind == "TABLE":
            return ()
        return tuple(SqlColumn(name, kind) for name, kind in PSEUDO.items())

    @property
    def is_windowed(self) -> bool:
        """Whether the key names windows."""
        return is_windowed(self.relation.node)


PSEUDO = {"ROWTIME": k.BIGINT, "ROWPARTITION": k.INTEGER, "ROWOFFSET": k.BIGINT}
BOUNDS = {"WINDOWSTART": "window_start", "WINDOWEND": "window_end"}


def pseudo_scope(alias: str) -> tuple[ScopeColumn, ...]:
    """Return the pseudo columns of a source as an expression reads them."""
    return tuple(ScopeColumn(name, alias, column_sql(name.lower(), kind)) for name, kind in PSEUDO.items())


def is_windowed(node: Stream | Table) -> bool:
    """Say whether the key of a node names windows."""
    return (named_window(node) if isinstance(node, Table) else read_window(node)) is not None


def window_bound(name: str) -> Sql:
    """Return WINDOWSTART or WINDOWEND of a row whose key names its window: milliseconds."""
    return Sql(f"unix_millis({BOUNDS[name]})", k.BIGINT)


@dataclass(slots=True)
class Catalog:
    """All that is declared, in order; and the types of CREATE TYPE."""

    entries: dict[str, Entry] = field(default_factory=dict)
    types: dict[str, Kind] = field(default_factory=dict)
    query_count: int = 0

    def get(self, name: str, position: int) -> Entry:
        """Return a stream or a table. Raises SqlError if there is none of this name."""
        if name not in self.entries:
            raise SqlError(
                f"{name} does not exist.{suggest_near(name, self.entries)}",
                position,
                expected=list_choices(self.entries),
            )
        return self.entries[name]

    def reader_names(self, name: str) -> list[str]:
        """Return the names of the streams and tables that read this one directly."""
        return [entry.name for entry in self.entries.values() if name in input_names(entry)]

    def writer(self, topic: str, name: str) -> Entry | None:
        """Return the entry of another name whose queries write this topic, if there is one."""
        written_entries = [entry for entry in self.entries.values() if queries_of(entry) and entry.topic == topic]
        return next((entry for entry in written_entries if entry.name != name), None)

    def unread_notes(self) -> tuple[str, ...]:
        """Return a sentence for each declared stream that queries insert into: records from elsewhere are not read."""
        return tuple(
            f"stream {entry.name}: INSERT INTO {entry.name} SELECT makes it what these queries insert. Records that "
            f"topic {entry.topic!r} has from elsewhere are not read: declare them as a stream of another name and "
            "topic, and insert that, too."
            for entry in self.entries.values()
            if entry.query is None and entry.insert_queries
        )

    def reset_readers(self, name: str) -> None:
        """Name the writer anew of each entry that reads the topic of this one, which may write another topic now."""
        for reader in [entry for entry in self.entries.values() if entry.writer_name == name]:
            writer = self.writer(reader.topic, reader.name)
            self.add(replace(reader, writer_name="" if writer is None else writer.name))

    def names_read_by(self, source_names: Iterable[str]) -> set[str]:
        """Return the names of all streams and tables that are read through these, themselves included."""
        reached_names: set[str] = set()
        waiting_names = [*source_names]
        while waiting_names:
            name = waiting_names.pop()
            if name not in reached_names and name in self.entries:
                reached_names.add(name)
                waiting_names += input_names(self.entries[name])
        return reached_names

    def next_query_name(self, prefix: str, given_name: str = "") -> str:
        """Return a query's name: the given one, or one with a number, as in ksqlDB: CTAS_VISITS_3."""
        self.query_count += 1
        return given_name or f"{prefix}_{self.query_count}"

    def add(self, entry: Entry) -> None:
        """Add a stream or a table, in the place of an entry of the same name if there is one."""
        self.entries[entry.name] = entry

    def insert(self, target: str, query_name: str, query: Query) -> None:
        """Add a query of INSERT INTO to its target."""
        entry = self.entries[target]
        self.entries[target] = replace(entry, insert_queries=(*entry.insert_queries, (query_name, query)))


def queries_of(entry: Entry) -> list[Query]:
    """Return the queries that write to a stream or a table."""
    return [*([entry.query] if entry.query is not None else []), *(query for _, query in entry.insert_queries)]


def input_names(entry: Entry) -> list[str]:
    """Return the names of the streams and tables that this one reads directly."""
    return [
        *([entry.writer_name] if entry.writer_name else []),
        *(name for query in queries_of(entry) for name in sources_of(query)),
    ]


def sources_of(query: Query) -> list[str]:
    """Return the names of the streams and tables that a query reads."""
    return [query.relation.name, *(join.right.name for join in query.joins)]


def list_choices(names: Iterable[str]) -> str:
    """Return names as a message lists the choices."""
    return f"one of {', '.join(names)}" if names else "a stream or a table that is declared before"


def checked_name(name: str, subject: str, position: int) -> str:
    """Return a name if a table or a column can have it here, and so a folder. Raises SqlError."""
    try:
        return check_name(name, subject)
    except PlanError as error:
        raise SqlError(str(error), position) from None
