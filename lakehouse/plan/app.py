"""Applications: the tables to keep and the topics to publish, as one value. Nothing runs here.

    stream  --filter, select, rekey, explode, map, branch, merge-->  stream
    stream  --latest, or group_by + window + agg-->  table
    table   --changes-->  changelog  --to_topic-->  topic; or --to_stream-->  stream
    stream, table   --join-->  stream
    table   --alert-->  stream
    stream  --to_topic-->  topic; or --to_function-->  a Python function

Every step checks itself against the columns before it: the line that declares an impossible plan raises an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from lakehouse.errors import PlanError
from lakehouse.plan.alert import Crossings, FunctionSink
from lakehouse.plan.expression.schema import check_distinct, parse_type
from lakehouse.plan.names.beside_topic import covers_topic, state_topic
from lakehouse.plan.names.field import check_inside
from lakehouse.plan.names.record_format import parse_format
from lakehouse.plan.operator import WINDOW_COLUMNS
from lakehouse.plan.origin import ChangesOf, Source
from lakehouse.plan.refused.near import suggest_near
from lakehouse.plan.refused.steps import Declaration, needed_step, value_in_message
from lakehouse.plan.rows import RowsOf
from lakehouse.plan.step import Rekey
from lakehouse.plan.stream import Stream, judges_of, walk
from lakehouse.plan.table import Sink, Table
from lakehouse.semantics.time.window import Window


@dataclass(frozen=True, slots=True)
class SqlTypes:
    """The types of columns by their names, of each table and of each topic that is written."""

    of_tables: Mapping[str, Mapping[str, str]]
    of_topics: Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True, repr=False)
class App(Declaration):
    """An application: the tables to keep, and the topics to publish.

    notes: warnings from its source, such as SQL, about things that the plan does not show. upstream: the tables of
    other applications that it reads, and never writes, each after the tables that it reads. sql_types: of an
    application in SQL, whose names come from those of fields (`names.field`): the types of its columns in Spark, by
    table and by topic. SQL knows them all, and a plan only those that need no Spark.
    """

    tables: tuple[Table, ...]
    sinks: tuple[Sink, ...] = ()
    sources: tuple[Source, ...] = field(default=())
    functions: tuple[FunctionSink, ...] = ()
    notes: tuple[str, ...] = ()
    upstream: tuple[Table, ...] = ()
    sql_types: SqlTypes | None = field(default=None, compare=False)

    def source(self, name: str) -> Source:
        """Return the source of a stream by the stream's name. Raises PlanError if there is none."""
        sources_by_name = {source.name: source for source in self.sources}
        if name in sources_by_name:
            return sources_by_name[name]
        raise PlanError(
            f"stream {name!r} is not in this application.{suggest_near(name, sources_by_name)} There are: "
            f"{', '.join(sources_by_name)}."
        )

    def table(self, name: str) -> Table:
        """Return a table by name, in any case if the name is unique. Raises PlanError if there is none."""
        same_names = [table for table in self.tables if table.name.lower() == name.lower()]
        if matches := [table for table in same_names if table.name == name] or (
            same_names if len(same_names) == 1 else []
        ):
            return matches[0]
        table_names = [table.name for table in self.tables]
        if any(table.name.lower() == name.lower() for table in self.upstream):
            raise PlanError(f"table {name!r} is only read here: another application keeps it. Name that application.")
        raise PlanError(
            f"table {name!r} is not in this application.{suggest_near(name, table_names)} There are: "
            f"{', '.join(table_names)}."
        )

    def tables_below(self, table: Table) -> tuple[Table, ...]:
        """Return the tables that read a table, directly or through others, each after the tables that it reads."""
        return tuple(item for item in self.tables if table in item.stream.tables)

    @property
    def with_upstream(self) -> App:
        """The application as if it kept the tables of other applications as well: what all of them give together."""
        return replace(self, tables=(*self.upstream, *self.tables), upstream=())

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences about things that are allowed but rarely meant; `plan` and the start of a run print them."""
        operator_texts = (
            f"table {table.name!r}: {text}"
            for table in self.tables
            for operator in table.operators
            for text in operator.warnings()
        )
        return (*self.notes, *operator_texts, *self._unjudged())

    def _unjudged(self) -> list[str]:
        """Return a sentence for each expectation of a stream that is published or calls a function, without a table."""
        published = [*(sink.source for sink in self.sinks), *(function.source for function in self.functions)]
        published_streams = [node for node in published if isinstance(node, Stream)]
        published_judges = [judge for stream in published_streams for judge in judges_of(stream)]
        counted_judges = [judge for table in self.tables for judge in judges_of(table.stream)]
        return [
            f"stream {judge.stream!r}: expect {judge.expectation.name!r} judges nothing: no table reads the stream."
            for judge in dict.fromkeys(published_judges)
            if judge not in counted_judges
        ]

    @property
    def declarations(self) -> tuple[Table | Sink | FunctionSink, ...]:
        """Everything that the application keeps, publishes or calls."""
        return (*self.tables, *self.sinks, *self.functions)

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(source.topic for source in self.sources))

    @property
    def snapshot_sources(self) -> tuple[Source, ...]:
        """The topics that a run writes from files: each once."""
        return tuple({source.topic: source for source in self.sources if source.snapshots is not None}.values())

    @property
    def own_topics(self) -> frozenset[str]:
        """The topics that have a physical bronze table of their own."""
        return frozenset(source.topic for source in self.sources if source.own_table)

    @property
    def registered_parts(self) -> tuple[tuple[str, str], ...]:
        """The topics, each with "key" or "value", that nobody can read without the schemas of their writers."""
        parts = ((source.topic, part_name) for source in self.sources for part_name in source.registered_parts)
        return tuple(dict.fromkeys(parts))

    @property
    def pinned_parts(self) -> tuple[tuple[str, str], ...]:
        """Those of `registered_parts` whose schemas have columns, so that they may be pinned beside the application."""
        formats = {(s.topic, part): s.format_and_columns(part)[0] for s in self.sources for part in s.registered_parts}
        return tuple(part for part in self.registered_parts if not parse_format(formats[part]).traits.is_json)


def app(*parts: Table | Sink | FunctionSink, upstream: Iterable[Table] = ()) -> App:
    """Return an application of these tables and sinks. It also keeps the tables of sinks, and all tables that are read.

    upstream: tables, as their own applications declare them, that another process keeps in the same lake; this
    application reads them, and all that they read, and does not keep them. Each table comes after the tables that it
    reads.

    Raises PlanError for two different tables of the same name, two sinks of the same topic, two functions or alerts of
    the same name, two streams of the same name, a topic that is both read and written, or is
    written from two declarations of snapshots, or a table in `upstream` that nothing
    reads, or that this application would have to write.
    """
    if isinstance(upstream, Table) or not isinstance(upstream, Iterable):
        raise PlanError(f"app(): upstream: found {value_in_message(upstream)}, expected a list: upstream=[...].")
    upstream_tables = _flatten_upstream(parts, tuple(upstream))
    tables: dict[str, Table] = {}
    sinks: dict[str, Sink] = {}
    functions: dict[str, FunctionSink] = {}
    streams: list[Stream] = []
    for part in parts:
        if isinstance(part, Sink):
            if part.topic in sinks and sinks[part.topic] != part:
                raise PlanError(f"topic {part.topic!r} is written by two sinks. Give one of them another topic.")
            sinks[part.topic] = part
        elif isinstance(part, FunctionSink):
            if functions.setdefault(part.name, part) != part:
                raise PlanError(f"function {part.name!r} is declared twice, differently. Give one another name.")
        elif not isinstance(part, Table):
            raise PlanError(f"app(): found {value_in_message(part)}, expected tables and sinks. {needed_step(part)}")
        stream = input_stream(part)
        for table in kept_tables(part):
            if upstream_tables.get(table.name) == table:
                continue
            if (first_table := tables.setdefault(table.name, table)) == table:
                continue
            if replace(table, expectations=()) == replace(first_table, expectations=()):
                raise PlanError(
                    f"table {table.name!r} is given with its expectations, and without some of them. expect(...) "
                    f"returns a new table: use that one everywhere, {table.name} = {table.name}.expect(...)."
                )
            raise PlanError(f"table {table.name!r} is declared twice, differently. Rename one.")
        streams.append(stream)
    if not tables and not sinks and not functions:
        raise PlanError("app(): expected at least one table or sink.")
    if both_names := sorted(tables.keys() & upstream_tables.keys()):
        raise PlanError(f"table {both_names[0]!r} is declared twice, differently: here, and in upstream=. Rename one.")
    check_distinct([*tables, *upstream_tables], "tables")
    for table in tables.values():
        for column in table.columns:
            if "struct" in column.type.lower():
                check_inside(parse_type(column.type), f"table {table.name!r}: column {column.name!r}")
    check_distinct(functions, "functions")
    _check_alerts(streams)
    sources = _sources_of(streams)
    _check_snapshots(sources.values())
    _check_written_topics(sinks, sources.values())
    return App(
        tuple(tables.values()),
        tuple(sinks.values()),
        tuple(sources.values()),
        tuple(functions.values()),
        upstream=tuple(upstream_tables.values()),
    )


def _sources_of(streams: Iterable[Stream]) -> dict[str, Source]:
    """Return the sources of streams by name. Raises PlanError for two different ones of the same name."""
    sources: dict[str, Source] = {}
    for source in (source for stream in streams for source in stream.sources):
        if (first_source := sources.setdefault(source.name, source)) == source:
            continue
        if source.unmarked == first_source.unmarked:
            raise PlanError(
                f"stream {source.name!r} is read by latest, which keeps a value that was not sent (TOAST), and by "
                "something else, which needs all of them. Read the second one from the table (table.to_stream()), "
                'declare it under a name of its own (lh.debezium(..., name=...)), or say unsent="quarantine": a '
                "record without a value is then bad for both."
            )
        if replace(source, expectations=()) == replace(first_source, expectations=()):
            raise PlanError(
                f"stream {source.name!r} is read with two sets of expectations, and a record is bad for all that "
                "read it or for none. Let all read one of the two, or declare a second stream over the topic: "
                "stream(..., name=...)."
            )
        raise PlanError(f"stream {source.name!r} is declared twice, differently. Rename one: stream(..., name=...).")
    check_distinct(sources, "streams")
    return sources


def _check_written_topics(sinks: Mapping[str, Sink], sources: Iterable[Source]) -> None:
    """Raise PlanError for a topic that is written twice, or read and written; those beside a sink's topic count."""
    for sink in sinks.values():
        if has_state_topic(sink) and (state_name := state_topic(sink.topic)) in sinks:
            raise PlanError(
                f"topic {state_name!r} is written by two sinks: it also gets what the table of {sink.topic!r} keeps "
                "and its changelog leaves out. Give one of them another topic."
            )
        if (cover_name := covers_topic(sink.topic)) in sinks:
            raise PlanError(
                f"topic {cover_name!r} is written by two sinks: it also says how far the records of {sink.topic!r} go. "
                "Give one of them another topic."
            )
    state_topics = [state_topic(sink.topic) for sink in sinks.values() if has_state_topic(sink)]
    read_topics = {source.topic for source in sources}
    for topic in (*sinks, *state_topics, *map(covers_topic, sinks)):
        if topic in read_topics:
            raise PlanError(f"topic {topic!r} is read and written by this application. Write to another topic.")


def _check_alerts(streams: Iterable[Stream]) -> None:
    """Raise PlanError for two alerts of one name: their records would have the same identities."""
    alerts: dict[str, Crossings] = {}
    for node in (node for stream in streams for node in walk(stream)):
        origin = node.source if isinstance(node, Stream) else None
        if isinstance(origin, Crossings) and alerts.setdefault(origin.alert, origin) != origin:
            raise PlanError(
                f"alert {origin.alert!r} is declared twice, differently, so two records would have one alert_id. Give "
                "one another name."
            )


def _check_snapshots(sources: Iterable[Source]) -> None:
    """Raise PlanError for a topic that would be written from two declarations of snapshots."""
    writers: dict[str, Source] = {}
    for source in sources:
        if source.snapshots is not None:
            first_source = writers.setdefault(source.topic, source)
            written_alike = replace(first_source, name=source.name, event_time=source.event_time, expectations=())
            if written_alike != replace(source, expectations=()):
                raise PlanError(
                    f"topic {source.topic!r} is written from two declarations of snapshots, of streams "
                    f"{first_source.name!r} and {source.name!r}. Declare one, and read its topic with "
                    f"stream({source.topic!r}, ...)."
                )


def _flatten_upstream(parts: tuple[Table | Sink | FunctionSink, ...], upstream: tuple[Table, ...]) -> dict[str, Table]:
    """Return the tables of other applications by name, with those that they read. Raises PlanError, see `app`."""
    tables: dict[str, Table] = {}
    for table in upstream:
        if not isinstance(table, Table):
            raise PlanError(f"app(): upstream: found {value_in_message(table)}, expected tables. {needed_step(table)}")
        for read_table in kept_tables(table):
            if tables.setdefault(read_table.name, read_table) != read_table:
                raise PlanError(f"table {read_table.name!r} is declared twice, differently, in upstream=. Rename one.")
    declarations = [part for part in parts if isinstance(part, Table | Sink | FunctionSink)]
    for part in declarations:
        written_table = part if isinstance(part, Table) else part.source
        if isinstance(written_table, Table) and tables.get(written_table.name) == written_table:
            task = f"publishes its changes to {part.topic!r}" if isinstance(part, Sink) else "keeps it"
            raise PlanError(
                f"table {written_table.name!r} stands in upstream=, as another application keeps it, and this one "
                f"{task}, too. Do that in one of them."
            )
    read_names = {table.name for part in declarations for table in input_stream(part).tables}
    for table in upstream:
        if table.name not in read_names:
            raise PlanError(
                f"table {table.name!r} stands in upstream=, and nothing here reads it. Remove it from there."
            )
    return tables


def input_stream(declaration: Table | Sink | FunctionSink) -> Stream:
    """Return the stream that a table is made of; of what is published, the stream itself or that of its table."""
    node = declaration if isinstance(declaration, Table) else declaration.source
    return node.stream if isinstance(node, Table) else node


def kept_tables(declaration: Table | Sink | FunctionSink) -> tuple[Table, ...]:
    """Return the tables that a declaration reads, and its own if it has one, each after those that it reads."""
    node = declaration if isinstance(declaration, Table) else declaration.source
    return (*input_stream(declaration).tables, *([node] if isinstance(node, Table) else []))


def table_depth(table: Table) -> int:
    """Return the length of the longest chain of tables before a table: 0 for a table that reads only topics."""
    depths: dict[str, int] = {}
    for node in walk(table):
        if isinstance(node, Table):
            depths[node.name] = max((1 + depths[read_table.name] for read_table in node.stream.reads), default=0)
    return depths[table.name]


def named_window(table: Table) -> Window | None:
    """Return the window in a table's key: its own, or that of its input rows; None without one."""
    origin = table.stream.source
    if table.fold.window is None and not isinstance(origin, RowsOf):
        return read_window(table.stream) if _names_window(table.key) else None
    if not isinstance(origin, RowsOf) or table.fold.window is not None:
        return table.fold.window
    rekeyed_columns = (step.columns[-len(WINDOW_COLUMNS) :] for step in table.stream.steps if isinstance(step, Rekey))
    keeps_window = all(
        tuple(window_column.expression.text for window_column in columns) == WINDOW_COLUMNS
        for columns in rekeyed_columns
    )
    return named_window(origin.table) if keeps_window and _names_window(table.key) else None


def read_window(stream: Stream) -> Window | None:
    """Return the window that the keys of a topic name, if the stream still has it in its key."""
    if isinstance(stream.source, ChangesOf):
        return named_window(stream.source.table) if _names_window(stream.key) else None
    sources = stream.decodes
    return parse_format(sources[0].key_format).window if sources and _names_window(stream.key) else None


def _names_window(key: tuple[str, ...]) -> bool:
    return key[-len(WINDOW_COLUMNS) :] == WINDOW_COLUMNS


def has_incomplete_changelog(table: Table) -> bool:
    """Say whether a table's changelog per event lacks something of the table's state."""
    return any(operator.leaves_out for operator in table.operators)


def has_state_topic(sink: Sink) -> bool:
    """Say whether a sink also publishes the changes of its table's state, to another topic."""
    return isinstance(sink.source, Table) and sink.mode == "event" and has_incomplete_changelog(sink.source)
