"""Tests of app.py on the model: no Kafka, no Spark. The records are those of the .jsonl files."""

import json
from datetime import datetime
from pathlib import Path

from app import app

from lakehouse.testing import Replay


def result():
    replay = Replay(app)
    for topic in ("planes", "flights"):
        for line in Path(__file__).with_name(f"{topic}.jsonl").read_text().splitlines():
            record = json.loads(line)
            moment = int(datetime.fromisoformat(record["timestamp"]).timestamp() * 1000)
            replay.send(topic, key=record["key"], value=record["value"], timestamp=moment)
    return replay.run()


def test_a_plane_that_has_landed_is_not_in_the_air():
    assert [row["tailnum"] for row in result().rows("airborne")] == ["N24211", "N619AA"]


def test_delays_count_by_the_hour_of_departure():
    delays = {row["origin"]: (row["flights"], row["minutes"]) for row in result().rows("delays")}
    assert delays == {"EWR": (2, 1), "LGA": (1, 4)}


def test_a_flight_counts_with_the_seats_of_its_plane_if_that_is_known():
    assert {row["dest"]: row["seats"] for row in result().rows("seats")} == {"IAH": 298}
