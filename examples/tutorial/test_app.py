"""Tests of app.py on the model: no Kafka, no Spark. The records are those of the .jsonl files."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from app import app

from lakehouse.testing import Replay


@pytest.fixture(scope="module")
def result():
    replay = Replay(app)
    for topic, file in (("planes", "planes"), ("flights", "morning"), ("flights", "evening")):
        for line in Path(__file__).with_name(f"{file}.jsonl").read_text().splitlines():
            record = json.loads(line)
            moment = int(datetime.fromisoformat(record["timestamp"]).timestamp() * 1000)
            replay.send(topic, key=record["key"], value=record["value"], timestamp=moment)
    return replay.run()


def test_a_plane_is_where_it_left_last(result):
    row = result.row("location", "N503JB")
    assert (row["dest"], row["departed_at"]) == ("BUF", datetime(2013, 1, 1, 14, 33, tzinfo=UTC))


def test_flights_are_counted_by_the_hour_of_departure(result):
    jfk = [row["flights"] for row in result.rows("delays") if row["origin"] == "JFK"]
    assert jfk[:4] == [7, 15, 13, 25]


def test_seats_are_those_of_planes_that_are_known(result):
    assert [(row["origin"], row["flights"], row["seats"]) for row in result.rows("seats")] == [
        ("EWR", 288, 36820),
        ("JFK", 246, 36996),
        ("LGA", 159, 23347),
    ]


def test_late_records_are_kept_and_the_wrong_one_is_in_the_quarantine(result):
    assert result.late("delays")
    assert [record["value"]["delay"] for record in result.quarantined("flights")] == ["12 minutes"]
