"""SHOW, DESCRIBE and EXPLAIN: the declarations, as tables of texts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lakehouse.errors import SqlError
from lakehouse.ksql.asked import compile_asked
from lakehouse.ksql.catalog import Entry, queries_of
from lakehouse.ksql.function.aggregate import AGGREGATES
from lakehouse.ksql.function.call import why_unknown
from lakehouse.ksql.function.table import FUNCTIONS, TABLE_FUNCTIONS
from lakehouse.ksql.query import QueryTarget, compile_query
from lakehouse.ksql.script import Script
from lakehouse.ksql.syntax import statement as s
from lakehouse.ksql.with_clause import read_aggregate_limits
from lakehouse.plan.evolution.text import declaration_text
from lakehouse.plan.names.field import field_name

EXPLAINED = "EXPLAINED"  # the name of a result that gets none


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a statement: rows under names, or a message. ends: False if rows keep coming.

    is_long: there may be more rows than a terminal shows.
    """

    names: tuple[str, ...] = ()
    rows: Iterable[tuple[object, ...]] = ()
    message: str = ""
    ends: bool = True
    is_long: bool = False


class DeletedRow(tuple[object, ...]):
    """A row of an answer that stands for a delete: the key, and nulls."""

    __slots__ = ()


def answer_show(statement: s.Show, script: Script) -> Answer:
    """Return the answer to SHOW, for all but topics: Kafka lists those."""
    entries = [script.find(name, 0) for name in script.catalog.entries]
    match statement.subject:
        case "STREAMS" | "TABLES":
            entry_kind = statement.subject.removesuffix("S")
            column_titles: tuple[str, ...] = (entry_kind.lower(), "topic", "key format", "value format", "columns")
            rows = [
                (field_name(entry.name), entry.topic, *entry.formats, _columns_text(entry))
                for entry in entries
                if entry.kind == entry_kind
            ]
            return Answer(
                column_titles[: None if statement.is_extended else 4],
                [row[: None if statement.is_extended else 4] for row in rows],
            )
        case "QUERIES":
            query_rows = [
                (query_name, field_name(entry.name), entry.topic)
                for entry in entries
                for query_name in (
                    *([entry.query_name] if entry.query is not None else []),
                    *(insert_name for insert_name, _ in entry.insert_queries),
                )
            ]
            return Answer(("query", "writes", "topic"), query_rows)
        case "FUNCTIONS":
            function_rows = [(name, function_record.family) for name, function_record in FUNCTIONS.items()]
            function_rows += [(name, "Aggregates") for name in AGGREGATES] + [
                (name, "Several rows of one") for name in TABLE_FUNCTIONS
            ]
            return Answer(("function", "family"), sorted(function_rows))
        case "TYPES":
            return Answer(
                ("type", "is"), [(name, str(entry_kind)) for name, entry_kind in script.catalog.types.items()]
            )
        case "VARIABLES":
            return Answer(("variable", "value"), list(script.variables.items()))
    return Answer(("property", "value"), list(script.settings.items()))


def _columns_text(entry: Entry) -> str:
    return ", ".join(f"{field_name(column.name)} {column.kind}" for column in entry.columns)


def answer_describe(statement: s.Describe, script: Script) -> Answer:
    """Return the answer to DESCRIBE. Raises SqlError if there is nothing of this name."""
    if statement.is_function:
        return Answer(("function", "takes", "nulls", "example"), [_function_row(statement)])
    if statement.name in ("STREAMS", "TABLES") and statement.name not in script.catalog.entries:
        return answer_show(s.Show(statement.name, is_extended=True), script)
    entry = script.find(statement.name, statement.position)
    key_word = "PRIMARY KEY" if entry.kind == "TABLE" else "KEY"
    column_rows = [
        (field_name(column.name), str(column.kind), key_word if column.is_key else "") for column in entry.columns
    ]
    if not statement.is_extended:
        return Answer(("column", "type", ""), column_rows)
    facts = [
        f"{entry.kind} {field_name(entry.name)}, topic {entry.topic}, "
        f"key format {entry.formats[0]}, value format {entry.formats[1]}"
    ]
    reader_names = map(field_name, script.catalog.reader_names(entry.name))
    facts += [f"read by {readers_text}"] if (readers_text := ", ".join(reader_names)) else []
    facts += [entry.statement, declaration_text(entry.relation.node)]
    return Answer(("column", "type", ""), column_rows, "\n".join(facts))


def _function_row(statement: s.Describe) -> tuple[str, ...]:
    function_name = statement.name
    if function_name in AGGREGATES:
        aggregate = AGGREGATES[function_name]
        return function_name, aggregate.takes, aggregate.nulls, ""
    if function_name not in FUNCTIONS:
        raise SqlError(TABLE_FUNCTIONS.get(function_name) or why_unknown(function_name), statement.position)
    function_record = FUNCTIONS[function_name]
    example_text, example_value = function_record.cases[0]
    return (
        function_name,
        " or ".join(f"({', '.join(form.takes)})" for form in function_record.forms),
        function_record.nulls,
        f"{example_text} is {example_value!r}",
    )


def answer_explain(statement: s.Explain, script: Script) -> Answer:
    """Return the answer to EXPLAIN: the plan's text. Raises SqlError."""
    target = statement.target
    if isinstance(target, str):
        named_entries = [entry for entry in script.catalog.entries.values() if target in (entry.query_name, entry.name)]
        if not named_entries or not queries_of(named_entries[0]):
            raise SqlError(f"there is no query {target}; SHOW QUERIES lists them", statement.position)
        return Answer(message=declaration_text(script.find(named_entries[0].name, 0).relation.node))
    match target:
        case s.Query():
            query_result, _ = compile_asked(target, script.find, EXPLAINED, read_aggregate_limits(script.settings))
        case s.CreateAs():
            query_result = compile_query(
                target.query, script.find, QueryTarget(target.kind, EXPLAINED, target.position)
            )
        case _:
            raise SqlError("EXPLAIN is for a SELECT, or a query by its name", statement.position)
    return Answer(message=declaration_text(query_result.node))
