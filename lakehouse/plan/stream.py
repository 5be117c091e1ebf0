"""Streams: where records come from, and stateless steps. Every step checks itself against the columns before it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from lakehouse.errors import PlanError
from lakehouse.plan.expression import Expression, Named, expression, expression_type, name_text, named
from lakehouse.plan.expression import predicate as condition
from lakehouse.plan.join import check_mergeable, table_join
from lakehouse.plan.schema import (
    Column,
    base_type,
    check_distinct,
    check_name,
    check_pseudo,
    check_topic,
    element_type,
    parse_schema,
)
from lakehouse.plan.step import Explode, Filter, Map, Merge, Origin, Rekey, Select, Source, Step
from lakehouse.plan.table import Grouped, Sink, Table, check_partitions, latest_table

# Each explode and merge takes 20 bits of a record's ordinal, which has 63.
ORDINAL_LEVELS_MAX = 3


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream: its origin and the stateless steps after it. `columns` are the columns that a next step can read."""

    source: Origin
    key: tuple[str, ...]
    columns: tuple[Column, ...]
    steps: tuple[Step, ...] = ()

    @property
    def what(self) -> str:
        return f"stream {self.source.name!r}"

    @property
    def sources(self) -> tuple[Source, ...]:
        """The topics that the stream comes from, also through tables, each with its schema."""
        through = (source for table in self.reads for source in table.stream.sources)
        return tuple(dict.fromkeys((*self.decodes, *through)))

    @property
    def decodes(self) -> tuple[Source, ...]:
        """Those of its sources whose records reach it as they are, not through a table: it knows their bad ones."""
        return self.source.decodes

    @property
    def reads(self) -> tuple[Table, ...]:
        """The tables that it reads itself."""
        return self.source.reads

    @property
    def tables(self) -> tuple[Table, ...]:
        """The tables that it reads, also through others; each stands behind those that it reads itself."""
        return tuple(dict.fromkeys(table for read in self.reads for table in (*read.stream.tables, read)))

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(source.topic for source in self.sources))

    @property
    def levels(self) -> int:
        """How many steps make several records of one: so deep are the ordinals of its records."""
        return self.source.levels + sum(isinstance(step, Explode) for step in self.steps)

    def filter(self, predicate: str) -> Stream:
        """Return the records for which `predicate` (Spark SQL) is true.

        Records with a null value are left out, tombstones too (SEMANTICS.md, rule 2): filter before `latest` only a
        topic whose deletes do not matter.
        """
        step = Filter(condition(predicate, self.columns, f"{self.what}: filter"))
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
            if item.name.lower() in keys and not item.is_plain:
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

    def with_columns(self, **made: str) -> Stream:
        """Return the stream with these columns made or replaced: with_columns(town="upper(city)")."""
        lowered = {name.lower() for name in made}
        kept = [name_text(name) for name in self._values() if name.lower() not in lowered]
        return self.select(*kept, **made)

    def rename(self, **names: str) -> Stream:
        """Return the stream with value columns under new names: rename(city="town") makes city the column town."""
        for name in names:
            self._value(name, "rename")
        shown = {name: name_text(name) for name in self._values()}
        return self.select(*[f"{text} AS `{names[n]}`" if n in names else text for n, text in shown.items()])

    def cast(self, **types: str) -> Stream:
        """Return the stream with value columns of other types: cast(amount="decimal(10, 2)"); what fails is null."""
        for name, kind in types.items():
            self._value(name, "cast")
            parse_schema(f"`{name}` {kind}", f"{self.what}: cast")
        return self.with_columns(**{name: f"cast({name_text(name)} AS {kind})" for name, kind in types.items()})

    def drop(self, *names: str) -> Stream:
        """Return the stream without these value columns."""
        gone = {self._value(name, "drop") for name in names}
        return self.select(*[name_text(name) for name in self._values() if name not in gone])

    def _values(self) -> list[str]:
        return [column.name for column in self.columns if column.name not in self.key]

    def _value(self, name: str, what: str) -> str:
        if name not in self._values():
            raise PlanError(
                f"{self.what}: {what}: {name!r} is no value column. There are: {', '.join(self._values())}."
            )
        return name

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
            if known and not item.is_plain:
                raise PlanError(
                    f"{what}: a column {item.name!r} exists already. Give {item.expression.text!r} another name."
                )
        rest = [column for column in self.columns if column.name.lower() not in names]
        if not rest:
            raise PlanError(f"{what}: no value column would be left beside the key.")
        return replace(
            self, key=tuple(item.name for item in items), columns=(*made, *rest), steps=(*self.steps, Rekey(items))
        )

    def explode(self, array: str, name: str) -> Stream:
        """Return one record for each element of an array expression, in its order, as the column `name`.

        An empty or null array gives no record, and so does a null value (ksqlDB's EXPLODE).
        """
        what = f"{self.what}: explode"
        item = Named(check_name(name, what), expression(array, self.columns, what))
        kind = expression_type(item.expression, self.columns)
        if kind is not None and base_type(kind) != "array":
            raise PlanError(f"{what}: {array!r} is a {kind}; expected an array.")
        made = Column(name, element_type(kind) if kind else "")
        check_pseudo([made], what)
        check_distinct((column.name for column in (*self.columns, made)), what)
        return numbered(replace(self, columns=(*self.columns, made), steps=(*self.steps, Explode(item))), what)

    def map(self, name: str, function: Callable[..., Any], *arguments: str, type: str) -> Stream:
        """Return the stream with a column made by a Python function, for what SQL can't say.

        function: is given one pyarrow.Array an argument expression and returns an array of as many values, of `type`;
        it must give the same again for the same input. A record on which it fails gets a null.
        """
        what = f"{self.what}: map"
        if not callable(function) or not arguments:
            raise PlanError(
                f'{what}: expected a function and its arguments: map("km", distance, "lat", "lon", type=…).'
            )
        (column,) = parse_schema(f"`{name}` {type}", what)
        if name.lower() in {key.lower() for key in self.key}:
            raise PlanError(f"{what}: {name!r} is the key; choose another name.")
        read = tuple(expression(text, self.columns, what) for text in arguments)
        rest = [item for item in self.columns if item.name.lower() != name.lower()]
        return replace(
            self, columns=(*rest, column), steps=(*self.steps, Map(column.name, column.type, read, function))
        )

    def branch(self, *predicates: str) -> tuple[Stream, ...]:
        """Return one stream for each predicate and a last one for the rest; a record goes to the first that is true.

        Records with a null value go to none of them, as with `filter`.
        """
        if not predicates:
            raise PlanError(f"{self.what}: branch: expected at least one predicate.")
        rest, streams = "true", []
        for predicate in predicates:
            condition(predicate, self.columns, f"{self.what}: branch")
            streams.append(self._where(f"{rest} AND coalesce(({predicate}), false)"))
            rest = f"{rest} AND NOT coalesce(({predicate}), false)"
        return (*streams, self._where(rest))

    def _where(self, checked: str) -> Stream:
        return replace(self, steps=(*self.steps, Filter(Expression(checked))))

    def merge(self, *others: Stream) -> Stream:
        """Return this stream and others with the same columns as one (Kafka Streams' merge; SQL's UNION ALL)."""
        streams = (self, *others)
        for other in others:
            if not isinstance(other, Stream):
                raise PlanError(f"{self.what}: merge({other!r}): expected streams.")
            check_mergeable(self, other)
        return numbered(Stream(Merge(streams), self.key, self.columns), f"{self.what}: merge")

    def join(
        self,
        table: Table,
        on: str | tuple[str, ...] | list[str] | None = None,
        *,
        how: Literal["inner", "left"] = "inner",
        prefix: str = "",
    ) -> Stream:
        """Return each record with the columns of the row that a table has for it when the record arrives.

        on: expressions of this stream, one for each column of the table's key; its own key if left out. how: "inner"
        leaves a record without a row out, "left" keeps it, with nulls. prefix: stands before the names of the table's
        columns. Records with a null value are left out; a change of the table gives nothing. The lookup is by arrival,
        not by event time.

        Raises PlanError for columns that exist on both sides, or a key of another type.
        """
        source, columns = table_join(self, table, (on,) if isinstance(on, str) else on, how, prefix)
        return Stream(source, self.key, columns)

    def latest(
        self,
        name: str,
        *,
        order_by: str | None = None,
        retention: str | None = None,
        suppress: bool = False,
    ) -> Table:
        """Return the table that holds the latest value of each key: an upsert; a null value deletes.

        order_by: an expression, a timestamp or a bigint: an older record then never overwrites a newer one, and a
        delete leaves a hidden marker, so that a record older than the delete does not bring the row back. A record
        whose order is null is kept apart as late; for a timestamp the record's own time stands in. retention: forget
        markers older than this; records older than it are late. suppress: a change that changes nothing is not emitted.
        """
        order = expression(order_by, self.columns, f"table {name!r}: order_by") if order_by is not None else None
        kind = expression_type(order, self.columns) if order else None
        return latest_table(self, name, order, kind, retention, suppress)

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
        """Return a sink that publishes the stream's records, with null values and null keys as they are.

        partition_by: an expression of type int or bigint whose value, modulo the topic's partitions, is the partition;
        without it, the key's hash (Kafka's murmur2).
        """
        by: Expression | None = None
        if partition_by is not None:
            by = expression(partition_by, self.columns, f"{self.what}: partition_by")
            kind = expression_type(by, self.columns)
            if kind not in (None, "tinyint", "smallint", "int", "bigint"):
                raise PlanError(f"{self.what}: partition_by={partition_by!r} is a {kind}; expected a whole number.")
        return Sink(check_topic(topic), self, "event", check_partitions(partitions, topic), by)


def numbered(made: Stream, what: str) -> Stream:
    """Return a stream whose records can be numbered. Raises PlanError where too many steps make several of one."""
    if made.levels > ORDINAL_LEVELS_MAX:
        raise PlanError(
            f"{what}: {made.levels} explodes, merges and tables stand behind each other; at most "
            f"{ORDINAL_LEVELS_MAX} can be numbered. Merge or explode in one step, or publish in between."
        )
    return made
