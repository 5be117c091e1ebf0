"""The windows and late records that a scenario expects, against the result of an engine."""

from __future__ import annotations

import json
from typing import Any

import pytest

import lakehouse as lh
from lakehouse.model.event import LateRecord
from lakehouse.run.scenario.compare import compare
from lakehouse.run.scenario.scenario import Result
from lakehouse.semantics.changelog import Change
from lakehouse.semantics.epoch_time import to_datetime
from lakehouse.semantics.position import Identity, Position
from lakehouse.semantics.record import Record
from lakehouse.semantics.time.window import Span

clicks = lh.stream("clicks", key="user string", schema="n bigint")
tumbled = clicks.group_by("user").window(lh.tumbling("10 milliseconds")).agg(n=lh.count()).table("tumbled")
sessions = clicks.group_by("user", "n").window(lh.session("5 milliseconds")).agg(c=lh.count()).table("sessions")
ordered = clicks.latest("ordered", order_by="n")
APP = lh.app(tumbled.changes().to_topic("out"), sessions, ordered)

AT = Position(1, 0, "clicks", 0, 0)
TUMBLED, SESSION = ("a", to_datetime(0), to_datetime(10)), ("a", 7, to_datetime(3), to_datetime(4))
RESULT = Result(
    tables={"tumbled": {TUMBLED: {"n": 2}}, "sessions": {SESSION: {"c": 1}}, "ordered": {}},
    changelogs={"tumbled": [Change(TUMBLED, {"n": 2}, 5, AT)], "sessions": [Change(SESSION, None, 4, AT)]},
    topics={"out": [Change(TUMBLED, {"n": 2}, 5, AT)]},
    late={
        "tumbled": [
            LateRecord(Identity("id", 1, 5), AT, Span(0, 10)),
            LateRecord(Identity("id", 0, 7), AT, Span(10, 20)),
        ],
        "ordered": [LateRecord(Identity("id", 0, 3), AT, None)],
    },
)
TIME = {"start": 0, "end": 10, "type": "time"}
EXPECTED: dict[str, Any] = {
    "outputs": [
        {"topic": "out", "key": "a", "window": TIME, "value": {"n": 2}, "timestamp": 5},
        {"topic": "tumbled", "key": "a", "window": TIME, "value": {"n": 2}},
        {
            "topic": "sessions",
            "key": {"user": "a", "n": 7},
            "window": {"start": 3, "end": 4, "type": "session"},
            "value": None,
        },
    ],
    "tables": {"tumbled": [{"key": "a", "window": TIME, "value": {"n": 2}}]},
    "late": {
        "tumbled": [
            {"offset": 5, "partition": 1, "window": TIME},
            {"offset": 7, "window": {"start": 10, "end": 20, "type": "time"}},
        ],
        "ordered": [{"offset": 3}],
    },
}


def test_an_expected_result_gives_no_text() -> None:
    assert compare(APP, RESULT, EXPECTED) == []


@pytest.mark.parametrize("name", ["tables", "quarantine", "null_keys", "late"])
def test_a_name_that_does_not_exist_is_reported_even_where_nothing_is_expected(name: str) -> None:
    (text,) = compare(APP, RESULT, {name: {"tumbeld": 0 if name == "null_keys" else []}})
    assert "tumbeld: does not exist" in text


@pytest.mark.parametrize(
    ("path", "value", "text"),
    [
        (("outputs", 0, "window", "end"), 11, "topic out: expected 1 records, found 1"),
        (("outputs", 2, "window", "type"), "time", "topic sessions: expected 1 records"),
        (("tables", "tumbled", 0, "window"), None, "table tumbled: expected 1 rows, found 1"),
        (("tables", "tumbled", 0, "window", "type"), "session", "table tumbled: expected 1 rows"),
        (("late", "tumbled", 0, "partition"), 0, "table tumbled: expected 2 late records, found 2"),
        (("late", "tumbled", 1, "window", "start"), 11, "+ {\"offset\":7,\"partition\":0,\"window\":{\"start\":10,"),
        (("late", "tumbled"), [], "table tumbled: expected 0 late records, found 2"),
        (("late", "tumbled", 1, "topic"), "views", "\"topic\":\"clicks\"}"),
        (("late", "ordered", 0, "window"), TIME, "table ordered: expected 1 late records"),
        (("late", "nowhere"), [], "table nowhere: does not exist. There are: ordered, tumbled"),
    ],
)  # fmt: skip
def test_a_difference_is_shown(path: tuple[Any, ...], value: Any, text: str) -> None:
    expected = json.loads(json.dumps(EXPECTED))  # so that no two parts are the same object
    place: Any = expected
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    (failure,) = compare(APP, RESULT, expected)
    assert text in failure


def test_records_of_several_topics_are_told_apart_where_a_scenario_names_them() -> None:
    bad = [(Record(topic, "id", 0, 3, 0, None, b"", 1, 0), "no json") for topic in ("clicks", "views")]
    late = [LateRecord(Identity(topic, 0, 3), AT._replace(topic=topic), None) for topic in ("clicks", "views")]
    result = Result(quarantine={"clicks": bad}, late={"ordered": late})
    for name, of in (("quarantine", "clicks"), ("late", "ordered")):
        assert not compare(APP, result, {name: {of: [{"offset": 3}, {"offset": 3}]}})
        assert not compare(APP, result, {name: {of: [{"offset": 3, "topic": "clicks"}, {"offset": 3}]}})
        (text,) = compare(APP, result, {name: {of: [{"offset": 3, "topic": "views"}, {"offset": 3}]}})
        assert '"topic":"views"}' in text


def test_late_records_are_in_order_of_arrival() -> None:
    backwards = {"late": {"tumbled": EXPECTED["late"]["tumbled"][::-1]}}
    assert compare(APP, RESULT, backwards)


def test_a_repeated_tombstone_of_a_table_may_be_expected_and_lack() -> None:
    """Kafka Streams writes it where both sides of a join by a foreign key are deleted."""
    row: dict[str, Any] = {"topic": "ordered", "key": "a", "value": {"n": 1}}
    tombstone = row | {"value": None}
    changes = [Change(("a",), {"n": 1}, 1, AT), Change(("a",), None, 2, AT)]

    def report(expected: list[dict[str, Any]], topic_changes: list[Change]) -> list[str]:
        return compare(APP, Result(changelogs={"ordered": topic_changes}), {"outputs": expected})

    assert not report([row, tombstone, tombstone], changes)
    assert not report([row, tombstone, tombstone, row], [*changes, changes[0]])
    assert report([row, tombstone, row, tombstone], changes), "the second one deletes another row"
    assert report([row, tombstone, tombstone | {"key": "b"}], changes), "of another key"
    assert report([row, tombstone], [*changes, changes[1]]), "one that a table's changelog should not have"
