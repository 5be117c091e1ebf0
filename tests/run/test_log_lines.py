"""A run as lines of a log: what each event says, at which level, as text and as JSON."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from lakehouse.run.watch.event import JobEvent
from lakehouse.run.watch.lines import Lines, event_text
from lakehouse.settings.config import Log

NOW = datetime(2026, 11, 23, 12, 0, 0, 5000, tzinfo=UTC)


def told(*events: JobEvent, level: Any = "info", form: Any = "text") -> list[str]:
    lines: list[str] = []
    write = Lines(Log(level, form), lines.append, lambda: NOW)
    for event in events:
        write(event)
    return lines


@pytest.mark.parametrize(
    ("kind", "records", "details", "text"),
    [
        ("tick", 1, {"took": 0.84}, "tick 7: 1 record in bronze (0.8 s)"),
        ("batch", 1_200, {"took": 1.0}, "tables at tick 7: 1,200 records taken in (1.0 s)"),
        ("published", 5, {"topic": "rooms", "took": 0.2}, "published to rooms, up to tick 7: 5 records (0.2 s)"),
        ("lag", 0, {"topics": {"a": {"0": 0}}}, "lag: 0 records in Kafka that bronze does not have"),
        (
            "lag", 12, {"topics": {"a": {str(p): p for p in range(5)}, "b": {"0": 2}}},
            "lag: 12 records in Kafka that bronze does not have: a/4 4, a/3 3, a/2 2, b/0 2, a/1 1",
        ),
        ("kafka away", 0, {"message": "no answer"}, "Kafka does not answer: no answer"),
        ("kafka back", 0, {"away_seconds": 34.6}, "Kafka answers again, after 35 s"),
        (
            "upkeep", 0, {"part": "silver-0a1b", "files_before": 1_000, "files_after": 4, "took": 2.0},
            "upkeep of silver: 1,000 files are now 4 (2.0 s)",
        ),
        ("upkeep failed", 0, {"part": "bronze", "message": "no"}, "upkeep failed, the run continues: no"),
        ("snapshot left out", 0, {"message": "no"}, "snapshots are left out, the run continues: no"),
        ("snapshot delayed", 0, {"message": "no"}, "snapshots wait, the run continues: no"),
        (
            "function failed", 3, {"function": "map price", "table": "t", "first": "a/0/1", "error": "ValueError: x"},
            "map price of table t failed on 3 records, the run continues without them; the first, a/0/1: ValueError: x",
        ),
        (
            "expectation unmet", 1,
            {"expectation": "seen.positive", "table": "t", "first": "a/0/1", "reason": "n > 0, found -1"},
            "1 record of table t does not meet expectation seen.positive, and counts; the first, a/0/1: n > 0, found "
            "-1",
        ),
        (
            "waiting", 0, {"upstream": "planes", "readers": ["a", "b"], "is_kept": False},
            "held back by table planes of another application, which is at tick 7: a, b; no process keeps the table: "
            "run its application",
        ),
        (
            "waiting", 0, {"upstream": "planes", "readers": ["a"], "is_kept": True},
            "held back by table planes of another application, which is at tick 7: a; its process runs",
        ),
        (
            "watch failed", 0, {"part": "table of visits", "message": "x"},
            "table of visits can't be looked at, the run continues: x",
        ),
        ("new", 0, {}, 'new: {"event": "new", "tick": 7, "records": 0, "seconds": 1.5}'),
    ],
)  # fmt: skip
def test_an_event_in_words(kind: str, records: int, details: dict[str, Any], text: str) -> None:
    assert event_text(JobEvent(kind, 7, records, 1.5, details)) == text


def test_a_line_has_a_time_and_a_level_and_is_one_line() -> None:
    assert told(JobEvent("tick", 7, 2, 1.5), JobEvent("upkeep failed", 0, 0, 2.0, {"message": "a\nb\r"})) == [
        "2026-11-23T12:00:00.005Z info    tick 7: 2 records in bronze",
        r"2026-11-23T12:00:00.005Z warning upkeep failed, the run continues: a\nb\r",
    ]


def test_a_level_leaves_out_what_is_below_it() -> None:
    events = [JobEvent("tick", 7, 2, 1.5), JobEvent("kafka away", 0, 0, 2.0, {"message": "a"})]
    assert [len(told(*events, level=level)) for level in ("debug", "info", "warning", "error")] == [2, 2, 1, 0]


def test_that_all_is_taken_in_is_said_once() -> None:
    events = [JobEvent("lag", 0, waits, 1.0, {"topics": {}}) for waits in (5, 5, 0, 0, 0, 3)]
    assert [line.split("lag: ")[1].split()[0] for line in told(*events)] == ["5", "5", "0", "3"]
    assert len(told(*events, level="debug")) == 6


def test_as_json_a_line_has_the_event_too() -> None:
    (line,) = told(JobEvent("tick", 7, 2, 1.5, {"took": 0.25}), form="json")
    assert json.loads(line) == {
        "time": "2026-11-23T12:00:00.005Z", "level": "info", "message": "tick 7: 2 records in bronze (0.2 s)",
        "event": "tick", "tick": 7, "records": 2, "seconds": 1.5, "took": 0.25,
    }  # fmt: skip


def test_as_json_the_message_is_the_line_also_where_the_event_has_one() -> None:
    (line,) = told(JobEvent("kafka away", 0, 0, 2.0, {"message": "no answer"}), form="json")
    assert json.loads(line)["message"] == "Kafka does not answer: no answer"
