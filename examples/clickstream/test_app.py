"""Tests of app.sql on the model: no Kafka, no Spark. The records are those of the .jsonl files."""

import json
from datetime import datetime
from pathlib import Path

from lakehouse.ksql.script import application
from lakehouse.testing import Replay

HERE = Path(__file__).parent


def parsed(topic, key):
    return int(key) if topic == "clickstream_codes" else key


def result():
    replay = Replay(application((HERE / "app.sql").read_text()))
    for topic in ("clickstream_users", "clickstream_codes", "clickstream"):
        for line in (HERE / f"{topic}.jsonl").read_text().splitlines():
            record = json.loads(line)
            moment = int(datetime.fromisoformat(record["timestamp"]).timestamp() * 1000)
            replay.send(topic, key=parsed(topic, record.get("key")), value=record["value"], timestamp=moment)
    return replay.run()


def test_clicks_are_counted_by_user_and_minute():
    counts = [(row["USERID"], row["EVENTS"]) for row in result().rows("EVENTS_PER_MIN")]
    assert counts == [(7, 2), (7, 1), (7, 1), (8, 1), (8, 1), (9, 7)]


def test_a_session_ends_after_five_quiet_minutes():
    sessions = [(row["USERNAME"], row["EVENTS"]) for row in result().rows("CLICK_USER_SESSIONS")]
    assert sessions == [("Ann", 3), ("Ann", 1), ("Bob", 2)]


def test_many_errors_in_a_minute_are_an_alert():
    assert {(row["STATUS"], row["ERRORS"]) for row in result().rows("ERRORS_PER_MIN_ALERT")} == {(404, 7)}


def test_a_click_of_an_unknown_user_stays():
    names = [record["USERNAME"] for record in result().topic("USER_CLICKSTREAM")]
    assert names[:3] == ["Ann", "Ann", "Bob"]
    assert names[-1] is None
