"""Values that a change log did not send (TOAST) stay as they were: on Spark, on the model, and in a fold by other code.

A history has creates, updates that send some of the columns, deletes, updates of rows that nobody saw, truncates, and
new rows that lack a value, as where an update changed the primary key: they are bad.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

import lakehouse as lh
from lakehouse.formats.decode import decode_record
from lakehouse.model import model
from lakehouse.semantics.record import Record
from tests.properties.test_moments import check
from tests.seeds import restarts, seeds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PLACEHOLDER = "__debezium_unavailable_value"


def app_over(**options: Any) -> lh.App:
    schema = "title string from 'TITLE', body string, n int, tags array<string>"
    documents = lh.debezium("docs", key="id int", schema=schema, **options)
    whole = documents.latest("whole")
    by_body = whole.rows.group_by("body").agg(n=lh.count(), total=lh.sum("n")).table("by_body")
    return lh.app(whole, documents.drop("title").latest("narrow", suppress=True), by_body)


APP, TRUNCATED_APP = app_over(), app_over(truncates="apply")


def history(
    random: Random, size: int, ticks: int, truncates: float = 0.0
) -> tuple[list[Record], dict[int, dict[str, Any]], list[int]]:
    """Return records of one partition, the rows that an independent fold makes of them, and the bad ones' offsets."""
    rows: dict[int, dict[str, Any]] = {}
    records = []
    bad_offsets = []
    ends = sorted(random.sample(range(1, size), ticks - 1))
    for offset in range(size):
        id, kind = random.randrange(6), random.random()
        value: bytes | None = None
        key: bytes | None = json.dumps({"id": id}).encode()
        if kind > 1 - truncates:
            rows.clear()
            key, value = None, json.dumps({"op": "t", "source": {"ts_ms": offset}}).encode()
        elif kind < 0.15:
            rows.pop(id, None)
            value = random.choice([None, json.dumps({"op": "d", "source": {"ts_ms": offset}}).encode()])
        else:
            sent: dict[str, Any] = {
                "title": random.choice(["a", "b", None]), "body": random.choice(["x", "y", "body", None]),
                "n": random.randint(-2, 5), "tags": random.choice([None, [], ["t", None]]),
            }  # fmt: skip
            unsent = {name for name in ("title", "body", "tags") if random.random() < 0.4}
            operation = random.choice(["u", "u", "u", "u", "c", "r"])
            row_before = rows.get(id, {})
            row = {name: row_before.get(name) if name in unsent else item for name, item in sent.items()}
            if unsent and operation != "u":
                bad_offsets.append(offset)
            else:
                rows[id] = row
            placeholders = dict.fromkeys(unsent, PLACEHOLDER) | ({"tags": [PLACEHOLDER]} if "tags" in unsent else {})
            after = sent | placeholders
            after["TITLE"] = after.pop("title")
            value = json.dumps({"op": operation, "after": after, "source": {"ts_ms": offset}}).encode()
        tick = bisect_right(ends, offset) + 1
        records.append(Record("docs", "id", 0, offset, offset, key, value, tick, offset))
    return records, rows, bad_offsets


def check_quarantine(quarantine: dict[str, list[tuple[Record, str]]], bad_offsets: list[int]) -> None:
    bad_records = quarantine["docs"]
    assert [record.offset for record, _ in bad_records] == bad_offsets
    assert all("not sent (TOAST) with a new row" in reason for _, reason in bad_records)


@pytest.mark.parametrize("seed", seeds(*range(20)))
def test_what_was_not_sent_stays(seed: int) -> None:
    records, rows, bad_offsets = history(Random(seed), 60, 3, truncates=0.06)
    result = model.run(TRUNCATED_APP, records, decode_record)
    assert result.tables["whole"] == {(id,): row for id, row in rows.items()}
    check_quarantine(result.quarantine, bad_offsets)


@pytest.mark.rotated
@pytest.mark.parametrize("seed", seeds(1, 2, on_spark=True))
def test_spark_keeps_what_the_model_keeps(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    check_on_spark(spark, tmp_path, APP, seed, truncates=0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(1, on_spark=True))
def test_spark_truncates_as_the_model_does(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    check_on_spark(spark, tmp_path, TRUNCATED_APP, seed, truncates=0.06)


def check_on_spark(spark: SparkSession, folder: Path, app: lh.App, seed: int, truncates: float) -> None:
    from lakehouse.run.scenario.replay import SparkReplay

    records, rows, bad_offsets = history(Random(seed), 80, 4, truncates)
    expected = model.run(app, records, decode_record)
    result = SparkReplay(spark, folder)(app, records, restarts(seed, 4))
    assert result.tables["whole"] == {(id,): row for id, row in rows.items()}
    for table in app.tables:
        assert result.tables[table.name] == expected.tables[table.name], table.name
        assert result.changelogs[table.name] == expected.changelogs[table.name], table.name
    check_quarantine(result.quarantine, bad_offsets)


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(1, on_spark=True))
@pytest.mark.parametrize(("app", "truncates"), [(APP, 0), (TRUNCATED_APP, 0.06)], ids=["unsent", "truncated"])
def test_any_moment(spark: SparkSession, tmp_path: Path, seed: int, app: lh.App, truncates: float) -> None:
    records, _, _ = history(Random(seed), 80, 5, truncates)
    check(spark, tmp_path, app, records, seed, [2], [2, 3])
