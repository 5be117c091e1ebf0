"""Statements in their order: their declarations, and the application that these make."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from lakehouse.errors import PlanError, SqlError
from lakehouse.ksql import source
from lakehouse.ksql.catalog import Catalog, Entry, SqlRelation, checked_name, queries_of, sources_of
from lakehouse.ksql.constraint import with_row_constraints
from lakehouse.ksql.query import QueryTarget, compile_query
from lakehouse.ksql.reread import read_from_writer, with_writer
from lakehouse.ksql.sinks import (
    changes_of,
    check_format,
    check_inserted,
    check_key,
    check_names,
    check_queries,
    fit_columns,
    pad_columns,
    retime_stream,
    sink_of,
    time_sql,
    widen_columns,
    written_stream,
)
from lakehouse.ksql.syntax import statement as s
from lakehouse.ksql.syntax.parser import parse
from lakehouse.ksql.syntax.split_text import StatementText, comment_spans, locate_errors, split_statements
from lakehouse.ksql.values import check_source, expected_record, values_record
from lakehouse.ksql.with_clause import history_of_query, insert_id, query_id, query_properties, read_aggregate_limits
from lakehouse.plan.app import App, SqlTypes, app
from lakehouse.plan.registered.pinned import declaring_folder
from lakehouse.plan.stream import Stream
from lakehouse.plan.table import Sink, Table

# A $ before it escapes it: $${name} is the text ${name}.
_VARIABLE = re.compile(r"(\$?)(\$\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*\})")


@dataclass(slots=True)
class Script:
    """The declarations of statements so far. variables: those of DEFINE; settings: those of SET.

    folder: of the file of statements, beside which schemas are pinned; None: that of the file that calls lakehouse.
    """

    catalog: Catalog = field(default_factory=Catalog)
    variables: dict[str, str] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    folder: Path | None = None
    _relations: dict[str, SqlRelation] = field(default_factory=dict)
    # What is read when all is declared, with its text.
    _inserts: list[tuple[s.InsertValues, StatementText]] = field(default_factory=list)
    _asserts: list[tuple[s.AssertValues, StatementText]] = field(default_factory=list)

    def read(self, text: str) -> Iterator[tuple[s.Statement, StatementText]]:
        """Yield the statements of a text, each with its own text, its variables replaced. Raises SqlError."""
        for statement_text in split_statements(text):
            replace_variable = partial(
                self._variable_value, text=statement_text, comments=comment_spans(statement_text.text)
            )
            replaced_text = StatementText(
                _VARIABLE.sub(replace_variable, statement_text.text), statement_text.line_before
            )
            try:
                statement = parse(replaced_text.text, self.catalog.types)
            except SqlError as error:
                raise error.within(replaced_text.text, replaced_text.line_before) from None
            yield statement, replaced_text

    def check_syntax(self, text: str) -> None:
        """Raise SqlError for a statement of a text that can't be read, before any of them has an effect."""
        trial = Script(Catalog(types=dict(self.catalog.types)), dict(self.variables))
        for statement, statement_text in trial.read(text):
            is_type = isinstance(statement, s.CreateType) or (
                isinstance(statement, s.Drop) and statement.kind == "TYPE"
            )
            if is_type or isinstance(statement, s.Define):  # the statements behind it are read by them
                with locate_errors(statement.position, statement_text):
                    trial.declare(statement, statement_text.text)

    def _variable_value(self, match: re.Match[str], text: StatementText, comments: list[tuple[int, int]]) -> str:
        escape_mark, reference, written_name = match.groups()
        if any(begin <= match.start() < end for begin, end in comments):
            return match[0]
        if escape_mark:
            return reference
        name = written_name.upper()
        if name not in self.variables:
            raise SqlError(
                f"variable {written_name} is not defined: DEFINE {written_name} = '...';", match.start()
            ).within(text.text, text.line_before)
        return self.variables[name]

    def run(self, text: str) -> list[s.Statement]:
        """Declare the statements of a text, and return those that declare nothing: questions and commands."""
        other_statements = []
        for statement, statement_text in self.read(text):
            with locate_errors(statement.position, statement_text):
                if isinstance(statement, s.InsertValues):
                    self._inserts.append((statement, statement_text))
                elif isinstance(statement, s.AssertValues):
                    self._asserts.append((statement, statement_text))
                if not self.declare(statement, statement_text.text):
                    other_statements.append(statement)
        return other_statements

    def declare(self, statement: s.Statement, text: str) -> bool:
        """Declare a statement; return False for a statement that declares nothing. Raises SqlError, PlanError."""
        match statement:
            case s.CreateSource():
                if self._is_new(statement):
                    folder = self.folder or declaring_folder()
                    entry = source.declare_source(statement, text, self.settings, folder)
                    self._add(with_writer(entry, self.catalog, self.find), statement.position)
            case s.CreateAs():
                if self._is_new(statement):
                    self._add(self._compile_create_as(statement, text), statement.position)
            case s.InsertSelect():
                self._insert(statement)
            case s.Alter():
                self._add(self._compile_alter(statement, text), statement.position)
            case s.Drop():
                self._drop_entry(statement)
            case s.CreateType():
                self._type(statement)
            case s.AssertSource():
                check_source(statement, self.catalog.get(statement.name, statement.position))
                return False
            case s.SetProperty():
                _set_or_unset(self.settings, statement.name, statement.value)
            case s.Define():
                _set_or_unset(self.variables, statement.name, statement.value)
            case _:
                return False
        return True

    def app(self) -> App:
        """Return the application of all declarations. Raises PlanError."""
        app_parts: list[Table | Sink] = []
        table_types: dict[str, dict[str, str]] = {}
        topic_types: dict[str, dict[str, str]] = {}
        for name in self.catalog.entries:
            entry = self.find(name, 0)
            node = entry.relation.node
            types_by_column = {column.name: column.kind.spark for column in entry.columns}
            if queries_of(entry):
                topic_types[entry.topic] = types_by_column
            if isinstance(node, Table):
                table_types[node.name] = types_by_column
                is_written = entry.query is not None and not node.is_history
                app_parts.append(sink_of(changes_of(node, entry), entry) if is_written else node)
            elif queries_of(entry):
                written_relation = (
                    self._written_relation(self.catalog.entries[name]) if entry.query is None else entry.relation
                )
                assert isinstance(written_relation.node, Stream)
                app_parts.append(sink_of(written_stream(written_relation, entry.formats[1]), entry))
        if not app_parts:
            raise PlanError(
                "the statements keep nothing: a stream alone is only a way to read a topic. Add a table, or CREATE "
                "STREAM ... AS SELECT."
            )
        sql_types = SqlTypes(table_types, topic_types)
        return replace(app(*app_parts), notes=self.catalog.unread_notes(), sql_types=sql_types)

    def inserted_records(self) -> list[dict[str, Any]]:
        """Return the records of INSERT INTO ... VALUES, in a scenario's form. Raises SqlError, NeedsSpark."""
        records = []
        for statement, text in self._inserts:
            with locate_errors(statement.position, text):
                records.append(values_record(statement, self.catalog.get(statement.target, statement.position)))
        return records

    def expected_records(self) -> list[dict[str, Any]]:
        """Return the records of ASSERT VALUES, in the form of a scenario's outputs. Raises SqlError, NeedsSpark."""
        records = []
        for statement, text in self._asserts:
            with locate_errors(statement.position, text):
                records.append(expected_record(statement, self.catalog.get(statement.name, statement.position)))
        return records

    def find(self, name: str, position: int) -> Entry:
        """Return a stream or a table; its node includes all queries that insert into it. Raises SqlError."""
        entry = self.catalog.get(name, position)
        if name not in self._relations:
            self._relations[name] = entry.relation
            if entry.query is not None:
                self._relations[name] = self._written_relation(entry)
            elif entry.writer_name:
                self._relations[name] = read_from_writer(entry, self.find(entry.writer_name, position))
            elif entry.insert_queries:
                self._relations[name] = read_from_writer(entry, replace(entry, relation=self._written_relation(entry)))
        return replace(entry, relation=self._relations[name])

    def _written_relation(self, entry: Entry) -> SqlRelation:
        """Return the union of the records that all queries of a stream or a table write."""
        query_target = QueryTarget(entry.kind, entry.name, 0, entry.limits, entry.history)
        query_results = (compile_query(query, self.find, query_target) for query in queries_of(entry))
        first_result, *other_results = (
            query_result
            if number == 0 and entry.query
            else pad_columns(widen_columns(query_result, entry.columns), entry.columns)
            for number, query_result in enumerate(query_results)
        )
        if other_results:
            assert isinstance(first_result.node, Stream)
            first_result = replace(
                first_result,
                node=first_result.node.merge(
                    *(fit_columns(query_result, first_result) for query_result in other_results)
                ),
            )
        # A stream's records are judged whichever query writes them.
        return retime_stream(with_row_constraints(first_result, entry.constraints, entry.name), entry)

    def _is_new(self, statement: s.CreateSource | s.CreateAs) -> bool:
        """Say whether a statement declares something: False if an existing entry stays as it is. Raises SqlError."""
        name, kind, position = statement.name, statement.kind, statement.position
        existing = self.catalog.entries.get(name)
        if existing is None:
            return True
        if statement.if_not_exists:
            return False
        if not statement.replace:
            raise SqlError(
                f"cannot add {kind.lower()} '{name}': a {existing.kind.lower()} with the same name already exists. Use "
                "CREATE OR REPLACE, or another name",
                position,
            )
        if existing.kind != kind:
            raise SqlError(f"cannot replace the {existing.kind.lower()} '{name}' with a {kind.lower()}", position)
        if existing.is_source:
            raise SqlError(f"cannot replace '{name}': it is declared as a SOURCE, which is read-only", position)
        return True

    def _add(self, entry: Entry, position: int) -> None:
        previous = self.catalog.entries.get(entry.name)
        if previous is None:
            self.catalog.add(entry)
            return
        # The queries that insert into it go on, and its readers are compiled again.
        self._relations.clear()
        previous_entries = dict(self.catalog.entries)
        self.catalog.add(replace(entry, insert_queries=previous.insert_queries))
        self.catalog.reset_readers(entry.name)
        try:
            check_queries(self.catalog, self.find, position)
        except SqlError:
            self._relations.clear()
            self.catalog.entries = previous_entries
            raise

    def _compile_create_as(self, statement: s.CreateAs, text: str) -> Entry:
        checked_name(statement.name, statement.kind.lower(), statement.position)
        query = statement.query
        if statement.name in self.catalog.names_read_by(sources_of(query)):
            raise SqlError(f"{statement.name} would be made of itself", query.relation.position)
        first_source = self.catalog.get(query.relation.name, query.relation.position)
        if (history := history_of_query(statement)) is not None:
            return self._compile_history(statement, text, history)
        properties = query_properties(
            statement, first_source.formats, (first_source.delimiter, first_source.key_delimiter), self.settings
        )
        query_target = QueryTarget(
            statement.kind, statement.name, statement.position, read_aggregate_limits(self.settings),
            constraints=statement.constraints,
        )  # fmt: skip
        query_result = compile_query(query, self.find, query_target)
        properties = properties.over(len(query_result.columns) - len(query_result.key))
        check_format(
            query_result, properties.value_format, statement.position, is_wrapped=properties.is_wrapped is not False
        )
        check_key(query_result, statement, properties.key_format)
        name_prefix = f"C{statement.kind[0]}AS_{statement.name}"
        entry = Entry(
            statement.kind,
            statement.name,
            properties.topic,
            (properties.key_format, properties.value_format),
            query_result,
            text,
            query,
            partitions=properties.partitions,
            query_name=self.catalog.next_query_name(name_prefix, query_id(statement.properties)),
            is_wrapped=properties.is_wrapped is not False,
            delimiter=properties.value_delimiter,
            key_delimiter=properties.key_delimiter,
            limits=query_target.limits,
            time=time_sql(query_result, properties),
            record_names=properties.record_names,
            constraints=statement.constraints,
        )
        check_names(entry, statement.position)
        return entry

    def _compile_history(self, statement: s.CreateAs, text: str, history: s.HistoryClause) -> Entry:
        limits = read_aggregate_limits(self.settings)
        query_target = QueryTarget(
            statement.kind, statement.name, statement.position, limits, history=history,
            constraints=statement.constraints,
        )  # fmt: skip
        query_result = compile_query(statement.query, self.find, query_target)
        query_name = self.catalog.next_query_name(f"CTAS_{statement.name}", "")
        return Entry(
            statement.kind, statement.name, "", ("NONE", "NONE"), query_result, text, statement.query,
            query_name=query_name, limits=limits, history=history, constraints=statement.constraints,
        )  # fmt: skip

    def _insert(self, statement: s.InsertSelect) -> None:
        target = self.catalog.get(statement.target, statement.position)
        if target.kind == "TABLE":
            raise SqlError(
                f"INSERT INTO can only be used to insert into a stream. {target.name} is a table", statement.position
            )
        if target.is_source:
            raise SqlError(f"cannot insert into read-only stream: {target.name}", statement.position)
        if target.unwritten_format:
            raise SqlError(
                f"cannot insert into {target.name}: others write records in {target.unwritten_format}",
                statement.position,
            )
        if target.name in self.catalog.names_read_by(sources_of(statement.query)):
            raise SqlError(f"{target.name} would be made of itself", statement.query.relation.position)
        query_target = QueryTarget("STREAM", target.name, statement.position)
        query_result = widen_columns(compile_query(statement.query, self.find, query_target), target.columns)
        check_inserted(query_result, target, statement.query.position)
        check_names(target, statement.position)
        query_name = self.catalog.next_query_name("INSERTQUERY", insert_id(statement.properties, statement.position))
        self.catalog.insert(target.name, query_name, statement.query)
        self._relations.clear()

    def _compile_alter(self, statement: s.Alter, text: str) -> Entry:
        """Return a declared entry with the columns that ALTER adds. Raises SqlError."""
        entry = self.catalog.get(statement.name, statement.position)
        source.check_altered(statement, entry, self.catalog.reader_names(entry.name))
        return source.alter_source(statement, entry, text, self.folder or declaring_folder())

    def _drop_entry(self, statement: s.Drop) -> None:
        if statement.kind == "TYPE":
            if self.catalog.types.pop(statement.name, None) is None and not statement.if_exists:
                raise SqlError(f"type {statement.name} does not exist", statement.position)
            return
        if statement.delete_topic:
            reason = "the topic belongs to Kafka, and bronze keeps its records"
            raise SqlError(f"DELETE TOPIC is not here: {reason}", statement.position)
        if statement.name not in self.catalog.entries and statement.if_exists:
            return
        entry = self.catalog.get(statement.name, statement.position)
        if entry.kind != statement.kind:
            raise SqlError(f"incompatible data source type is {entry.kind}, but statement was DROP {statement.kind}",
                           statement.position)  # fmt: skip
        if reader_names := self.catalog.reader_names(statement.name):
            reader_text = ", ".join(reader_names)
            raise SqlError(
                f"cannot drop {statement.name}. It is read by {reader_text}: drop these first", statement.position
            )
        del self.catalog.entries[statement.name]
        self._relations.clear()

    def _type(self, statement: s.CreateType) -> None:
        if statement.name in self.catalog.types:
            if statement.if_not_exists:
                return
            raise SqlError(f"type {statement.name} is declared already", statement.position)
        self.catalog.types[statement.name] = statement.kind


def _set_or_unset(mapping: dict[str, str], name: str, value: str | None) -> None:
    if value is None:
        mapping.pop(name, None)
    else:
        mapping[name] = value


def application(text: str, folder: Path | None = None) -> App:
    """Return the application that a text's statements declare. Raises SqlError, PlanError.

    folder: of the text's file; see `Script`.

    Questions (SHOW, DESCRIBE, SELECT, ...) are left out. INSERT INTO ... VALUES is refused: an application runs
    again and again, and would insert each time.
    """
    script = Script(folder=folder)
    for statement in script.run(text):
        if isinstance(statement, s.InsertValues):
            raise SqlError(
                "INSERT INTO ... VALUES writes a record each time it runs, and an application runs again and again. "
                "Run it once with `lakehouse sql`",
                statement.position,
            )
    return script.app()
