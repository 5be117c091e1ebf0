"""Declarations: streams, tables, changelogs and applications as frozen values. Nothing runs here.

    stream  --filter, select, rekey-->  stream
    stream  --latest, or group_by + agg-->  table
    table   --changes-->  changelog  --to_topic-->  topic
    stream  --to_topic-->  topic

Every step checks itself against the columns before it: a plan that can't be kept is refused on the line that says it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from lakehouse.errors import PlanError
from lakehouse.plan.expression import Expression, Named, expression, expression_type, named
from lakehouse.plan.schema import PSEUDO_COLUMNS, Column, check_distinct, check_name, check_topic

AggregateKind = Literal["count", "sum"]


@dataclass(frozen=True, slots=True)
class Source:
    """A topic read through a schema. Key and value columns come from the record's key and value bytes."""

    name: str
    topic: str
    key: tuple[Column, ...]
    value: tuple[Column, ...]
    key_format: str
    value_format: str
    event_time: Expression | None = None
    own_table: bool = False


@dataclass(frozen=True, slots=True)
class Filter:
    """Keep the records for which the predicate is true; null and false leave out, and so does a null value."""

    predicate: Expression


@dataclass(frozen=True, slots=True)
class Select:
    """Make these value columns, and no others. The key goes along; a null value stays one."""

    columns: tuple[Named, ...]


@dataclass(frozen=True, slots=True)
class Rekey:
    """Take these as the key from here on; the old key becomes value columns. A null key stays in the stream."""

    columns: tuple[Named, ...]


Step = Filter | Select | Rekey


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream: a source and the stateless steps after it. `columns` are the columns that a next step can read."""

    source: Source
    key: tuple[str, ...]
    columns: tuple[Column, ...]
    steps: tuple[Step, ...] = ()

    @property
    def what(self) -> str:
        return f"stream {self.source.name!r}"

    def filter(self, predicate: str) -> Stream:
        """Return the records for which `predicate` (Spark SQL) is true.

        Records with a null value are left out, tombstones too (SEMANTICS.md, rule 2): filter before `latest` only a
        topic whose deletes do not matter.
        """
        step = Filter(expression(predicate, self.columns, f"{self.what}: filter"))
        return replace(self, steps=(*self.steps, step))

    def select(self, *columns: str, **renamed: str) -> Stream:
        """Return a stream with these value columns: "city", "upper(city) AS town", or town="upper(city)".

        The key columns go along, whether they are named here or not.
        """
        what = f"{self.what}: select"
        items = [named(text, self.columns, what) for text in columns]
        items += [Named(check_name(n, what), expression(text, self.columns, what)) for n, text in renamed.items()]
        keys = {name.lower() for name in self.key}
        for item in items:
            if item.name.lower() in keys and item.expression.text.lower() != item.name.lower():
                raise PlanError(
                    f"{what}: {item.name!r} is the key; give {item.expression.text!r} another name, or rekey."
                )
        values = [item for item in items if item.name.lower() not in keys]
        if not values:
            raise PlanError(f"{what}: no column is left beside the key {', '.join(self.key)}. Name at least one.")
        made = [Column(item.name, expression_type(item.expression, self.columns) or "") for item in values]
        kept = [column for column in self.columns if column.name in self.key]
        check_distinct((column.name for column in (*kept, *made)), what)
        check_pseudo(made, what)
        return replace(self, columns=(*kept, *made), steps=(*self.steps, Select(tuple(values))))

    def rekey(self, *columns: str) -> Stream:
        """Return the stream keyed by these expressions ("city", "upper(city) AS town").

        Kafka Streams calls it selectKey, ksqlDB PARTITION BY. A key that is null, or fails, leaves the record in the
        stream with a null key (rule 4).
        """
        what = f"{self.what}: rekey"
        items = tuple(named(text, self.columns, what) for text in columns)
        if not items:
            raise PlanError(f"{what}: expected at least one expression.")
        check_distinct((item.name for item in items), what)
        made = [Column(item.name, expression_type(item.expression, self.columns) or "") for item in items]
        check_pseudo(made, what)
        names = {item.name.lower() for item in items}
        for item in items:
            known = item.name.lower() in {column.name.lower() for column in self.columns}
            if known and item.expression.text.lower() != item.name.lower():
                raise PlanError(
                    f"{what}: a column {item.name!r} exists already. Give {item.expression.text!r} another name."
                )
        rest = [column for column in self.columns if column.name.lower() not in names]
        if not rest:
            raise PlanError(f"{what}: no value column would be left beside the key.")
        return replace(
            self, key=tuple(item.name for item in items), columns=(*made, *rest), steps=(*self.steps, Rekey(items))
        )

    def latest(self, name: str) -> Table:
        """Return the table that holds the latest value of each key: an upsert; a null value deletes."""
        check_name(name, "table")
        return Table(name=name, stream=self, key=self.key)

    def group_by(self, *columns: str) -> Grouped:
        """Return the stream grouped by these expressions, for `agg`. A null in any of them leaves the record out."""
        what = f"{self.what}: group_by"
        items = tuple(named(text, self.columns, what) for text in columns)
        if not items:
            raise PlanError(f"{what}: expected at least one expression.")
        check_distinct((item.name for item in items), what)
        check_pseudo([Column(item.name, "") for item in items], what)
        return Grouped(self, items)

    def to_topic(self, topic: str, *, partitions: int | None = None) -> Sink:
        """Return a sink that publishes the stream's records, with null values and null keys as they are."""
        return Sink(check_topic(topic), self, "event", check_partitions(partitions, topic))


@dataclass(frozen=True, slots=True)
class Aggregation:
    """An aggregate of a declaration: its kind, and the expression that it reads; None for COUNT(*)."""

    kind: AggregateKind
    argument: str | None = None

    def __str__(self) -> str:
        return f"{self.kind}({self.argument or '*'})"


@dataclass(frozen=True, slots=True)
class NamedAggregation:
    """An aggregation bound to a stream's columns, and the name of its result."""

    name: str
    kind: AggregateKind
    argument: Expression | None

    def __str__(self) -> str:
        return f"{self.kind}({self.argument or '*'}) AS {self.name}"


@dataclass(frozen=True, slots=True)
class Grouped:
    """A stream and the columns that it is grouped by."""

    stream: Stream
    by: tuple[Named, ...]

    def agg(self, **aggregations: Aggregation) -> Aggregated:
        """Return the aggregates, each under its name: agg(n=lh.count(), total=lh.sum("amount"))."""
        what = f"{self.stream.what}: agg"
        if not aggregations:
            raise PlanError(f"{what}: expected at least one aggregate, such as n=lh.count().")
        bound = []
        for name, item in aggregations.items():
            check_name(name, what)
            if not isinstance(item, Aggregation):
                raise PlanError(f"{what}: {name}={item!r} is not an aggregate. Write {name}=lh.count() or lh.sum(...).")
            argument = expression(item.argument, self.stream.columns, f"{what}: {item}") if item.argument else None
            kind = expression_type(argument, self.stream.columns) if argument else None
            if item.kind == "sum" and kind is not None and not is_number(kind):
                raise PlanError(f'{what}: {name}={item} sums a {kind}. Cast it: lh.sum("cast({argument} AS double)").')
            bound.append(NamedAggregation(name, item.kind, argument))
        check_distinct([*(item.name for item in self.by), *aggregations], what)
        check_pseudo([Column(name, "") for name in aggregations], what)
        return Aggregated(self, tuple(bound))


@dataclass(frozen=True, slots=True)
class Aggregated:
    """Aggregates that still need a table's name."""

    grouped: Grouped
    aggregations: tuple[NamedAggregation, ...]

    def table(self, name: str) -> Table:
        """Return the table that keeps these aggregates, one row a group."""
        check_name(name, "table")
        grouped = self.grouped
        return Table(name, grouped.stream, tuple(item.name for item in grouped.by), grouped.by, self.aggregations)


@dataclass(frozen=True, slots=True)
class Table:
    """A keyed table. Without `aggregations` it holds the latest value of each key."""

    name: str
    stream: Stream
    key: tuple[str, ...]
    group_by: tuple[Named, ...] = ()
    aggregations: tuple[NamedAggregation, ...] = ()

    @property
    def is_latest(self) -> bool:
        return not self.aggregations

    def changes(self, *, net: bool = False) -> Changes:
        """Return the table's changelog: per event, as one-record batches would give it, or `net` per commit."""
        return Changes(self, net)


@dataclass(frozen=True, slots=True)
class Changes:
    """A table's changelog."""

    table: Table
    net: bool = False

    def to_topic(self, topic: str, *, partitions: int | None = None) -> Sink:
        """Return a sink that publishes the changelog to a compacted topic: key -> new value, a delete a tombstone."""
        return Sink(check_topic(topic), self.table, "net" if self.net else "event", check_partitions(partitions, topic))


@dataclass(frozen=True, slots=True)
class Sink:
    """A topic that a stream, or a table's changelog, is published to. `partitions` is used when the topic is made."""

    topic: str
    of: Stream | Table
    mode: Literal["event", "net"]
    partitions: int | None = None


@dataclass(frozen=True, slots=True)
class App:
    """An application: the tables that are kept, and the topics that are published."""

    tables: tuple[Table, ...]
    sinks: tuple[Sink, ...] = ()
    sources: tuple[Source, ...] = field(default=())

    def table(self, name: str) -> Table:
        """Return a table by its name; PlanError if the application does not have it."""
        for item in self.tables:
            if item.name == name:
                return item
        raise PlanError(
            f"table {name!r} is not in this application. There are: {', '.join(t.name for t in self.tables)}."
        )

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(source.topic for source in self.sources))


def is_number(kind: str) -> bool:
    """Say whether a type can be summed."""
    return kind in ("tinyint", "smallint", "int", "bigint", "float", "double") or kind.startswith("decimal")


def check_pseudo(columns: list[Column], what: str) -> None:
    """Raise PlanError when a made column takes the name of a pseudo column."""
    for column in columns:
        if column.name.lower() in PSEUDO_COLUMNS:
            raise PlanError(f'{what}: {column.name!r} is a pseudo column; name it otherwise: "{column.name} AS ...".')


def check_partitions(partitions: int | None, topic: str) -> int | None:
    """Return a number of partitions that a topic can have; PlanError otherwise."""
    if partitions is not None and not (isinstance(partitions, int) and 1 <= partitions <= 10_000):
        raise PlanError(f"topic {topic!r}: partitions={partitions!r}, expected 1 to 10000.")
    return partitions
