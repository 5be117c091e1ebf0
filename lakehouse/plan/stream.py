"""Streams: the origin of records, and the stateless steps after it. Every step checks itself against the columns
before it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from lakehouse.errors import PlanError
from lakehouse.plan.alert import FunctionSink, StreamRecord
from lakehouse.plan.expression import Expression, Json, expression, expression_type, name_text, named
from lakehouse.plan.expression import predicate as condition
from lakehouse.plan.names.how import AsOf, How, HowJoined
from lakehouse.plan.operator import LatestBy, Suppress, Tombstones
from lakehouse.plan.origin import Merge, Node, Source, TableJoin
from lakehouse.plan.refused.near import near
from lakehouse.plan.refused.steps import Declaration, shown
from lakehouse.plan.schema import (
    Column,
    check_distinct,
    check_name,
    check_partitions,
    check_pseudo,
    check_topic,
    distinct,
    parse_schema,
)
from lakehouse.plan.step import Explode, Filter, Map, Rekey, Retime, Select, Shape, Step
from lakehouse.plan.stream_join import Spans, StreamJoin
from lakehouse.plan.table import Grouped, Sink, Table


@dataclass(frozen=True, slots=True, repr=False)
class Stream(Declaration):
    """A stream: its origin and the stateless steps after it. `columns` are the columns that a next step can read."""

    source: Node
    key: tuple[str, ...]
    columns: tuple[Column, ...]
    steps: tuple[Step, ...] = ()

    @property
    def what(self) -> str:
        return self.source.what

    @property
    def undoes(self) -> bool:
        """Whether its records are changes of rows, which are taken out and put in."""
        return self.source.undoes

    @property
    def shape(self) -> Shape:
        return Shape(self.what, self.key, self.columns)

    @property
    def inputs(self) -> tuple[Stream | Table, ...]:
        """The streams and tables that its origin reads; none if that is a topic."""
        return self.source.inputs

    @property
    def sources(self) -> tuple[Source, ...]:
        """The topics that the stream comes from, directly or through tables, each with its schema."""
        through = (source for table in self.reads for source in table.stream.sources)
        return tuple(dict.fromkeys((*self.decodes, *through)))

    @property
    def decodes(self) -> tuple[Source, ...]:
        """Those of its sources whose records reach it unchanged, not through a table: it sees their bad records."""
        return self.source.decodes

    @property
    def reads(self) -> tuple[Table, ...]:
        """The tables that it reads directly."""
        return self.source.reads

    @property
    def tables(self) -> tuple[Table, ...]:
        """The tables that it reads, directly or through others; each comes after those that it reads itself."""
        return tuple(node for node in walk(self) if isinstance(node, Table))

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(source.topic for source in self.sources))

    def lines(self) -> list[str]:
        """Return the stream as lines of the plan's text, the result first."""
        return [*map(str, reversed(self.steps)), *self.source.lines()]

    def fingerprint(self, read: set[str], *, keyed: bool) -> Json:
        """Return the part that the columns `read` (in lower case) are made from. keyed: see `Step.fingerprint`."""
        steps = []
        for step in reversed(self.steps):
            made, read = step.fingerprint(read, keyed=keyed)
            steps += [made] if made is not None else []
        return {**self.source.fingerprint(read, keyed=keyed), "steps": steps[::-1]}

    def _then(self, step: Step, shape: Shape) -> Stream:
        return replace(self, key=shape.key, columns=shape.columns, steps=(*self.steps, step))

    def beginning(self, origin: Node, shape: Shape) -> Stream:
        """Return a stream that begins with an origin."""
        return replace(self, source=origin, key=shape.key, columns=shape.columns, steps=())

    def filter(self, predicate: str) -> Stream:
        """Return the records for which `predicate` (Spark SQL) is true.

        Records with a null value are left out, tombstones too (docs/rules.md, rule 2): filter before `latest` only a
        topic whose deletes do not matter.
        """
        return self._then(*Filter.declared(self.shape, predicate))

    def select(self, *columns: str, **renamed: str) -> Stream:
        """Return a stream with these value columns: "city", "upper(city) AS town", or town="upper(city)".

        The key columns are kept, whether they are named here or not.
        """
        return self._then(*Select.declared(self.shape, columns, renamed))

    def with_columns(self, **made: str) -> Stream:
        """Return the stream with these columns added or replaced: with_columns(town="upper(city)")."""
        lowered = {name.lower() for name in made}
        kept = [name_text(name) for name in self.shape.values if name.lower() not in lowered]
        return self._select("with_columns", kept, made)

    def _select(self, step: str, columns: Iterable[str], made: Mapping[str, str] | None = None) -> Stream:
        return self._then(*Select.declared(self.shape, tuple(columns), made or {}, step=step))

    def rename(self, **names: str) -> Stream:
        """Return the stream with value columns under new names: rename(city="town") makes city the column town."""
        for name in names:
            self._value(name, "rename")
        texts = {name: name_text(name) for name in self.shape.values}
        return self._select("rename", [f"{t} AS `{names[n]}`" if n in names else t for n, t in texts.items()])

    def cast(self, **types: str) -> Stream:
        """Return the stream with value columns of other types: cast(amount="decimal(10, 2)"); null if a cast fails."""
        for name, kind in types.items():
            self._value(name, "cast")
            parse_schema(f"`{name}` {kind}", f"{self.what}: cast")
        kept = [name_text(name) for name in self.shape.values if name not in types]
        return self._select("cast", kept, {n: f"cast({name_text(n)} AS {kind})" for n, kind in types.items()})

    def drop(self, *names: str) -> Stream:
        """Return the stream without these value columns."""
        gone = {self._value(name, "drop") for name in names}
        return self._select("drop", [name_text(name) for name in self.shape.values if name not in gone])

    def _value(self, name: str, what: str) -> str:
        if name not in self.shape.values:
            meant = "" if name in self.key else near(name, self.shape.values)
            raise PlanError(
                f"{self.what}: {what}: {name!r} is not a value column"
                f"{', it is in the key' if name in self.key else ''}.{meant} There are: "
                f"{', '.join(self.shape.values)}."
            )
        return name

    def rekey(self, *columns: str) -> Stream:
        """Return the stream keyed by these expressions ("city", "upper(city) AS town").

        Kafka Streams calls it selectKey, ksqlDB PARTITION BY. A key that is null, or fails, leaves the record in the
        stream with a null key (rule 4). Of a record with a null value, what reads more than the key is null.
        """
        return self._then(*Rekey.declared(self.shape, columns))

    def retime(self, time: str) -> Stream:
        """Return the records at this event time, a timestamp or epoch milliseconds: see `Retime`."""
        return self._then(*Retime.declared(self.shape, time))

    def explode(self, array: str, name: str) -> Stream:
        """Return one record for each element of an array expression, in its order, as the column `name`.

        An empty or null array gives no record, and so does a null value (ksqlDB's EXPLODE).
        """
        return self._then(*Explode.declared(self.shape, array, name))

    def map(self, name: str, function: Callable[..., Any], *arguments: str, type: str) -> Stream:
        """Return the stream with a column made by a Python function, for what SQL can't say.

        function: receives one pyarrow.Array per argument expression and returns an array of as many values, of `type`;
        it must give the same result for the same input. A record on which it fails gets a null.
        """
        return self._then(*Map.declared(self.shape, name, function, arguments, type))

    def branch(self, *predicates: str) -> tuple[Stream, ...]:
        """Return one stream for each predicate and a last one for the rest; a record goes to the first that is true.

        Records with a null value go to none of them, as with `filter`.
        """
        if not predicates:
            raise PlanError(f"{self.what}: branch: expected at least one predicate.")
        rest, streams = "true", []
        for predicate in predicates:
            condition(predicate, self.columns, f"{self.what}: branch")
            streams.append(f"{rest} AND coalesce(({predicate}), false)")
            rest = f"{rest} AND NOT coalesce(({predicate}), false)"
        return tuple(self._then(Filter(Expression(checked)), self.shape) for checked in (*streams, rest))

    def merge(self, *others: Stream) -> Stream:
        """Return this stream and others with the same columns as one (Kafka Streams' merge; SQL's UNION ALL)."""
        for other in others:
            if not isinstance(other, Stream):
                raise PlanError(f"{self.what}: merge: found {shown(other)}, expected streams.")
        return self.beginning(Merge.declared((self, *others)), replace(self.shape, what=f"{self.what}: merge"))

    def join(
        self, other: Table | Stream, on: str | tuple[str, ...] | list[str] | None = None, *,
        how: HowJoined = "inner", prefix: str = "", as_of: AsOf = "arrival", broadcast: bool = False,
        indicator: str = "", within: str | None = None, before: str | None = None, after: str | None = None,
        grace: str | None = None,
    ) -> Stream:  # fmt: skip
        """Return each record with the columns of the row that a table has for it, or of another stream's records.

        on: expressions of this stream, one for each column of the other's key; default: its own key. prefix: precedes
        the names of the other's columns. Records with a null value take no part.

        A table: how is "inner", which leaves out a record without a row, or "left", which keeps it, with nulls. The
        row is that at the record's arrival, or as_of its "event time". A change of the table gives no record.
        broadcast: the table is small, and goes to every task whole; what comes out is the same. indicator: a column
        that says whether there was a row: "both", or "left" for the record alone.

        A stream: within (before and after: how much earlier or later than this stream's record the other's may be) is
        needed. The records have the join's key: with `on`, this stream is re-keyed first. how: "left", "right" and
        "outer" keep records that meet none, with nulls: at once without a grace, otherwise when their window has
        closed, which waits for late ones that long. Default grace: 24 hours less before and after.

        Raises PlanError for columns that exist on both sides, keys of other types, or no window.
        """
        by = (on,) if isinstance(on, str) else on
        spans = Spans(within, before, after, grace)
        if isinstance(other, Stream):
            if as_of != "arrival" or broadcast or indicator:
                raise PlanError(
                    f"{self.what}: join: as_of, broadcast and indicator are for tables; found {shown(other)}."
                )
            left = self if by is None else self.rekey(*by)
            return self.beginning(*StreamJoin.declared(left, other, how, spans, prefix))
        if not isinstance(other, Table):
            raise PlanError(
                f"{self.what}: join: found {shown(other)}, expected a table, such as planes = stream.latest('planes'), "
                "or another stream."
            )
        if any(spans):
            raise PlanError(
                f"{self.what}: join with table {other.name!r}: within, before, after and grace are for joins of two "
                'streams. A table is looked up at the record\'s arrival, or as_of="event time".'
            )
        wanted = TableJoin.declared(
            self, other, by, cast(How, how), prefix, as_of, broadcast=broadcast, indicator=indicator
        )
        return self.beginning(*wanted)

    def latest(
        self, name: str, *, order_by: str | None = None, retention: str | None = None,
        tombstones: Tombstones = "by order", suppress: bool = False,
    ) -> Table:  # fmt: skip
        """Return the table that holds the latest value of each key: an upsert; a null value deletes.

        order_by: an expression, a timestamp or a bigint: an older record then never overwrites a newer one, nor brings
        back a row that was deleted since. A record without an order is late; for a timestamp its own time is used.
        retention: forget deletes older than this; records older than it are late. tombstones="newest": a null value
        deletes whatever came before it, though it has no number to order by. suppress: emit no change that changes
        nothing.
        """
        what = f"table {check_name(name, 'table')!r}"
        fold = LatestBy.declared(self.columns, order_by, retention, tombstones, what)
        return Table(name, self, self.key, fold, (Suppress(),) if suppress else ())

    def group_by(self, *columns: str) -> Grouped:
        """Return the stream grouped by these expressions, for `agg`. A null in any of them leaves the record out."""
        what = f"{self.what}: group_by"
        items = tuple(named(text, self.columns, what) for text in columns)
        if not items:
            raise PlanError(f"{what}: expected at least one expression.")
        check_distinct((item.name for item in items), what)
        check_pseudo([Column(item.name, "") for item in items], what)
        return Grouped(self, items)

    def to_topic(self, topic: str, *, partitions: int | None = None, partition_by: str | None = None) -> Sink:
        """Return a sink that publishes the stream's records, including null values and null keys.

        partition_by: an expression of type int or bigint whose value, modulo the topic's partitions, is the partition;
        without it, the key's hash (Kafka's murmur2).
        """
        by: Expression | None = None
        if partition_by is not None:
            by = expression(partition_by, self.columns, f"{self.what}: partition_by")
            if (kind := expression_type(by, self.columns)) not in (None, "tinyint", "smallint", "int", "bigint"):
                raise PlanError(f"{self.what}: partition_by={partition_by!r} is a {kind}; expected a whole number.")
        return Sink(check_topic(topic), self, "event", check_partitions(partitions, topic), by)

    def to_function(self, name: str, function: Callable[[StreamRecord], Any]) -> FunctionSink:
        """Return a sink that gives each record to a Python function, once (docs/alerts.md). name: of its progress."""
        return FunctionSink.declared(self, name, function)


def walk(end: Stream | Table) -> tuple[Stream | Table, ...]:
    """Return all that a stream or a table is made of, and the item itself last; each comes after what it reads."""
    return (*distinct(node for item in end.inputs for node in walk(item)), end)
