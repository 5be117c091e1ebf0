"""`lakehouse.testing`: what a user's test can send and ask for."""

from __future__ import annotations

import enum
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy
import pytest

import lakehouse as lh
from lakehouse.errors import ConfigError, NeedsSpark, PlanError
from lakehouse.testing import Replay

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

orders = lh.stream("orders", key="id string", schema="customer string, amount decimal(10, 2), at timestamp")
current = orders.latest("current")
totals = orders.group_by("customer").agg(orders=lh.count(), total=lh.sum("amount")).table("totals")
SHOP = lh.app(current, totals.changes().to_topic("totals-changelog"))


def shop(engine: str = "model") -> Replay:
    """Ann orders twice, Bob once; then a bad order, one without a key, and a tombstone for Ann's first order."""
    replay = Replay(SHOP, engine=engine)
    replay.send("orders", key="1", value={"customer": "ann", "amount": 2.50}, timestamp=10)
    replay.send("orders", key="2", value={"customer": "bob", "amount": Decimal("4.00")}, timestamp=20)
    replay.send("orders", key="3", value={"customer": "ann", "amount": 3}, timestamp=30)
    replay.send("orders", key="4", value="no order", timestamp=40)
    replay.send("orders", value={"customer": "eve", "amount": 1}, timestamp=50)
    return replay.send("orders", key="1", value=None, timestamp=60)


def test_rows_are_dicts_of_key_and_values_in_the_order_of_their_keys():
    result = shop().run()
    assert result.rows("totals") == [
        {"customer": "ann", "orders": 2, "total": Decimal("5.50")},
        {"customer": "bob", "orders": 1, "total": Decimal("4.00")},
        {"customer": "eve", "orders": 1, "total": Decimal("1.00")},
    ]
    assert [row["id"] for row in result.rows("current")] == ["2", "3"]


def test_one_row_by_its_key():
    result = shop().run()
    assert result.row("totals", "bob") == {"customer": "bob", "orders": 1, "total": Decimal("4.00")}
    assert result.row("totals", "nobody") is None


def test_changes_are_in_order_and_say_what_was_deleted():
    actual = shop().run().changes("current")
    assert [(change["id"], change["customer"], change["deleted"], change["timestamp"]) for change in actual] == [
        ("1", "ann", False, 10),
        ("2", "bob", False, 20),
        ("3", "ann", False, 30),
        ("1", None, True, 60),
    ]


def test_a_topic_holds_what_is_published():
    result = shop().run()
    assert result.topic("totals-changelog") == result.changes("totals")
    assert result.changes("totals")[2] == {
        "customer": "ann", "orders": 2, "total": Decimal("5.50"), "deleted": False, "timestamp": 30,
    }  # fmt: skip


def test_what_does_not_fit_is_quarantined_as_it_was_sent():
    (bad,) = shop().run().quarantined("orders")
    assert (bad["offset"], bad["key"], bad["value"], bad["timestamp"]) == (3, "4", "no order", 40)
    assert "expected a JSON object" in bad["reason"]


def test_null_keys_are_counted():
    result = shop().run()
    assert (result.null_keys("current"), result.null_keys("totals")) == (1, 0)


def test_it_runs_again_with_what_was_sent_since():
    replay = shop()
    assert replay.run().row("totals", "bob")["orders"] == 1
    replay.send("orders", key="5", value={"customer": "bob", "amount": 1})
    assert replay.run().row("totals", "bob")["orders"] == 2


def test_a_stream_in_a_topic_keeps_null_keys_and_null_values():
    replay = Replay(lh.app(orders.select("amount").to_topic("amounts")))
    replay.send("orders", value={"amount": 1}).send("orders", key="1")
    assert replay.run().topic("amounts") == [
        {"id": None, "amount": Decimal("1.00"), "deleted": False, "timestamp": 0},
        {"id": "1", "amount": None, "deleted": True, "timestamp": 0},
    ]


def test_columns_named_like_the_marks_keep_their_names():
    notes = lh.stream("notes", key="id string", schema="deleted boolean, timestamp timestamp")
    replay = Replay(lh.app(notes.latest("notes"))).send("notes", key="1", value={"deleted": True}, timestamp=7)
    assert replay.run().changes("notes") == [
        {"id": "1", "deleted": True, "timestamp": None, "_deleted": False, "_timestamp": 7}
    ]


def test_windows_are_part_of_the_key_and_late_records_are_shown():
    #  0         10        20        30
    #  |--ann----|---------|----ann--|     then ann at 5: her window [0, 10) closed at 10 + grace 5
    by_ten = (
        orders.group_by("customer")
        .window(lh.tumbling("10 milliseconds", grace="5 milliseconds"))
        .agg(n=lh.count())
        .table("by_ten")
    )
    replay = Replay(lh.app(by_ten))
    for timestamp in (3, 25, 5):
        replay.send("orders", key=str(timestamp), value={"customer": "ann"}, timestamp=timestamp)
    result = replay.run()
    start = datetime(1970, 1, 1, tzinfo=UTC)
    assert result.row("by_ten", "ann", 0, 10) == {
        "customer": "ann", "window_start": start, "window_end": start + timedelta(milliseconds=10), "n": 1,
    }  # fmt: skip
    assert result.row("by_ten", "ann", start, start + timedelta(milliseconds=10))["n"] == 1
    (late,) = result.late("by_ten")
    assert (late["offset"], late["key"], late["timestamp"], late["window_start"]) == (2, "5", 5, start)


def test_a_window_that_is_not_named_is_asked_for():
    by_ten = orders.group_by("customer").window(lh.tumbling("10 milliseconds")).agg(n=lh.count()).table("by_ten")
    with pytest.raises(ConfigError, match="the key is customer, window_start, window_end"):
        Replay(lh.app(by_ten)).run().row("by_ten", "ann")


def test_partitions_are_ordered_by_their_order_times():
    """Records are sent in any order; within a tick the running maximum of a partition's timestamps counts."""
    cities = lh.app(lh.stream("cities", key="name string", schema="city string").latest("location"))
    replay = Replay(cities)
    replay.send("cities", key="alice", value={"city": "Rome"}, timestamp=20, partition=1)
    replay.send("cities", key="alice", value={"city": "Paris"}, timestamp=10, partition=0)
    assert replay.run().row("location", "alice")["city"] == "Rome"
    ticked = Replay(cities)
    ticked.send("cities", key="alice", value={"city": "Rome"}, timestamp=20, partition=1).tick().tick()
    ticked.send("cities", key="alice", value={"city": "Paris"}, timestamp=10, partition=0)
    assert ticked.run().row("location", "alice")["city"] == "Paris"


def test_a_timestamp_is_milliseconds_or_a_moment():
    moment = datetime(2026, 1, 31, 12, tzinfo=UTC)
    replay = Replay(SHOP).send("orders", key="1", value={"customer": "ann", "at": moment}, timestamp=moment)
    (change,) = replay.run().changes("current")
    assert change["timestamp"] == 1_769_860_800_000
    assert change["at"] == moment


def test_keys_and_values_of_every_format():
    pairs = lh.stream("pairs", key="country string, code int", schema="city string, n int", format="csv")
    longs = lh.stream("longs", key="id int", schema="raw binary", format="kafka")
    people = lh.stream("people", key="who struct<first: string, last: string>", schema="city string")
    replay = Replay(lh.app(pairs.latest("places"), longs.latest("bytes"), people.latest("homes")))
    replay.send("pairs", key=("PE", 1), value="Lima,3")
    replay.send("pairs", key={"country": "PE", "code": 2}, value={"city": "Cusco"})
    replay.send("longs", key=7, value=b"\x00\xff").send("longs", key=8, value_bytes=b"\x01")
    replay.send("people", key={"first": "Ada", "last": None}, value={"city": "Paris"})
    result = replay.run()
    assert result.row("places", "PE", 1) == {"country": "PE", "code": 1, "city": "Lima", "n": 3}
    assert result.row("places", "PE", 2) == {"country": "PE", "code": 2, "city": "Cusco", "n": None}
    assert [row["raw"] for row in result.rows("bytes")] == [b"\x00\xff", b"\x01"]
    ada = {"first": "Ada", "last": None}
    assert result.row("homes", ada) == {"who": ada, "city": "Paris"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"topic": "nothing"}, "the application does not read it; it reads orders"),
        ({"key": 5}, "the key can't be encoded: id string: expected string, found 5"),
        ({"value": {"at": datetime(2026, 1, 31)}}, "the value can't be encoded: .* has no zone"),
        ({"value": {1, 2}}, "the value can't be encoded"),
        ({"key": "1", "key_bytes": b"1"}, "its bytes beside it"),
        ({"timestamp": "now"}, "expected milliseconds, or a datetime with a zone"),
        ({"timestamp": datetime(2026, 1, 31)}, "expected milliseconds, or a datetime with a zone"),
        ({"partition": -1}, "expected a number from 0"),
        ({"value_bytes": "{}"}, "value_bytes is a str; expected bytes"),
        ({"key_bytes": memoryview(b"1")}, "key_bytes is a memoryview; expected bytes"),
        *[({"headers": headers}, "expected a dict, or pairs: names with text or bytes")
          for headers in (5, None, "ab", [("a",)], {1: "b"}, {"a": 1}, {"\ud800": "x"}, {"a": "\ud800"})],
    ],
)  # fmt: skip
def test_what_cannot_be_sent_is_refused_by_send(arguments, said):
    with pytest.raises(ConfigError, match=said):
        Replay(SHOP).send(**{"topic": "orders", **arguments})


def test_numbers_and_names_of_other_types_are_written_as_they_are():
    """NumPy's float64 is a float whose repr is no number, and a member of an enumeration is a text with another str."""
    name = enum.Enum("name", {"AMOUNT": "amount"}, type=str)
    replay = Replay(SHOP).send("orders", key="1", value={"customer": "ann", name.AMOUNT: numpy.float64(2.5)})
    assert replay.run().row("totals", "ann")["total"] == Decimal("2.50")


def test_a_line_is_a_text_and_no_list():
    pairs = lh.stream("pairs", key="id string", schema="city string, n int", format="csv")
    with pytest.raises(ConfigError, match="expected the line, or a dict of columns"):
        Replay(lh.app(pairs.latest("places"))).send("pairs", key="1", value=("Lima", 3))


def test_a_missing_name_is_in_the_error():
    result = shop().run()
    with pytest.raises(PlanError, match="current, totals"):
        result.rows("nothing")
    with pytest.raises(ConfigError, match="it writes totals-changelog"):
        result.topic("nothing")
    with pytest.raises(ConfigError, match="There are: orders"):
        result.quarantined("nothing")
    with pytest.raises(ConfigError, match="expected an application"):
        Replay(orders)
    with pytest.raises(ConfigError, match="engine='duckdb'"):
        Replay(SHOP, engine="duckdb")


def test_what_the_model_cannot_evaluate_needs_spark():
    replay = Replay(lh.app(orders.select("soundex(customer) AS sound").latest("sounds")))
    with pytest.raises(NeedsSpark, match="run this on Spark"):
        replay.send("orders", key="1", value={"customer": "ann"}).run()


@pytest.mark.rotated
def test_spark_gives_the_same(spark: SparkSession):
    """Replays share the existing session; their folders are removed afterwards."""
    model, real = shop().run(), shop("spark").run()
    for table in ("current", "totals"):
        assert real.rows(table) == model.rows(table)
        assert real.changes(table) == model.changes(table)
        assert real.null_keys(table) == model.null_keys(table)
    assert real.topic("totals-changelog") == model.topic("totals-changelog")
    assert real.quarantined("orders") == model.quarantined("orders")


@pytest.mark.parametrize("timestamp", [2**63 - 1, -(2**63), 1_700_000_000_000_000_000])
def test_a_timestamp_that_is_no_time_is_taken_as_kafka_takes_it(timestamp: int) -> None:
    """It is nanoseconds, or no number of a clock: the event time is outside of the years, and it moves no clock."""
    replay = Replay(SHOP).send("orders", key="1", value={"customer": "ann"}, timestamp=timestamp)
    replay.send("orders", key="2", value={"customer": "bob"}, timestamp=5)
    result = replay.run()
    assert [row["id"] for row in result.rows("current")] == ["2"]
    [bad] = result.quarantined("orders")
    assert (bad["timestamp"], "outside the years 1 to 9999" in bad["reason"]) == (timestamp, True)


@pytest.mark.parametrize("timestamp", [2**63, -(2**63) - 1, 1.5, True, "5", datetime(2026, 1, 1)])
def test_another_timestamp_is_refused(timestamp: object) -> None:
    with pytest.raises(ConfigError, match="Milliseconds are a whole number of 64 bits"):
        Replay(SHOP).send("orders", key="1", value=None, timestamp=timestamp)


def merged() -> lh.App:
    """Three topics, whose names are not in the order in which the tests send."""
    streams = [lh.stream(topic, key="id string", schema="n int") for topic in ("a", "b", "c")]
    return lh.app(streams[0].merge(streams[1], streams[2]).latest("newest"))


@pytest.mark.parametrize("topics", ["abc", "cba", "bac", "cab", "bcabca"])
def test_equal_timestamps_of_several_topics_keep_the_order_of_their_sends(topics: str) -> None:
    replay = Replay(merged())
    for n, topic in enumerate(topics):
        replay.send(topic, key="k", value={"n": n}, timestamp=7)
    replay.send("a", key="later", value={"n": 1}, timestamp=9)
    replay.send("b", key="later", value={"n": 2}, timestamp=8)
    result = replay.run()
    assert [change["n"] for change in result.changes("newest")] == [*range(len(topics)), 2, 1]
    assert result.row("newest", "later") == {"id": "later", "n": 1}, "the time decides before the order of the sends"


@pytest.mark.slow
def test_the_order_of_sends_is_the_same_on_spark() -> None:
    """As many ticks as the order needs, and one batch; what is no time moves no clock there, either."""
    results = []
    for engine in ("model", "spark"):
        replay = Replay(merged(), engine=engine)
        for n, topic in enumerate("cbaab"):
            replay.send(topic, key="k", value={"n": n}, timestamp=2**63 - 1 if n == 3 else 7)
        result = replay.tick().send("a", key="k", value={"n": 9}, timestamp=1).run()
        results.append((result.changes("newest"), [bad["offset"] for bad in result.quarantined("a")]))
    assert results[0] == results[1]
    assert [change["n"] for change in results[0][0]] == [0, 1, 2, 4, 9]
