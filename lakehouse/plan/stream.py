"""Streams: the origin of records, and the stateless steps after it.

Every step checks itself against the columns before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from lakehouse.errors import PlanError
from lakehouse.plan.alert import FunctionSink, StreamRecord
from lakehouse.plan.expectation import Expectation, Otherwise
from lakehouse.plan.expression.expression import (
    Expression,
    Json,
    expression_type,
    name_text,
    parse_expression,
    parse_named,
)
from lakehouse.plan.expression.expression import parse_predicate as condition
from lakehouse.plan.expression.fit_values import BITS
from lakehouse.plan.expression.schema import (
    Column,
    check_distinct,
    check_name,
    check_partitions,
    check_pseudo,
    fields_of,
)
from lakehouse.plan.names.join_words import AsOf, How, HowJoined
from lakehouse.plan.names.record_format import parse_format
from lakehouse.plan.one_type import parse_one_type
from lakehouse.plan.operator import LatestBy, LatestSent, Suppress, Tombstones
from lakehouse.plan.origin import Merge, Origin, Source, TableJoin
from lakehouse.plan.refused.arguments import check_flag
from lakehouse.plan.refused.near import suggest_near
from lakehouse.plan.refused.steps import Declaration, value_in_message
from lakehouse.plan.refused.types import check_key_types
from lakehouse.plan.rows import check_reads_of_rows, parse_on, refuse_rows
from lakehouse.plan.step import Explode, Filter, Judge, Map, Rekey, Retime, Select, Shape, Step
from lakehouse.plan.stream_join import DeclaredJoinWindow, StreamJoin
from lakehouse.plan.table import Grouped, Sink, Table, check_sink_topic, written_formats
from lakehouse.plan.written.canonical import without_comments


@dataclass(frozen=True, slots=True, repr=False)
class Stream(Declaration):
    """A stream: its origin and the stateless steps after it. `columns` are the columns that a next step can read."""

    source: Origin
    key: tuple[str, ...]
    columns: tuple[Column, ...]
    steps: tuple[Step, ...] = ()

    @property
    def label(self) -> str:
        return self.source.label

    @property
    def undoes(self) -> bool:
        """True if its records are changes of rows, which are taken out and put in."""
        return self.source.undoes

    @property
    def shape(self) -> Shape:
        return Shape(self.label, self.key, self.columns)

    @property
    def inputs(self) -> tuple[Stream | Table, ...]:
        """The streams and tables that its origin reads; empty for a topic."""
        return self.source.inputs

    @property
    def sources(self) -> tuple[Source, ...]:
        """The topics behind the stream, directly or through tables, each with its schema."""
        streams = streams_behind(self, lambda stream: stream.reads)
        return tuple(dict.fromkeys(source for stream in streams for source in stream.decodes))

    @property
    def decodes(self) -> tuple[Source, ...]:
        """The sources whose records reach the stream directly, not through a table: it sees their bad records."""
        return self.source.decodes

    @property
    def reads(self) -> tuple[Table, ...]:
        """The tables that it reads directly."""
        return self.source.reads

    @property
    def tables(self) -> tuple[Table, ...]:
        """The tables that it reads, directly or through others; each comes after the tables that it reads."""
        return tuple(node for node in walk(self) if isinstance(node, Table))

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(source.topic for source in self.sources))

    @property
    def own_topics(self) -> frozenset[str]:
        """The topics that have a physical bronze table of their own."""
        return frozenset(source.topic for source in self.sources if source.own_table)

    def lines(self) -> list[str]:
        """Return the stream as lines of the plan's text, the result first."""
        return [*map(str, reversed(self.steps)), *self.source.lines()]

    def fingerprint(self, read_columns: set[str], *, keyed: bool) -> Json:
        """Return the fingerprint of the input of `read_columns` (in lower case). keyed: see `Step.fingerprint`."""
        step_parts = []
        for step in reversed(self.steps):
            step_part, read_columns = step.fingerprint(read_columns, keyed=keyed)
            step_parts += [step_part] if step_part is not None else []
        return {**self.source.fingerprint(read_columns, keyed=keyed), "steps": step_parts[::-1]}

    def _then(self, step: Step, shape: Shape) -> Stream:
        return replace(self, key=shape.key, columns=shape.columns, steps=(*self.steps, step))

    def with_origin(self, origin: Origin, shape: Shape) -> Stream:
        """Return a stream that begins with an origin. Raises PlanError for a column with a pseudo column's name."""
        check_pseudo(shape.columns, shape.label)
        return replace(self, source=origin, key=shape.key, columns=shape.columns, steps=())

    def expect(self, name: str, condition: str, *, otherwise: Otherwise = "quarantine") -> Stream:
        """Return the stream with a condition (Spark SQL) that its records must meet: a rule for what is taken in.

        A record for which it is false or null goes to the stream's quarantine, with the rule and what was found, and
        can be fixed and replayed as any bad record. A record with a null value passes. name: of the rule, in reasons.
        otherwise: "fail" also stops the run at such a record, before a table takes its tick in; "warn" only counts it.
        After a join, or a step that does more than leave out columns, it must be one of these two.

        Raises PlanError for another `otherwise` there, a name that is taken, and a database's change log, whose records
        need not send all values.
        """
        subject = f"{self.label}: expect {value_in_message(name)}"
        source = self.source
        if isinstance(source, Source) and source.marked is not None:
            raise PlanError(
                f"{subject}: a record of this change log need not send all values, and a value that was not sent "
                'can\'t be judged. Say unsent="quarantine" where the stream is declared, or use filter.'
            )
        if not isinstance(source, Source) or not self._has_plain_steps:
            return with_judge(self, name, condition, otherwise=otherwise)
        expectation = Expectation.declare(name, condition, otherwise, self.columns, source.expectations, self.label)
        return replace(self, source=replace(source, expectations=(*source.expectations, expectation)))

    def filter(self, predicate: str) -> Stream:
        """Return the records for which `predicate` (Spark SQL) is true.

        Records with a null value are left out, tombstones too (docs/rules.md, rule 2): filter before `latest` only if
        the topic's deletes do not matter.
        """
        step, shape = Filter.declare(self.shape, predicate)
        check_reads_of_rows(self, step.expressions, f"{self.label}: filter")
        return self._then(step, shape)

    def select(self, *columns: str, **renamed: str) -> Stream:
        """Return a stream with these value columns: "city", "upper(city) AS town", or town="upper(city)".

        The key columns are kept, whether they are named here or not.
        """
        return self._then(*Select.declare(self.shape, columns, renamed))

    def with_columns(self, **expressions: str) -> Stream:
        """Return the stream with these columns added or replaced: with_columns(town="upper(city)")."""
        lowered_names = {name.lower() for name in expressions}
        kept_columns = [name_text(name) for name in self.shape.values if name.lower() not in lowered_names]
        return self._select("with_columns", kept_columns, expressions)

    def _select(self, step: str, columns: Iterable[str], expressions: Mapping[str, str] | None = None) -> Stream:
        return self._then(*Select.declare(self.shape, tuple(columns), expressions or {}, step=step))

    def rename(self, **names: str) -> Stream:
        """Return the stream with value columns under new names: rename(city="town") makes city the column town."""
        other_names = {name.lower(): name for name in (*self.key, *self.shape.values) if name not in names}
        for name, new_name in names.items():
            self._value(name, "rename")
            check_name(new_name, f"{self.label}: rename: {name} to")
            if (other_name := other_names.get(new_name.lower())) is not None:
                raise PlanError(
                    f"{self.label}: rename: {name!r} can't become {new_name!r}: there is a column {other_name!r}. "
                    "Choose another name, or drop that column first."
                )
        name_texts = {name: name_text(name) for name in self.shape.values}
        return self._select("rename", [f"{t} AS `{names[n]}`" if n in names else t for n, t in name_texts.items()])

    def cast(self, **types: str) -> Stream:
        """Return the stream with value columns of other types: cast(amount="decimal(10, 2)"); null if a cast fails."""
        for name, type_text in types.items():
            self._value(name, "cast")
            parse_one_type(type_text, f"{self.label}: cast", name)
        kept_columns = [name_text(name) for name in self.shape.values if name not in types]
        return self._select(
            "cast", kept_columns, {n: f"cast({name_text(n)} AS {type_text})" for n, type_text in types.items()}
        )

    def drop(self, *names: str) -> Stream:
        """Return the stream without these value columns."""
        dropped_names = {self._value(name, "drop") for name in names}
        return self._select("drop", [name_text(name) for name in self.shape.values if name not in dropped_names])

    def _value(self, name: object, step: str) -> str:
        if not isinstance(name, str):
            advice = " Several are given one by one, without brackets." if isinstance(name, list | tuple) else ""
            raise PlanError(
                f"{self.label}: {step}: found {value_in_message(name)}, expected the name of a column.{advice}"
            )
        if name not in self.shape.values:
            suggestion = "" if name in self.key else suggest_near(name, self.shape.values)
            raise PlanError(
                f"{self.label}: {step}: {name!r} is not a value column"
                f"{', it is in the key' if name in self.key else ''}.{suggestion} There are: "
                f"{', '.join(self.shape.values)}."
            )
        return name

    def rekey(self, *columns: str) -> Stream:
        """Return the stream keyed by these expressions ("city", "upper(city) AS town").

        Kafka Streams calls it selectKey, ksqlDB PARTITION BY. A key that is null, or fails, leaves the record in the
        stream with a null key (rule 4). Of a record with a null value, what reads more than the key is null.
        """
        step, shape = Rekey.declare(self.shape, columns)
        check_reads_of_rows(self, step.expressions, f"{self.label}: rekey")
        return self._then(step, shape)

    def retime(self, time: str) -> Stream:
        """Return the records at this event time, a timestamp or epoch milliseconds: see `Retime`."""
        return self._then(*Retime.declare(self.shape, time))

    def explode(self, array: str, name: str) -> Stream:
        """Return one record for each element of an array expression, in its order, as the column `name`.

        An empty or null array gives no record, and so does a null value (ksqlDB's EXPLODE).
        """
        return self._then(*Explode.declare(self.shape, array, name))

    def map(self, name: str, function: Callable[..., Any], *arguments: str, type: str) -> Stream:
        """Return the stream with a column from a Python function, for computations that SQL can't express.

        function: receives one pyarrow.Array per argument expression and returns an array of as many values, of `type`;
        it must give the same result for the same input. A record on which it fails gets a null.
        """
        return self._then(*Map.declare(self.shape, name, function, arguments, type))

    def branch(self, *predicates: str) -> tuple[Stream, ...]:
        """Return a stream for each predicate, and one for the rest; a record goes to the first predicate that is true.

        Records with a null value go to none of them, as with `filter`.
        """
        if not predicates:
            raise PlanError(f"{self.label}: branch: expected at least one predicate.")
        remaining_predicate, branch_streams = "true", []
        for predicate in predicates:
            predicate_text = without_comments(condition(predicate, self.columns, f"{self.label}: branch").text)
            branch_streams.append(f"{remaining_predicate} AND coalesce(({predicate_text}), false)")
            remaining_predicate = f"{remaining_predicate} AND NOT coalesce(({predicate_text}), false)"
        return tuple(
            self._then(Filter(Expression(checked)), self.shape) for checked in (*branch_streams, remaining_predicate)
        )

    def merge(self, *others: Stream) -> Stream:
        """Return this stream and others with the same columns as one (Kafka Streams' merge; SQL's UNION ALL)."""
        for stream in (self, *others):
            if not isinstance(stream, Stream):
                raise PlanError(f"{self.label}: merge: found {value_in_message(stream)}, expected streams.")
            refuse_rows(stream, "merge")
        return self.with_origin(Merge.declare((self, *others)), replace(self.shape, label=f"{self.label}: merge"))

    def join(
        self,
        other: Table | Stream,
        on: str | tuple[str, ...] | list[str] | None = None,
        *,
        how: HowJoined = "inner",
        prefix: str = "",
        as_of: AsOf = "arrival",
        broadcast: bool = False,
        indicator: str = "",
        within: str | None = None,
        before: str | None = None,
        after: str | None = None,
        grace: str | None = None,
    ) -> Stream:
        """Return each record with the columns of the row that a table has for it, or of another stream's records.

        on: expressions of this stream, one for each column of the other's key; default: its own key. prefix: precedes
        the names of the other's columns. Records with a null value take no part.

        A table: how is "inner", which leaves out a record without a row, or "left", which keeps it, with nulls. The
        row is that at the record's arrival, or as_of its "event time". A change of the table gives no record.
        broadcast: the table is small, and goes to every task whole; what comes out is the same. indicator: a column
        that says whether there was a row: "both", or "left" for the record alone.

        A stream: within (before and after: how much earlier or later than this stream's record the other's may be) is
        needed. The records have the join's key: with `on`, this stream is re-keyed first. how: "left", "right" and
        "outer" keep records that meet no other, with nulls: at once without a grace, otherwise when their window has
        closed. The window waits for late records as long as the grace. Default grace: 24 hours less before and after.

        Raises PlanError for columns that exist on both sides, keys of other types, or no window.
        """
        refuse_rows(self, "join")
        key_texts = parse_on(on, f"{self.label}: join")
        check_flag(broadcast, f"{self.label}: join: broadcast")
        spans = DeclaredJoinWindow(within, before, after, grace)
        if isinstance(other, Stream):
            refuse_rows(other, "join")
            if as_of != "arrival" or broadcast or indicator:
                raise PlanError(
                    f"{self.label}: join: as_of, broadcast and indicator are for tables; found "
                    f"{value_in_message(other)}."
                )
            left_stream = self if key_texts is None else self.rekey(*key_texts)
            return self.with_origin(*StreamJoin.declare(left_stream, other, how, spans, prefix))
        if not isinstance(other, Table):
            raise PlanError(
                f"{self.label}: join: found {value_in_message(other)}, expected a table, such as planes = "
                "stream.latest('planes'), or another stream."
            )
        if any(spans):
            raise PlanError(
                f"{self.label}: join with table {other.name!r}: within, before, after and grace are for joins of two "
                'streams. A table is looked up at the record\'s arrival, or as_of="event time".'
            )
        table_join = TableJoin.declare(
            self, other, key_texts, cast(How, how), prefix, as_of, broadcast=broadcast, indicator=indicator
        )
        return self.with_origin(*table_join)

    def latest(
        self,
        name: str,
        *,
        order_by: str | None = None,
        retention: str | None = None,
        tombstones: Tombstones = "by order",
        suppress: bool = False,
    ) -> Table:
        """Return the table that holds the latest value of each key: an upsert; a null value deletes.

        order_by: an expression, a timestamp or a bigint: an older record then never overwrites a newer one, nor brings
        back a row that was deleted since. A record without an order is late; for a timestamp its own time is used.
        retention: forget deletes older than this; records older than it are late. tombstones="newest": a null value
        deletes whatever came before it, though it has no number to order by. suppress: emit no change that changes
        nothing.
        """
        subject = f"table {check_name(name, 'table')!r}"
        check_flag(suppress, f"{subject}: suppress")
        if order_by is not None:
            refuse_rows(self, "latest: order_by")
        stream, fold = self, LatestBy.declare(self.columns, order_by, retention, tombstones, subject)
        if order_by is None and (marked := self._latest_sent()) is not None:
            stream, fold = marked
        return Table(name, stream, self.key, fold, (Suppress(),) if suppress else ())

    @property
    def _has_plain_steps(self) -> bool:
        """Whether its steps do nothing but leave out columns."""
        return all(isinstance(step, Select) and step.is_plain for step in self.steps)

    def _latest_sent(self) -> tuple[Stream, LatestSent] | None:
        """Return a change log's stream that marks what was not sent (TOAST), and the fold that heeds the marks.

        None if it is no such log, or has steps that do more than leave out columns: they would compute with a value
        that is not there.
        """
        selects = [step for step in self.steps if isinstance(step, Select)]
        if not self._has_plain_steps or not isinstance(self.source, Source) or not (source := self.source.marked):
            return None
        unsent_column = source.value[-1]
        unsent = parse_named(unsent_column.name, (unsent_column,), self.label)
        marked_steps = tuple(replace(select, columns=(*select.columns, unsent)) for select in selects)
        marked_stream = replace(self, source=source, columns=(*self.columns, unsent_column), steps=marked_steps)
        is_named = parse_format(source.value_format).is_named
        fields_by_name = {
            column.name.lower(): (fields_of((column.in_topic,))[0] if is_named else column.in_topic).name
            for column in source.value
        }
        fields = tuple((name, fields_by_name[name.lower()]) for name in self.shape.values)
        return marked_stream, LatestSent(unsent_column.name, fields)

    def group_by(self, *columns: str) -> Grouped:
        """Return the stream grouped by these expressions, for `agg`. A null in any of them leaves the record out."""
        subject = f"{self.label}: group_by"
        group_columns = tuple(parse_named(sql_text, self.columns, subject) for sql_text in columns)
        if not group_columns:
            raise PlanError(f"{subject}: expected at least one expression.")
        check_distinct((group_column.name for group_column in group_columns), subject)
        check_pseudo([Column(group_column.name, "") for group_column in group_columns], subject)
        types_by_name = {item.name: expression_type(item.expression, self.columns) for item in group_columns}
        check_key_types(types_by_name.items(), subject)
        check_reads_of_rows(self, (group_column.expression for group_column in group_columns), subject)
        return Grouped(self, group_columns)

    def to_topic(
        self,
        topic: str,
        *,
        partitions: int | None = None,
        partition_by: str | None = None,
        format: str = "json",
        key_format: str | None = None,
    ) -> Sink:
        """Return a sink that publishes the stream's records, including null values and null keys.

        partition_by: an expression of type int or bigint whose value, modulo the topic's partitions, is the partition;
        without it, the key's hash (Kafka's murmur2). format: of the values, "json", "delimited", "kafka",
        "avro", "protobuf" or "json_sr"; key_format: of the keys, a single primitive in Kafka's own type and others in
        JSON if left out.

        Raises PlanError for an impossible name, format or expression, or columns that a format can't hold.
        """
        refuse_rows(self, "to_topic")
        formats = written_formats(format, key_format, self, f"{self.label}: to_topic")
        partition_expression: Expression | None = None
        if partition_by is not None:
            partition_expression = parse_expression(partition_by, self.columns, f"{self.label}: partition_by")
            if (type_text := expression_type(partition_expression, self.columns)) not in (None, *BITS):
                raise PlanError(
                    f"{self.label}: partition_by={partition_by!r} is a {type_text}; expected a whole number."
                )
        number = check_partitions(partitions, topic)
        return Sink(check_sink_topic(topic), self, "event", number, partition_expression, *formats)

    def to_function(self, name: str, function: Callable[[StreamRecord], Any]) -> FunctionSink:
        """Return a sink that gives each record to a Python function, once (docs/alerts.md). name: of its progress."""
        refuse_rows(self, "to_function")
        return FunctionSink.declare(self, name, function)


def streams_behind(last_stream: Stream, inputs_of: Callable[[Stream], Iterable[Stream | Table]]) -> Iterator[Stream]:
    """Yield a stream, and the streams behind it and behind its tables, each once and before its inputs.

    inputs_of: which of a stream's inputs to follow.
    """
    seen_ids: set[int] = set()
    waiting = [last_stream]
    while waiting:
        stream = waiting.pop()
        if id(stream) not in seen_ids:
            seen_ids.add(id(stream))
            yield stream
            inputs = reversed([*inputs_of(stream)])
            waiting.extend(item.stream if isinstance(item, Table) else item for item in inputs)


def walk(last_node: Stream | Table) -> tuple[Stream | Table, ...]:
    """Return all streams and tables behind a stream or table, and itself last; each comes after those it reads."""
    nodes: list[Stream | Table] = []
    finished_ids: set[int] = set()
    waiting = [last_node]  # a loop, since a chain of tables may be longer than Python calls functions in each other
    while waiting:
        unfinished_inputs = [item for item in waiting[-1].inputs if id(item) not in finished_ids]
        if unfinished_inputs and id(waiting[-1]) not in finished_ids:
            waiting.extend(reversed(unfinished_inputs))
            continue
        node = waiting.pop()
        if id(node) not in finished_ids:
            finished_ids.add(id(node))
            nodes.append(node)
    return _without_equal(nodes)


def _without_equal(nodes: Iterable[Stream | Table]) -> tuple[Stream | Table, ...]:
    """Return every node once, also if it was declared twice. Only nodes of one name are compared."""
    nodes_by_name: dict[tuple[type, str], list[Stream | Table]] = {}
    unique_nodes: list[Stream | Table] = []
    for node in nodes:
        name = node.name if isinstance(node, Table) else node.source.name
        namesakes = nodes_by_name.setdefault((type(node), name), [])
        if node not in namesakes:
            namesakes.append(node)
            unique_nodes.append(node)
    return tuple(unique_nodes)


def streams_within(stream: Stream) -> Iterator[Stream]:
    """Yield a stream, and the streams that it is made of; not those of the tables that it reads."""
    return streams_behind(stream, lambda item: (part for part in item.inputs if isinstance(part, Stream)))


def judges_of(stream: Stream) -> list[Judge]:
    """Return the steps of a stream, and of the streams that it is made of, that judge records; not those of tables."""
    return [step for part in streams_within(stream) for step in part.steps if isinstance(step, Judge)]


def with_judge(stream: Stream, name: str, condition: str, *, otherwise: Otherwise) -> Stream:
    """Return a stream with an expectation that judges its records after its steps. Raises as `Stream.expect` does."""
    if otherwise == "quarantine":
        raise PlanError(
            f'{stream.label}: expect {value_in_message(name)}: otherwise="quarantine" judges the records of a topic as '
            'they came. Put it first: stream(...).expect(...). Here expected otherwise="warn" or "fail", or filter.'
        )
    earlier_expectations = [item for source in stream.decodes for item in source.expectations]
    earlier_expectations += [judge.expectation for judge in judges_of(stream)]
    expectation = Expectation.declare(name, condition, otherwise, stream.columns, earlier_expectations, stream.label)
    first_names = [source.name for source in stream.decodes] or [table.name for table in stream.reads]
    return stream._then(Judge(expectation, first_names[0]), stream.shape)
