"""Formats of moments: the model reads and writes what Spark and Java do, or says that it needs Spark.

Other formats in each run: numbers that follow each other at once, names, zones, parts in any order, parts twice.
"""

from __future__ import annotations

from datetime import datetime
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse.errors import NeedsSpark
from lakehouse.ksql.expression.expression import ColumnScope, ScopeColumn
from lakehouse.ksql.function.sql import Sql
from lakehouse.ksql.syntax import statement as s
from lakehouse.ksql.syntax.parser import parse
from lakehouse.model.evaluate import evaluate
from lakehouse.plan.expression.expression import parse_expression
from lakehouse.plan.expression.schema import Column

from ..seeds import seeds
from .columns import MOMENTS, TIMES, random_moment
from .sql_forms import kind_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A part of a format, and what Python's strftime writes for it.
WRITTEN = {
    "yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S", "-": "-", ":": ":", " ": " ", "/": "/",
    "'T'": "T", "MMM": "%b", "EEE": "%a", "a": "%p", "hh": "%I", "d": "%-d", "M": "%-m", "H": "%-H", "X": "Z",
    "SSS": "%f", "yy": "%y", "SS": "%f",
}  # fmt: skip
RARE = [
    *"yhkKmsSaEDFQzXVZOGuLwqWecAnNpYBlRT'.,[]#{", "kk", "EEEE", "MMMM", "DDD", "QQ", "zzzz", "VV", 3 * "X", "xxx",
    "LLL", "''", "SSSSSS", "YYYY",
]  # fmt: skip
COLUMNS = {"s": "STRING", "p": "STRING", "at": "TIMESTAMP", "day": "DATE", "clock": "TIME"}
TYPES = {"s": "string", "p": "string", "at": "timestamp", "day": "date", "clock": "int"}
SQL = [
    "PARSE_TIMESTAMP(S, P)", "PARSE_DATE(S, P)", "PARSE_TIME(S, P)", "FORMAT_TIMESTAMP(AT, P)", "FORMAT_DATE(DAY, P)",
    "FORMAT_TIME(CLOCK, P)",
]  # fmt: skip
PYTHON = ["date_format(at, p)", "date_format(day, p)", "to_timestamp(s, p)", "to_date(s, p)"]
ROWS = 900


def drawn_row(random: Random) -> dict[str, Any]:
    moment = random.choice([random_moment(random), random.choice(MOMENTS)])
    if random.random() < 0.7:
        parts = [random.choice(list(WRITTEN)) for _ in range(random.randint(1, 7))]
        java_format, text = "".join(parts), "".join(written_part(moment, part) for part in parts)
        if random.random() < 0.3:
            place = random.randrange(len(text) + 1)
            text = text[:place] + random.choice(["", "x", " ", "0", "9", "-"]) + text[place + random.randint(0, 1) :]
    else:
        symbols = random.choice((RARE, list(WRITTEN)))
        java_format = "".join(random.choice(symbols) for _ in range(random.randint(1, 7)))
        text = random.choice(TIMES)
    clock = random.choice([0, 1, 999, 59_999, 3_600_000, 86_399_999, random.randrange(86_400_000)])
    return {"s": text, "p": java_format, "at": moment, "day": moment.date(), "clock": clock}


def written_part(moment: datetime, part: str) -> str:
    if part.startswith("S"):
        return f"{moment.microsecond:06d}"[: len(part)]
    return f"{moment.year:04d}" if part == "yyyy" else moment.strftime(WRITTEN[part])


def spark_text(text: str) -> str:
    query = parse(f"SELECT {text} FROM x")
    assert isinstance(query, s.Query)
    assert query.items[0].expression is not None
    columns = [ScopeColumn(name.upper(), "X", Sql(f"`{name}`", kind_of(kind))) for name, kind in COLUMNS.items()]
    return ColumnScope(tuple(columns)).sql(query.items[0].expression).text


@pytest.mark.parametrize("seed", seeds(1))
def test_the_model_reads_and_writes_as_spark_does(spark: SparkSession, seed: int) -> None:
    from lakehouse.spark.expression.years import compute_columns

    random = Random(seed)
    rows = [drawn_row(random) for _ in range(ROWS)]
    plain_columns = [Column(name, TYPES[name]) for name in COLUMNS]
    texts = {form: spark_text(form) for form in SQL} | {form: form for form in PYTHON}
    items = [parse_expression(text, plain_columns, form) for form, text in texts.items()]
    schema = ", ".join(f"{name} {TYPES[name]}" for name in COLUMNS)
    frame = spark.createDataFrame([tuple(row.values()) for row in rows], schema).coalesce(1)
    columns = [column.alias(form) for form, column in zip(texts, compute_columns(frame, items), strict=True)]
    wrong, compared = [], 0
    for row, results in zip(rows, frame.select(*columns).toArrow().to_pylist(), strict=True):
        for item, (form, wanted) in zip(items, results.items(), strict=True):
            try:
                value = evaluate(item, row)
            except NeedsSpark:
                continue
            compared += 1
            if value != wanted:
                wrong.append(f"{form}: model {value!r}, Spark {wanted!r}, of {row}")
    assert not wrong, "\n".join(wrong[:20])
    assert compared > 3 * ROWS
