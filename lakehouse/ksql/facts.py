"""SHOW, DESCRIBE and EXPLAIN: what is declared, as tables of words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lakehouse.errors import SqlError
from lakehouse.ksql.catalog import Entry, queries
from lakehouse.ksql.function.aggregate import AGGREGATES
from lakehouse.ksql.function.call import unknown
from lakehouse.ksql.function.table import FUNCTIONS, TABLE_FUNCTIONS
from lakehouse.ksql.query import QueryTarget, compiled
from lakehouse.ksql.script import Script
from lakehouse.ksql.syntax import statement as s
from lakehouse.plan.evolution.text import declaration_text
from lakehouse.plan.names.field import field_name


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a statement: rows under names, or a message. ends: False if rows come as they arise.

    is_long: there may be more rows than a terminal shows.
    """

    names: tuple[str, ...] = ()
    rows: Iterable[tuple[object, ...]] = ()
    message: str = ""
    ends: bool = True
    is_long: bool = False


class Deleted(tuple[object, ...]):
    """A row of an answer that tells of a delete: its key, and nulls."""

    __slots__ = ()


def shown(statement: s.Show, script: Script) -> Answer:
    """Return the answer to SHOW, for all but topics, which Kafka has."""
    declared = [script.find(name, 0) for name in script.catalog.declared]
    match statement.what:
        case "STREAMS" | "TABLES":
            kind = statement.what.removesuffix("S")
            names: tuple[str, ...] = (kind.lower(), "topic", "key format", "value format", "columns")
            rows = [(of.name, of.topic, *of.formats, _columns(of)) for of in declared if of.kind == kind]
            return Answer(
                names[: None if statement.extended else 4], [row[: None if statement.extended else 4] for row in rows]
            )
        case "QUERIES":
            found = [(of.query_name, of.name, of.topic) for of in declared if of.query is not None]
            found += [(name, of.name, of.topic) for of in declared for name, _ in of.inserts]
            return Answer(("query", "writes", "topic"), found)
        case "FUNCTIONS":
            every = [(name, record.family) for name, record in FUNCTIONS.items()]
            every += [(name, "Aggregates") for name in AGGREGATES] + [
                (name, "Several rows of one") for name in TABLE_FUNCTIONS
            ]
            return Answer(("function", "family"), sorted(every))
        case "TYPES":
            return Answer(("type", "is"), [(name, str(kind)) for name, kind in script.catalog.types.items()])
        case "VARIABLES":
            return Answer(("variable", "value"), list(script.variables.items()))
    return Answer(("property", "value"), list(script.settings.items()))


def _columns(of: Entry) -> str:
    return ", ".join(f"{field_name(column.name)} {column.kind}" for column in of.columns)


def described(statement: s.Describe, script: Script) -> Answer:
    """Return the answer to DESCRIBE. Raises SqlError for what does not exist."""
    if statement.is_function:
        return Answer(("function", "takes", "nulls", "example"), [_function(statement)])
    if statement.name in ("STREAMS", "TABLES") and statement.name not in script.catalog.declared:
        return shown(s.Show(statement.name, extended=True), script)
    of = script.find(statement.name, statement.at)
    word = "PRIMARY KEY" if of.kind == "TABLE" else "KEY"
    rows = [(field_name(column.name), str(column.kind), word if column.is_key else "") for column in of.columns]
    if not statement.extended:
        return Answer(("column", "type", ""), rows)
    facts = [f"{of.kind} {of.name}, topic {of.topic}, key format {of.formats[0]}, value format {of.formats[1]}"]
    facts += [f"read by {', '.join(readers)}"] if (readers := script.catalog.readers(of.name)) else []
    facts += [of.statement, declaration_text(of.made.node)]
    return Answer(("column", "type", ""), rows, "\n".join(facts))


def _function(statement: s.Describe) -> tuple[str, ...]:
    name = statement.name
    if name in AGGREGATES:
        aggregate = AGGREGATES[name]
        return name, aggregate.takes, aggregate.nulls, ""
    if name not in FUNCTIONS:
        raise SqlError(TABLE_FUNCTIONS.get(name) or unknown(name), statement.at)
    record = FUNCTIONS[name]
    text, value = record.cases[0]
    return (
        name,
        " or ".join(f"({', '.join(form.takes)})" for form in record.forms),
        record.nulls,
        f"{text} is {value!r}",
    )


def explained(statement: s.Explain, script: Script) -> Answer:
    """Return the answer to EXPLAIN: the plan's text. Raises SqlError."""
    of = statement.of
    if isinstance(of, str):
        named = [one for one in script.catalog.declared.values() if of in (one.query_name, one.name)]
        if not named or not queries(named[0]):
            raise SqlError(f"there is no query {of}; SHOW QUERIES lists them", statement.at)
        return Answer(message=declaration_text(script.find(named[0].name, 0).made.node))
    query = of.query if isinstance(of, s.CreateAs) else of
    if not isinstance(query, s.Query):
        raise SqlError("EXPLAIN is for a SELECT, or a query by its name", statement.at)
    kind = "TABLE" if query.group_by else "STREAM"
    made = compiled(query, script.find, QueryTarget(kind, "EXPLAINED", query.at))
    return Answer(message=declaration_text(made.node))
