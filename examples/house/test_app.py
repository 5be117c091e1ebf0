"""Tests of app.py on the model: no Kafka, no Spark. The records are those of readings.jsonl."""

import json
from decimal import Decimal
from pathlib import Path

from app import app

from lakehouse.testing import Replay

RECORDS = [json.loads(line) for line in Path(__file__).with_name("readings.jsonl").read_text().splitlines()]


def sent():
    replay = Replay(app)
    for number, record in enumerate(RECORDS):
        replay.send("readings", key=record["key"], value=record["value"], timestamp=1000 + number)
    return replay


def test_the_last_reading_of_each_sensor_is_kept_and_a_null_value_deletes_it():
    assert [(row["sensor"], row["celsius"]) for row in sent().run().rows("last_reading")] == [("s1", Decimal("22.00"))]


def test_rooms_count_every_reading_also_of_a_sensor_that_is_gone():
    rooms = {row["room"]: (row["readings"], row["degrees"]) for row in sent().run().rows("rooms")}
    assert rooms == {"attic": (2, Decimal("43.50")), "cellar": (1, Decimal("11.25"))}


def test_a_reading_that_is_no_number_is_in_the_quarantine():
    assert [bad["offset"] for bad in sent().run().quarantined("readings")] == [4]
