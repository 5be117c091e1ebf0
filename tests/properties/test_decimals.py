"""Sums and averages of decimals of every width are exact or null, as in Python's own exact arithmetic.

Values lie at the limits of their types, so that sums leave them and come back, within a batch and across batches.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lakehouse as lh
from lakehouse.formats.decode import decode_record
from lakehouse.model import model
from lakehouse.semantics.record import Record
from tests.seeds import restarts, seeds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Precision and scale: where the parts of a wide sum are cut, and the largest of each.
DIGITS = [
    (38, 30), (38, 0), (38, 38), (19, 0), (18, 18),
]  # fmt: skip
COLUMNS = {f"d{precision}_{scale}": (precision, scale) for precision, scale in DIGITS}
LONGS = ["n"]
SCHEMA = ", ".join([*(f"{name} decimal({p}, {s})" for name, (p, s) in COLUMNS.items()), "n bigint"])
NUMBERS = lh.stream("numbers", key="id string", schema=SCHEMA).group_by("id")
SUMS = {f"sum_{name}": lh.sum(name) for name in [*COLUMNS, *LONGS]}
MEANS = {f"avg_{name}": lh.avg(name) for name in [*COLUMNS, *LONGS]}
OTHERS = {"min_d38_30": lh.min("d38_30"), "max_d38_38": lh.max("d38_38"), "last_d38_0": lh.latest("d38_0")}
APP = lh.app(
    NUMBERS.agg(**SUMS, **MEANS, **OTHERS, n=lh.count()).table("in_sql"),
    NUMBERS.window(lh.session("1 hour")).agg(**SUMS, avg=lh.avg("d38_30")).table("in_python"),
)


def whole(random: Random, digits: int) -> int:
    """A whole number of at most `digits` digits, often one at the limit."""
    most = 10**digits - 1
    return random.choice([most, -most, most, 1, -1, 0, 10 ** (digits // 2), random.randint(-most, most)])


def text(number: int, scale: int) -> str:
    digits = str(abs(number)).rjust(scale + 1, "0")
    split = len(digits) - scale
    return f"{'-' if number < 0 else ''}{digits[:split]}{'.' if scale else ''}{digits[split:]}"


def history(seed: int, size: int, ticks: int) -> tuple[list[Record], dict[str, dict[str, list[int]]]]:
    """Records of two keys in some ticks, and each column's values by key, as whole numbers of its smallest unit."""
    random = Random(seed)
    records, values = [], {key: {name: [] for name in [*COLUMNS, *LONGS]} for key in "ab"}
    for number in range(size):
        key, row = random.choice("ab"), {}
        for name in [*COLUMNS, *LONGS]:
            precision, scale = COLUMNS.get(name, (0, 0))
            if random.random() < 0.1:
                continue
            item = whole(random, precision) if precision else random.choice([2**63 - 1, -(2**63), 1, -1])
            values[key][name].append(item)
            row[name] = text(item, scale)
        body = "{" + ", ".join(f'"{name}": {item}' for name, item in row.items()) + "}"
        records.append(
            Record("numbers", "id", 0, number, number, key.encode(), body.encode(), number * ticks // size + 1, number)
        )
    return records, values


def check(rows: dict[Any, dict[str, Any]], values: dict[str, dict[str, list[int]]]) -> None:
    for (key, *_), row in rows.items():
        for name, items in values[key].items():
            precision, scale = COLUMNS.get(name, (0, 0))
            exact = Fraction(sum(items), 10**scale)
            fits = abs(sum(items)) < 10 ** min(precision + 10, 38) if precision else -(2**63) <= exact < 2**63
            shown = row[f"sum_{name}"]
            assert (None if shown is None else Fraction(shown)) == (exact if fits else None), f"sum_{name}"
            mean = float(exact) / len(items) if items else 0.0
            assert row.get(f"avg_{name}", mean) == mean, f"avg_{name}"
            assert row.get("avg", 0.0) == 0.0 or name != "d38_30" or row["avg"] == mean
        least, most, last = (values[key][name] for name in ("d38_30", "d38_38", "d38_0"))
        if "min_d38_30" not in row:
            continue
        assert row["min_d38_30"] is None or Fraction(row["min_d38_30"]) == Fraction(min(least), 10**30)
        assert row["max_d38_38"] is None or Fraction(row["max_d38_38"]) == Fraction(max(most), 10**38)
        assert row["last_d38_0"] is None or int(row["last_d38_0"]) == last[-1]


@given(seed=st.integers(1, 2**32))
def test_the_model_sums_decimals_of_every_width_exactly(seed: int) -> None:
    records, values = history(seed, 24, 3)
    result = model.run(APP, records, decode_record)
    check(result.tables["in_sql"], values)
    check(result.tables["in_python"], values)


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(1, 2, on_spark=True))
def test_a_sum_of_wide_decimals_drops_no_value_and_stops_nothing(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    from lakehouse.run.scenario.replay import SparkReplay

    records, values = history(seed, 24, 3)
    expected = model.run(APP, records, decode_record)
    result = SparkReplay(spark, tmp_path)(APP, records, restarts(seed, 3))
    for table in ("in_sql", "in_python"):
        check(result.tables[table], values)
        assert result.changelogs[table] == expected.changelogs[table]
