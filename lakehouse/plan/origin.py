"""The beginning of a stream: a topic, other streams, a table's changes, or a stream and a table. Frozen values.

An origin is a node of the graph. It reads its `inputs`, streams and tables; the records of the topics in `decodes`
reach it unchanged; `reads` are the tables among its inputs and those of its input streams.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from lakehouse.duration import duration_text
from lakehouse.errors import PlanError
from lakehouse.plan.expectation import Expectation
from lakehouse.plan.expression.expression import (
    Expression,
    Json,
    columns_read_by,
    indicator_part,
    name_text,
    parse_key_expressions,
    sql_part,
)
from lakehouse.plan.expression.schema import Column, joined_columns, without_duplicates
from lakehouse.plan.names.debezium_options import COMMITTED_COLUMN, KEEP, UNSENT_COLUMN, parse_options
from lakehouse.plan.names.join_words import AS_OF, HOW, AsOf, How
from lakehouse.plan.names.record_format import parse_format
from lakehouse.plan.operator import Latest, refuse_history

if TYPE_CHECKING:
    from lakehouse.plan.step import Shape
    from lakehouse.plan.stream import Stream
    from lakehouse.plan.table import Table


class Origin(ABC):
    """The facts that all origins have. undoes: its changes also take out rows, see `lakehouse.plan.rows`."""

    __slots__ = ()
    undoes: ClassVar[bool] = False

    if TYPE_CHECKING:  # a dataclass would take the property for a field's default

        @property
        def name(self) -> str: ...

    @property
    def label(self) -> str:
        """The origin in messages."""
        return f"stream {self.name!r}"

    @property
    def parts(self) -> tuple[Stream, ...]:
        """The streams among its inputs."""
        return ()

    @property
    def tables(self) -> tuple[Table, ...]:
        """The tables among its inputs."""
        return ()

    @property
    def inputs(self) -> tuple[Stream | Table, ...]:
        return (*self.parts, *self.tables)

    @property
    def key_names(self) -> tuple[str, ...]:
        """The names of the key columns of its records."""
        return self.inputs[0].key

    @property
    def decodes(self) -> tuple[Source, ...]:
        return tuple(dict.fromkeys(source for part in self.parts for source in part.decodes))

    @property
    def reads(self) -> tuple[Table, ...]:
        return without_duplicates((*(table for part in self.parts for table in part.reads), *self.tables))

    @abstractmethod
    def over(self, new_parts: Sequence[Stream], new_tables: Sequence[Table]) -> Origin:
        """Return the same origin over other inputs, the same number of each kind."""

    @abstractmethod
    def lines(self) -> list[str]:
        """Return the origin as lines of the plan's text."""

    @abstractmethod
    def fingerprint(self, read_columns: set[str], *, keyed: bool) -> Json:
        """Return the fingerprint of the input of `read_columns` (in lower case). keyed: see `Step.fingerprint`."""


SNAPSHOT_TIME = "{at}"  # what stands for a snapshot's time in a path


@dataclass(frozen=True, slots=True)
class Snapshots:
    """The files from which a topic's records are made: each set of them holds all rows of a table at a time.

    path: whole, with SNAPSHOT_TIME in it if the names say the times. kind: "parquet", "csv", "json" or "delta".
    time_column: the column that says the time; empty for none. partitions: of a topic that is created. allow_empty: a
    snapshot without rows deletes all rows.
    """

    path: str
    kind: str
    time_column: str = ""
    partitions: int = 1
    allow_empty: bool = False


@dataclass(frozen=True, slots=True)
class Source(Origin):
    """A topic read through a schema. Key and value columns come from the record's key and value bytes.

    Some formats are only for SQL: "json_any_case" matches names of fields in any case, and the last field of a name
    counts; "json_bare" is one value without an object; a key of format "none" is null. headers: the name of a column
    with the headers. max_ahead: the milliseconds by which an event time may lie ahead of its record's own timestamp;
    None is without limit. expectations: what each record must meet to be taken in, or is counted for not meeting.
    snapshots: the files whose changes a run writes to the topic; None for a topic that others write.
    """

    name: str
    topic: str
    key: tuple[Column, ...]
    value: tuple[Column, ...]
    key_format: str
    value_format: str
    event_time: Expression | None = None
    own_table: bool = False
    headers: str = ""
    max_ahead: int | None = None
    expectations: tuple[Expectation, ...] = ()
    snapshots: Snapshots | None = None

    @property
    def key_names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.key)

    @property
    def decodes(self) -> tuple[Source, ...]:
        return (self,)

    def format_and_columns(self, part_name: str) -> tuple[str, tuple[Column, ...]]:
        """Return the format and the columns of the "key" or the "value"."""
        return (self.key_format, self.key) if part_name == "key" else (self.value_format, self.value)

    @property
    def judged_expectations(self) -> tuple[Expectation, ...]:
        """The expectations that a record must meet, in the order in which it is judged: those that stop the run first.

        A record has the reason of the first that it does not meet, and a reason of another rule would stop nothing.
        """
        judging = [expectation for expectation in self.expectations if expectation.otherwise != "warn"]
        return tuple(sorted(judging, key=lambda expectation: expectation.otherwise != "fail"))

    @property
    def warning_expectations(self) -> tuple[Expectation, ...]:
        """The expectations that keep no record out: who does not meet one is counted."""
        return tuple(expectation for expectation in self.expectations if expectation.otherwise == "warn")

    def counted_name(self, expectation: Expectation) -> str:
        """Return the name under which commits count the records that do not meet an expectation of this topic."""
        return f"{self.name}.{expectation.name}"

    @property
    def registered_parts(self) -> tuple[str, ...]:
        """Which of "key" and "value" nobody can read without the schemas of their writers, which a registry has."""
        formats = (("key", self.key_format), ("value", self.value_format))
        return tuple(name for name, format in formats if parse_format(format).traits.reads_by_schema)

    @property
    def is_registered(self) -> bool:
        """Whether nobody can read its records without the schemas of their writers."""
        return bool(self.registered_parts)

    @property
    def marked(self) -> Source | None:
        """The source with UNSENT_COLUMN, if it is a change log whose records need not send all values; else None."""
        value_format = parse_format(self.value_format)
        if not value_format.traits.is_change_log or (options := parse_options(value_format.options)).unsent != KEEP:
            return None
        marked_format = replace(value_format, options=str(replace(options, marks_unsent=True)))
        unsent_column = Column(UNSENT_COLUMN, "array<string>")
        return replace(self, value_format=str(marked_format), value=(*self.value, unsent_column))

    @property
    def unmarked(self) -> Source:
        """The source as it was declared: without the column of `marked`."""
        value_format = parse_format(self.value_format)
        if not value_format.traits.is_change_log or not (options := parse_options(value_format.options)).marks_unsent:
            return self
        declared_format = replace(value_format, options=str(replace(options, marks_unsent=False)))
        return replace(self, value_format=str(declared_format), value=self.value[:-1])

    @property
    def times_deletes(self) -> bool:
        """Whether its deletes have a time of their own, that of the change, though a null value has no columns."""
        is_change_log = parse_format(self.value_format).traits.is_change_log
        return is_change_log and self.event_time is not None and self.event_time.text == COMMITTED_COLUMN

    @property
    def applies_truncates(self) -> bool:
        """Whether one of its records can delete all rows that a table has of it: a truncate of the database's table."""
        value_format = parse_format(self.value_format)
        return value_format.traits.is_change_log and parse_options(value_format.options).applies_truncates

    def over(self, new_parts: Sequence[Stream], new_tables: Sequence[Table]) -> Origin:
        return self

    def lines(self) -> list[str]:
        time_text = f", event time {self.event_time}" if self.event_time else ""
        time_text += f", at most {duration_text(self.max_ahead)} ahead" if self.max_ahead is not None else ""
        return [
            f"FROM topic {self.topic} (stream {self.name}{time_text})",
            f"  key   {self.key_format}: {', '.join(map(str, self.key))}",
            f"  value {self.value_format}: {', '.join(map(str, self.value))}",
            *(f"  EXPECT {expectation}" for expectation in self.expectations),
        ]

    def fingerprint(self, read_columns: set[str], *, keyed: bool) -> Json:
        conditions = [expectation.condition for expectation in self.judged_expectations]
        read_columns = read_columns | columns_read_by([*conditions, *([self.event_time] if self.event_time else [])])
        # A JSON field is located by name, a field of CSV by place; a line of CSV with one more field is another line.
        beside_part: Json = {"name": self.name}
        value_part: Any = [[column.name, column.type] for column in self.value]
        if parse_format(self.value_format).is_by_name:
            value_part = {column.name: column.logic for column in self.value if column.name.lower() in read_columns}
            beside_part["unread"] = {
                column.name: column.logic for column in self.value if column.name.lower() not in read_columns
            }
        return {
            "topic": self.topic,
            "key_format": self.key_format,
            "key": [[column.name, column.logic] for column in self.key],
            "value_format": self.value_format,
            "value": value_part,
            "event_time": sql_part(self.event_time) if self.event_time is not None else None,
            "beside": beside_part,
            **({"headers": self.headers} if self.headers.lower() in read_columns else {}),
            **({"max_ahead": self.max_ahead} if self.max_ahead is not None else {}),
            **({"expect": [sql_part(condition) for condition in conditions]} if conditions else {}),
        }


@dataclass(frozen=True, slots=True)
class Merge(Origin):
    """Several streams with the same columns, merged into one. As always, the records are in position order."""

    streams: tuple[Stream, ...]

    @classmethod
    def declare(cls, streams: tuple[Stream, ...]) -> Merge:
        """Return the merge. Raises PlanError for a stream whose key or columns differ from the first stream's."""
        first_stream, *other_streams = streams
        for other_stream in other_streams:
            for actual, expected in (
                (other_stream.key, first_stream.key),
                (_column_signature(other_stream), _column_signature(first_stream)),
            ):
                if actual != expected:
                    raise PlanError(
                        f"{first_stream.label}: merge with {other_stream.label}: the columns differ. Found "
                        f"{_describe_columns(other_stream)}; expected "
                        f"{_describe_columns(first_stream)}. Use select, rename, cast or rekey."
                    )
        return cls(streams)

    @property
    def name(self) -> str:
        return " + ".join(stream.source.name for stream in self.streams)

    @property
    def parts(self) -> tuple[Stream, ...]:
        return self.streams

    def over(self, new_parts: Sequence[Stream], new_tables: Sequence[Table]) -> Origin:
        return Merge(tuple(new_parts))

    def lines(self) -> list[str]:
        return ["MERGE", *(f"  {line}" for part in self.streams for line in part.lines())]

    def fingerprint(self, read_columns: set[str], *, keyed: bool) -> Json:
        return {"merge": [part.fingerprint(read_columns, keyed=keyed) for part in self.streams]}


@dataclass(frozen=True, slots=True)
class ChangesOf(Origin):
    """A table's changelog per event, as records: the row's key and its values after the change, null for a delete."""

    table: Table

    @property
    def name(self) -> str:
        return self.table.name

    @property
    def tables(self) -> tuple[Table, ...]:
        return (self.table,)

    def over(self, new_parts: Sequence[Stream], new_tables: Sequence[Table]) -> Origin:
        return ChangesOf(*new_tables)

    def lines(self) -> list[str]:
        return [f"CHANGES OF TABLE {self.table.name}"]

    def fingerprint(self, read_columns: set[str], *, keyed: bool) -> Json:
        return upstream_part("changes_of", self.table)


@dataclass(frozen=True, slots=True)
class TableJoin(Origin):
    """Each record of a stream with the row that a table has when the record arrives (docs/rules.md, rule 20).

    key_expressions: over the stream's columns; they give the table's key, in its order. prefix: precedes the names of
    the table's columns. If the record itself changes the table, that change comes first. as_of: "event time" finds the
    row at the record's event time. broadcast: send the table to every task; the result is the same. indicator: the name
    of a column that says whether there is a row, "both" or "left"; empty for none.
    """

    stream: Stream
    table: Table
    key_expressions: tuple[Expression, ...]
    join_type: How
    prefix: str = ""
    as_of: AsOf = "arrival"
    broadcast: bool = False
    indicator: str = ""

    @classmethod
    def declare(
        cls,
        stream: Stream,
        table: Table,
        key_texts: Sequence[str] | None,
        join_type: How,
        prefix: str,
        as_of: AsOf = "arrival",
        *,
        broadcast: bool = False,
        indicator: str = "",
    ) -> tuple[TableJoin, Shape]:
        """Return the join, and the shape of its records. For the other arguments see `Stream.join`."""
        subject = f"{stream.label}: join with table {table.name!r}"
        for option_name, option_value, allowed_values in (("how", join_type, HOW), ("as_of", as_of, AS_OF)):
            if option_value not in allowed_values:
                raise PlanError(
                    f"{subject}: {option_name}={option_value!r}; expected {' or '.join(map(repr, allowed_values))}."
                )
        if as_of == "event time" and (broadcast or type(table.fold) is not Latest or table.later_operators):
            raise PlanError(
                f'{subject}: as_of="event time" needs a table of latest(...) without order_by and suppress, and no '
                "broadcast: of other tables the changes do not tell how they were at an earlier event time. A change "
                'log of a database needs unsent="quarantine".'
            )
        refuse_history(
            table.fold, table.name, f'{subject} needs one row a key. Join with the table itself, as_of="event time"'
        )
        if table.windows:
            raise PlanError(
                f"{subject}: its rows belong to windows, so a key has many. Expected a table without a window, "
                "such as the latest value of each key."
            )
        expression_texts = [*key_texts] if key_texts is not None else [name_text(name) for name in stream.key]
        key_expressions = parse_key_expressions(key_columns(table), expression_texts, stream.columns, subject)
        added_columns = (column for column in table.columns if column.name not in table.key)
        all_columns = joined_columns(stream.columns, added_columns, prefix, table.name, subject, indicator)
        return cls(
            stream, table, key_expressions, join_type, prefix, as_of, broadcast, indicator
        ), stream.shape.with_columns(all_columns)

    @property
    def name(self) -> str:
        return f"{self.stream.source.name} + {self.table.name}"

    @property
    def parts(self) -> tuple[Stream, ...]:
        return (self.stream,)

    @property
    def tables(self) -> tuple[Table, ...]:
        return (self.table,)

    def over(self, new_parts: Sequence[Stream], new_tables: Sequence[Table]) -> Origin:
        (stream,), (table,) = new_parts, new_tables
        return replace(self, stream=stream, table=table)

    def lines(self) -> list[str]:
        suffix_text = {"event time": " AS OF EVENT TIME"}.get(self.as_of, " BROADCAST" if self.broadcast else "")
        key_text = ", ".join(map(str, self.key_expressions))
        join_line = f"{self.join_type.upper()} JOIN TABLE {self.table.name} ON {key_text}{suffix_text}"
        return [join_line, *(f"  {line}" for line in self.stream.lines())]

    def fingerprint(self, read_columns: set[str], *, keyed: bool) -> Json:
        stream_part = self.stream.fingerprint(read_columns | columns_read_by(self.key_expressions), keyed=keyed)
        join_part: Json = {
            "on": [sql_part(key_expression) for key_expression in self.key_expressions],
            "how": self.join_type,
            "prefix": self.prefix,
        }
        if self.as_of != "arrival":
            join_part["as_of"] = self.as_of
        return {
            **upstream_part("join", self.table),
            "stream": stream_part,
            **join_part,
            **indicator_part(self.indicator, read_columns),
        }


def key_columns(table: Table) -> list[Column]:
    """Return the columns of a table's key, in its order."""
    types_by_name = {column.name: column.type for column in table.columns}
    return [Column(name, types_by_name[name]) for name in table.key]


def upstream_part(origin_kind: str, *tables: Table) -> Json:
    """Return the part for input tables: their names. Changed declarations arrive as changes of their rows."""
    upstream_names = dict.fromkeys(
        upstream_table.name for table in tables for upstream_table in (*table.stream.tables, table)
    )
    joined_names = " + ".join(table.name for table in tables)
    topic_names = sorted({topic for table in tables for topic in table.stream.topics})
    key_types = [[c.name, c.type] for table in tables for c in table.columns if c.name in table.key]
    return {
        origin_kind: joined_names,
        "key": key_types,
        "beside": {"name": joined_names, "topics": topic_names, "tables": sorted(upstream_names)},
    }


def _column_signature(stream: Stream) -> list[tuple[str, str]]:
    return sorted((column.name.lower(), column.type) for column in stream.columns)


def _describe_columns(stream: Stream) -> str:
    return f"key {', '.join(stream.key)} of {', '.join(map(str, stream.columns))}"
