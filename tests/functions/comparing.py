"""Expressions over generated rows, on Spark in one job and on the model: where do the two differ?"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakehouse.errors import NeedsSpark
from lakehouse.model.evaluate import evaluate
from lakehouse.plan.expression.expression import expression_type, parse_expression
from lakehouse.plan.expression.schema import Column
from lakehouse.plan.spark_functions.record import word_set

from .columns import COLUMNS, rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FIXED, FIXED_ROWS = 33, 60
PLAIN = [Column(name, kind) for name, (kind, _, _) in COLUMNS.items()]
ENTRIES = "array<struct<key: string, value: int>>"
TOGETHER = 80  # expressions in a job
# Functions that Java computes in its own way: their last digit may be another one.
INEXACT = word_set(
    """
    acos acosh asin asinh atan atan2 atanh cbrt cos cosh cot csc exp expm1 hypot ln log log10 log1p log2 pow power
    sec sin sinh tan tanh degrees radians
    """
)


@dataclass
class Outcome:
    """What the model gave for one expression, compared with Spark."""

    text: str
    differs: list[str] = field(default_factory=list)
    compared: int = 0  # rows for which it gave a value
    kind: str = ""  # its type on Spark


@cache
def frame(spark: SparkSession, seed: int, many: int) -> tuple[list[dict[str, Any]], Any]:
    """Return the rows of the fixed seed and so many of another one, and the same as a frame of one partition."""
    made = rows(FIXED, FIXED_ROWS) + rows(seed, many)
    # A map is sent as its entries: Python's own way through Java loses their order.
    kinds = {name: kind for name, (kind, _, _) in COLUMNS.items()}
    sent = {name: ENTRIES if kind.startswith("map") else kind for name, kind in kinds.items()}
    written = [tuple(_sent(name, row[name]) for name in COLUMNS) for row in made]
    of = spark.createDataFrame(written, ", ".join(f"{name} {kind}" for name, kind in sent.items()))
    texts = [f"map_from_entries({name}) AS {name}" if sent[name] == ENTRIES else name for name in COLUMNS]
    return made, of.selectExpr(*texts).coalesce(1).cache()


def _sent(name: str, value: Any) -> Any:
    """A row's value for Spark: a struct by its places, a map as its entries."""
    if name in ("m", "o"):
        return None if value is None else list(value.items())
    if name == "w":
        return None if value is None else tuple(value.values())
    return [_sent("w", item) for item in value] if name == "ws" and value is not None else value


def compare(spark: SparkSession, texts: Sequence[str], seed: int, many: int) -> list[Outcome]:
    """Return for each expression what the model gave beside Spark, over the fixed rows and so many of a seed."""
    made, of = frame(spark, seed, many)
    outcomes = []
    for start in range(0, len(texts), TOGETHER):
        part = texts[start : start + TOGETHER]
        given = on_spark(of, part)
        outcomes += [beside(text, made, *given[text]) for text in part]
    return outcomes


def on_spark(of: DataFrame, texts: Sequence[str]) -> dict[str, tuple[str, list[Any]]]:
    """Return each expression's type, and its values for all rows, by one job."""
    from lakehouse.spark.expression.years import compute_columns

    items = [parse_expression(text, PLAIN, text) for text in texts]
    result = of.select([column.alias(f"c{number}") for number, column in enumerate(compute_columns(of, items))])
    kinds = [field.dataType.simpleString() for field in result.schema]
    columns = result.toArrow()
    values = [column.to_pylist() for column in columns.columns]
    return {text: (kind, of) for text, kind, of in zip(texts, kinds, values, strict=True)}


def beside(text: str, made: list[dict[str, Any]], kind: str, given: list[Any]) -> Outcome:
    """Return what the model gives for an expression beside its type and values on Spark."""
    item = parse_expression(text, PLAIN, text)
    outcome = Outcome(text, kind=kind)
    told = expression_type(item, PLAIN)
    if told is not None and not is_one_type(told, kind):
        outcome.differs.append(f"its type is {kind}, told as {told}")
    exact = not any(f"{name}(" in text.lower() for name in INEXACT)
    for row, wanted in zip(made, given, strict=True):
        try:
            value = evaluate(item, row)
        except NeedsSpark:
            continue
        except Exception as error:
            value = error
        outcome.compared += 1
        if not _same(value, wanted, exact=exact):
            read = {name: row[name] for name in item.columns() if name in row}
            outcome.differs.append(f"model {value!r}, Spark {wanted!r}, of {read!r}")
    return outcome


def is_one_type(told: str, kind: str) -> bool:
    """Say whether two texts of a type are the same, whatever the case of the names of fields."""
    return told.replace(" ", "").lower() == kind.replace(" ", "").lower()


def _same(a: Any, b: Any, *, exact: bool) -> bool:
    if isinstance(a, dict) and isinstance(b, list):
        b = dict(b) if all(isinstance(item, tuple) for item in b) else b
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_same(a[name], b[name], exact=exact) for name in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(_same(one, other, exact=exact) for one, other in zip(a, b, strict=True))
    if isinstance(a, float) and isinstance(b, float):
        if math.isnan(a) or math.isnan(b):
            return math.isnan(a) and math.isnan(b)
        if not exact and math.isclose(a, b, rel_tol=1e-13, abs_tol=1e-300):
            return True
        return a == b and math.copysign(1, a) == math.copysign(1, b)
    if isinstance(a, bytes | bytearray) and isinstance(b, bytes | bytearray):
        return bytes(a) == bytes(b)
    return type(a).__name__ == type(b).__name__ and str(a) == str(b) if not _is_moment(a) else a == b


def _is_moment(value: Any) -> bool:
    return hasattr(value, "tzinfo")


def listed(path: Path) -> dict[str, str]:
    """Return the lines of a list: an expression, and after a tab what is known of it."""
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    return dict(line.rsplit("\t", 1) for line in lines if line and not line.startswith("#"))


def judged(outcomes: Iterable[Outcome], differing: dict[str, str]) -> list[str]:
    """Return what differs and is not on the list of known faults, and what is on it and differs no more."""
    wrong = []
    for outcome in outcomes:
        if outcome.differs and outcome.text not in differing:
            wrong.append(f"{outcome.text}: {len(outcome.differs)} differ: {outcome.differs[0]}")
        if not outcome.differs and outcome.text in differing:
            wrong.append(f"{outcome.text}: no longer differs; take it off the list")
    return wrong


def needing(texts: Iterable[str]) -> dict[str, str]:
    """Return the expressions for which the model needs Spark for one of the fixed rows: always, or sometimes."""
    made, result = rows(FIXED, FIXED_ROWS), {}
    for text in texts:
        item, silent = parse_expression(text, PLAIN, text), 0
        for row in made:
            try:
                evaluate(item, row)
            except NeedsSpark:
                silent += 1
        if silent:
            result[text] = "sometimes" if silent < FIXED_ROWS - 1 else "always"  # the row of nulls may be known
    return result
