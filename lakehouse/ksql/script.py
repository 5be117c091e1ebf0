"""Statements in their order: what they declare, and the application that this is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from lakehouse.errors import PlanError, SqlError
from lakehouse.ksql import source
from lakehouse.ksql.catalog import Catalog, Entry, Relational, checked_name, queries
from lakehouse.ksql.properties import insert_id, limits, of_query, query_id
from lakehouse.ksql.query import QueryTarget, compiled
from lakehouse.ksql.reread import over, reread
from lakehouse.ksql.sinks import (
    as_written,
    changes_of,
    check_format,
    check_inserted,
    check_key,
    check_queries,
    fitted,
    padded,
    sink_of,
    time_of,
    timed,
    widened,
)
from lakehouse.ksql.syntax import statement as s
from lakehouse.ksql.syntax.parser import parse
from lakehouse.ksql.syntax.texts import Text, placed, texts
from lakehouse.ksql.values import check_source, expected, record
from lakehouse.plan.app import App, app
from lakehouse.plan.stream import Stream
from lakehouse.plan.table import Sink, Table

_VARIABLE = re.compile(r"\$\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*\}")


@dataclass(slots=True)
class Script:
    """What statements have declared so far; variables are those of DEFINE, settings those of SET."""

    catalog: Catalog = field(default_factory=Catalog)
    variables: dict[str, str] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    values: list[s.InsertValues] = field(default_factory=list)
    asserts: list[s.AssertValues] = field(default_factory=list)
    _made: dict[str, Relational] = field(default_factory=dict)

    def read(self, text: str) -> Iterator[tuple[s.Statement, Text]]:
        """Give the statements of a text, each with its own text, in which variables are replaced. Raises SqlError."""
        for one in texts(text):
            shown = Text(_VARIABLE.sub(partial(self._variable, text=one), one.text), one.line_before)
            try:
                statement = parse(shown.text, self.catalog.types)
            except SqlError as error:
                raise error.within(shown.text, shown.line_before) from None
            yield statement, shown

    def _variable(self, found: re.Match[str], text: Text) -> str:
        name = found[1].upper()
        if name not in self.variables:
            raise SqlError(f"variable {found[1]} is not defined: DEFINE {found[1]} = '...';", found.start()).within(
                text.text, text.line_before
            )
        return self.variables[name]

    def run(self, text: str) -> list[s.Statement]:
        """Take in the statements of a text, and return those that ask or do, and so declare nothing."""
        others = []
        for statement, one in self.read(text):
            with placed(statement.at, one):
                if not self.declare(statement, one.text):
                    others.append(statement)
        return others

    def declare(self, statement: s.Statement, text: str) -> bool:
        """Take in a statement; False for one that declares nothing. Raises SqlError, PlanError."""
        match statement:
            case s.CreateSource():
                if self._is_new(statement):
                    made = over(source.declared(statement, text, self.settings), self.catalog, self.find)
                    self._add(made, statement.at)
            case s.CreateAs():
                if self._is_new(statement):
                    self._add(self._made_of(statement, text), statement.at)
            case s.InsertSelect():
                self._insert(statement)
            case s.Alter():
                self._add(self._altered(statement, text), statement.at)
            case s.Drop():
                self._drop(statement)
            case s.CreateType():
                self._type(statement)
            case s.InsertValues():
                self.values.append(statement)
                return False
            case s.AssertValues():
                self.asserts.append(statement)
                return False
            case s.AssertSource():
                check_source(statement, self.catalog.get(statement.name, statement.at))
                return False
            case s.SetProperty():
                _put(self.settings, statement.name, statement.value)
            case s.Define():
                _put(self.variables, statement.name, statement.value)
            case _:
                return False
        return True

    def app(self) -> App:
        """Return the application of all that is declared. Raises PlanError."""
        parts: list[Table | Sink] = []
        for name in self.catalog.declared:
            of = self.find(name, 0)
            node = of.made.node
            if isinstance(node, Table):
                parts.append(sink_of(changes_of(node, of), of) if of.query else node)
            elif queries(of):
                written = self._written(self.catalog.declared[name]) if of.query is None else of.made
                assert isinstance(written.node, Stream)
                parts.append(sink_of(as_written(written), of))
        if not parts:
            raise PlanError(
                "the statements keep nothing: a stream alone is only a way to read a topic. Add a table, or CREATE "
                "STREAM ... AS SELECT."
            )
        return replace(app(*parts), notes=self.catalog.unread())

    def inserted(self) -> list[dict[str, Any]]:
        """Return the records of INSERT INTO ... VALUES, as a scenario has them. Raises SqlError, NeedsSpark."""
        return [record(statement, self.catalog.get(statement.target, statement.at)) for statement in self.values]

    def expected(self) -> list[dict[str, Any]]:
        """Return the records of ASSERT VALUES, as a scenario has outputs. Raises SqlError, NeedsSpark."""
        return [expected(statement, self.catalog.get(statement.name, statement.at)) for statement in self.asserts]

    def find(self, name: str, at: int) -> Entry:
        """Return a stream or a table with its node, in which all queries that insert into it are. Raises SqlError."""
        of = self.catalog.get(name, at)
        if name not in self._made:
            self._made[name] = of.made
            if of.query is not None:
                self._made[name] = self._written(of)
            elif of.over:
                self._made[name] = reread(of, self.find(of.over, at))
            elif of.inserts:
                self._made[name] = reread(of, replace(of, made=self._written(of)))
        return replace(of, made=self._made[name])

    def _written(self, of: Entry) -> Relational:
        """What the queries of a stream or a table write, together."""
        asked = QueryTarget(of.kind, of.name, 0, of.limits)
        made = (compiled(query, self.find, asked) for query in queries(of))
        first, *others = (
            one if number == 0 and of.query else padded(widened(one, of.columns), of.columns)
            for number, one in enumerate(made)
        )
        if others:
            assert isinstance(first.node, Stream)
            first = replace(first, node=first.node.merge(*(fitted(one, first) for one in others)))
        return timed(first, of)

    def _is_new(self, statement: s.CreateSource | s.CreateAs) -> bool:
        """Whether a statement declares something: False if it does not apply to what exists."""
        name, kind, at = statement.name, statement.kind, statement.at
        known = self.catalog.declared.get(name)
        if known is None:
            return True
        if statement.if_not_exists:
            return False
        if not statement.replace:
            raise SqlError(
                f"cannot add {kind.lower()} '{name}': a {known.kind.lower()} with the same name already exists. Use "
                "CREATE OR REPLACE, or another name",
                at,
            )
        if known.kind != kind:
            raise SqlError(f"cannot replace the {known.kind.lower()} '{name}' with a {kind.lower()}", at)
        if known.is_source:
            raise SqlError(f"cannot replace '{name}': it is declared as a SOURCE, which is read-only", at)
        return True

    def _add(self, of: Entry, at: int) -> None:
        known = self.catalog.declared.get(of.name)
        if known is None:
            self.catalog.add(of)
            return
        # The queries that insert into it go on, and what reads it is compiled again.
        self._made.clear()
        self.catalog.add(replace(of, inserts=known.inserts))
        try:
            check_queries(self.catalog, self.find, at)
        except SqlError:
            self._made.clear()
            self.catalog.add(known)
            raise

    def _made_of(self, statement: s.CreateAs, text: str) -> Entry:
        checked_name(statement.name, statement.kind.lower(), statement.at)
        query = statement.query
        if statement.name in self.catalog.reached(query):
            raise SqlError(f"{statement.name} would be made of itself", query.relation.at)
        first = self.catalog.get(query.relation.name, query.relation.at)
        given = of_query(statement, first.formats, (first.delimiter, first.key_delimiter), self.settings)
        asked = QueryTarget(statement.kind, statement.name, statement.at, limits(self.settings))
        made = compiled(query, self.find, asked)
        given = given.over(len(made.columns) - len(made.key))
        check_format(made, given.value_format, statement.at, is_wrapped=given.is_wrapped is not False)
        check_key(made, statement, given.key_format)
        prefix = f"C{statement.kind[0]}AS_{statement.name}"
        return Entry(
            statement.kind, statement.name, given.topic, (given.key_format, given.value_format), made, text, query,
            partitions=given.partitions, query_name=self.catalog.next_query(prefix, query_id(statement.properties)),
            is_wrapped=given.is_wrapped is not False, delimiter=given.value_delimiter,
            key_delimiter=given.key_delimiter, limits=asked.limits, time=time_of(made, given),
        )  # fmt: skip

    def _insert(self, statement: s.InsertSelect) -> None:
        target = self.catalog.get(statement.target, statement.at)
        if target.kind == "TABLE":
            raise SqlError(
                f"INSERT INTO can only be used to insert into a stream. {target.name} is a table", statement.at
            )
        if target.is_source:
            raise SqlError(f"cannot insert into read-only stream: {target.name}", statement.at)
        if target.name in self.catalog.reached(statement.query):
            raise SqlError(f"{target.name} would be made of itself", statement.query.relation.at)
        into = QueryTarget("STREAM", target.name, statement.at)
        made = widened(compiled(statement.query, self.find, into), target.columns)
        check_inserted(made, target, statement.query.at)
        name = self.catalog.next_query("INSERTQUERY", insert_id(statement.properties, statement.at))
        self.catalog.insert(target.name, name, statement.query)
        self._made.clear()

    def _altered(self, statement: s.Alter, text: str) -> Entry:
        """What is declared over a topic, with more columns. Raises SqlError."""
        known = self.catalog.get(statement.name, statement.at)
        source.check_altered(statement, known, self.catalog.readers(known.name))
        before = [one for one, _ in self.read(known.statement)]
        return source.altered(statement, before, f"{known.statement};\n{text}", self.settings)

    def _drop(self, statement: s.Drop) -> None:
        if statement.kind == "TYPE":
            if self.catalog.types.pop(statement.name, None) is None and not statement.if_exists:
                raise SqlError(f"type {statement.name} does not exist", statement.at)
            return
        if statement.delete_topic:
            why = "the topic belongs to Kafka, and bronze keeps its records"
            raise SqlError(f"DELETE TOPIC is not here: {why}", statement.at)
        if statement.name not in self.catalog.declared and statement.if_exists:
            return
        known = self.catalog.get(statement.name, statement.at)
        if known.kind != statement.kind:
            raise SqlError(f"incompatible data source type is {known.kind}, but statement was DROP {statement.kind}",
                           statement.at)  # fmt: skip
        if readers := self.catalog.readers(statement.name):
            listed = ", ".join(readers)
            raise SqlError(f"cannot drop {statement.name}. It is read by {listed}: drop these first", statement.at)
        del self.catalog.declared[statement.name]
        self._made.clear()

    def _type(self, statement: s.CreateType) -> None:
        if statement.name in self.catalog.types:
            if statement.if_not_exists:
                return
            raise SqlError(f"type {statement.name} is declared already", statement.at)
        self.catalog.types[statement.name] = statement.kind


def _put(into: dict[str, str], name: str, value: str | None) -> None:
    if value is None:
        into.pop(name, None)
    else:
        into[name] = value


def application(text: str) -> App:
    """Return the application that a text's statements declare. Raises SqlError, PlanError.

    Statements that only ask (SHOW, DESCRIBE, SELECT, ...) are left out. INSERT INTO ... VALUES is refused: an
    application is run again and again, and would insert each time.
    """
    script = Script()
    for statement in script.run(text):
        if isinstance(statement, s.InsertValues):
            raise SqlError(
                "INSERT INTO ... VALUES writes a record each time it runs, and an application runs again and again. "
                "Run it once with `lakehouse sql`",
                statement.at,
            )
    return script.app()
