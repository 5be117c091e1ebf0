"""Calls of SQL's functions over generated rows: of every signature, of texts that a function reads, and casts."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path

from lakehouse.errors import SqlError
from lakehouse.ksql.expression.expression import ColumnScope, ScopeColumn
from lakehouse.ksql.function.moment import MONTHS, UNITS_MS
from lakehouse.ksql.function.record import Function, Signature
from lakehouse.ksql.function.sql import Sql
from lakehouse.ksql.function.table import FUNCTIONS
from lakehouse.ksql.syntax import statement as s
from lakehouse.ksql.syntax import tree as t
from lakehouse.ksql.syntax.kind import Kind
from lakehouse.ksql.syntax.parser import parse

from .columns import COLUMNS

HERE = Path(__file__).parent
# The columns of what a signature takes: those of one place in the call, and those of the next of the same kind.
TAKEN = {
    "any": "i l d p q u s raw day at clock flag xs ds ts xss m w ws",
    "text": "s",
    "number": "i l d p q u",
    "whole": "few i l",
    "int": "few i l",
    "boolean": "flag",
    "bytes": "raw",
    "date": "day",
    "time": "clock",
    "timestamp": "at",
    "array": "xs ds ts xss ws",
    "texts": "ts",
    "map": "m",
    "unit": " ".join(f"{word}S" for word in [*UNITS_MS, *MONTHS]),
}
SECOND = {
    "i": "j", "l": "n", "d": "e", "s": "t", "num": "part", "js": "t", "raw": "more", "day": "other_day", "at": "until",
    "flag": "sure", "xs": "ys", "ts": "us", "m": "o",
}  # fmt: skip
REPEATED = 2  # so many arguments stand for one that may be repeated
# What is cast: a column of each type, and texts that are numbers or moments.
CAST = "i l d p q u s num moment part raw day at clock flag xs ds ts xss m w ws"
TARGETS = [
    "BOOLEAN", "INTEGER", "BIGINT", "DOUBLE", "DECIMAL(10, 2)", "DECIMAL(38, 18)", "DECIMAL(5, 0)", "STRING", "BYTES",
    "DATE", "TIME", "TIMESTAMP", "ARRAY<INTEGER>", "ARRAY<BIGINT>", "ARRAY<STRING>", "ARRAY<DOUBLE>",
    "ARRAY<DECIMAL(10, 2)>", "ARRAY<ARRAY<STRING>>", "MAP<STRING, BIGINT>", "MAP<STRING, STRING>",
    "STRUCT<A BIGINT, C STRING>", "STRUCT<B STRING>", "ARRAY<STRUCT<A STRING>>",
]  # fmt: skip


def spark_text(text: str) -> Sql:
    """Return an expression of SQL over the generated columns as Spark SQL. Raises SqlError where it has no meaning."""
    query = parse(f"SELECT {text} FROM x")
    assert isinstance(query, s.Query)
    assert query.items[0].expression is not None
    return _visible().sql(query.items[0].expression)


@cache
def _visible() -> ColumnScope:
    return ColumnScope(tuple(ScopeColumn(name.upper(), "X", Sql(f"`{name}`", kind)) for name, kind in _kinds().items()))


@cache
def _kinds() -> dict[str, Kind]:
    """The columns that have a type of ksqlDB."""
    return {name: kind_of(ksql) for name, (_, ksql, _) in COLUMNS.items() if ksql}


def kind_of(text: str) -> Kind:
    query = parse(f"SELECT CAST(NULL AS {text}) FROM x")
    assert isinstance(query, s.Query)
    assert isinstance(query.items[0].expression, t.Cast)
    return query.items[0].expression.kind


@cache
def calls() -> dict[str, Sql]:
    """Return the calls, written and as Spark SQL: of every signature, and those of `sql_calls.txt`."""
    made = {}
    for record in FUNCTIONS.values():
        for form in record.forms:
            made.update(of_signature(record, form))
    lines = (HERE / "sql_calls.txt").read_text("utf-8").splitlines()
    made.update({line: spark_text(line) for line in lines if line and not line.startswith("#")})
    return made


def of_signature(record: Function, form: Signature) -> dict[str, Sql]:
    """Return the calls of one signature over columns; none where it takes lambdas, or columns do not go together."""
    made = {}
    for text in dict.fromkeys(_written(record.name, form)):
        try:
            made[text] = spark_text(text)
        except SqlError:
            continue
    return made


def _written(name: str, form: Signature) -> Iterator[str]:
    """Calls with each number of arguments, and each column at each place; of all of one type, and of several."""
    if any(word.startswith("lambda") for word in form.takes):
        return
    least = sum(not word.endswith(("?", "*")) for word in form.takes)
    words = [word.rstrip("?*") for word in form.takes]
    many = [*words, *([words[-1]] * (REPEATED - 1) if form.takes and form.takes[-1].endswith("*") else [])]
    for number in range(least, len(many) + 1):
        for columns in _chosen(many[:number]):
            yield f"{name}({', '.join(column.upper() for column in columns)})"


def _chosen(words: list[str]) -> Iterator[tuple[str, ...]]:
    """Columns for arguments: the first of each kind but for one place, and one type at all places."""
    choices, before = [], set()
    for word in words:
        columns = TAKEN[word].split()
        choices.append([SECOND.get(column, column) for column in columns] if word in before else columns)
        before.add(word)
    if len(words) < 3:
        yield from product(*choices)
        return
    yield from (tuple(row) for row in zip(*choices, strict=False))
    for place, columns in enumerate(choices):
        for column in columns:
            yield tuple(column if place == at else others[0] for at, others in enumerate(choices))


@cache
def casts() -> dict[str, Sql]:
    """Return the casts of every type to every type that CAST takes."""
    made = {}
    for name, target in product(CAST.split(), TARGETS):
        text = f"CAST({name.upper()} AS {target})"
        try:
            made[text] = spark_text(text)
        except SqlError:
            continue
    return made
