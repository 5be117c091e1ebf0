"""What is written for a moment in a zone and read back is the moment, in all zones, around the hours of change."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING
from zoneinfo import available_timezones

import pytest

from lakehouse.errors import NeedsSpark
from lakehouse.model.evaluate import evaluate
from lakehouse.plan.expression.expression import Expression
from tests.ksql.zones import NOT_JAVAS, compiled, forms, moments, names, wrong
from tests.seeds import seeds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMS = {name: Expression(compiled(text)) for name, text in forms().items()}


@pytest.mark.rotated
@pytest.mark.parametrize("seed", seeds(33))
def test_a_round_trip_on_the_model(seed: int) -> None:
    dice, failures = Random(seed), []
    backs = {name: form for name, form in FORMS.items() if name.startswith("back_")}
    for zone in names(dice, 60):
        for millis in moments(dice, zone, 4):
            row = {name: evaluate(form, {"ms": millis, "zone": zone}) for name, form in backs.items()}
            failures += wrong(row, millis, zone)
    assert not failures, "\n".join(failures[:20])


def test_a_clock_that_is_put_back_shows_an_hour_twice_with_two_offsets() -> None:
    text = Expression(compiled("TIMESTAMPTOSTRING(ms, 'HH:mm xxx z', zone)"))
    shown = [evaluate(text, {"ms": ms, "zone": "Europe/Berlin"}) for ms in (1_603_584_000_000, 1_603_587_600_000)]
    assert shown == ["02:00 +02:00 CEST", "02:00 +01:00 CET"]


@pytest.mark.rotated
@pytest.mark.parametrize("seed", seeds())
def test_spark_and_the_model_write_and_read_the_same_in_all_zones(seed: int, spark: SparkSession) -> None:
    from lakehouse.spark.expression.declared import column_of

    dice = Random(seed)
    zones = names(dice, len(available_timezones() - NOT_JAVAS) - 11)
    rows = [(millis, zone) for zone in zones for millis in moments(dice, zone, 3)]
    rows += [(0, "Nowhere/Else"), (0, ""), (None, "UTC"), (0, None)]
    columns = [column_of(form).alias(name) for name, form in FORMS.items()]
    frame = spark.createDataFrame(rows, "ms long, zone string").select("ms", "zone", *columns)
    failures, asked = [], 0
    for row in frame.collect():
        values = row.asDict()
        for name, form in FORMS.items():
            try:
                expected = evaluate(form, {"ms": row["ms"], "zone": row["zone"]})
            except NeedsSpark:
                asked += 1
                continue
            if values[name] != expected:
                failures.append(f"{name} of {row['ms']} in {row['zone']}: {values[name]}, by the model {expected}")
        if row["ms"] is not None and row["zone"] in zones:
            failures += wrong(values, row["ms"], row["zone"])
    assert not failures, f"{len(failures)} of {len(rows)}:\n" + "\n".join(failures[:30])
    assert asked < len(rows)  # short names of zones that have none in letters
