"""A table at a moment, the difference between two moments, and the history of a row."""

from __future__ import annotations

import math
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from lakehouse.errors import ConfigError, NotFound
from lakehouse.page import past
from lakehouse.page.cells import json_cell
from lakehouse.page.past import compare_moments, rows_at_moment
from lakehouse.page.row_history import row_history

from ..cli.versioned import VersionedTable, position
from ..cli.written import at
from .conftest import manifest, named

HOSTILE = ("'", '"', "' OR 1=1 --", "%", "\\", "{{ 7 }}", "$(id)", "\x00", "; DROP TABLE rows", "a" * 1000)


def test_the_table_at_a_version_at_a_tick_and_now(shop):
    visits = shop.table("visits")
    then = rows_at_moment(shop, visits, "tick:1", None, 10)
    assert (then["version"], then["total"], then["key"]) == (2, 2, ["user"])
    assert [column["name"] for column in then["columns"]] == ["user", "n", "place"]
    assert then["rows"] == [["ann", 1, "p1"], ["bob", 1, "p1"]]
    assert rows_at_moment(shop, visits, "2", None, 10) == then
    assert [row[0] for row in rows_at_moment(shop, visits, "now", None, 10)["rows"]] == ["ann", "cat", "dan"]


def test_the_first_rows_and_those_by_the_beginning_of_their_key(shop):
    actual = rows_at_moment(shop, shop.table("visits"), "now", None, 2)
    assert ([row[0] for row in actual["rows"]], actual["keys"], actual["more"]) == (
        ["ann", "cat"],
        ["ann", "cat"],
        True,
    )
    actual = rows_at_moment(shop, shop.table("visits"), "now", "ca", 2)
    assert ([row[0] for row in actual["rows"]], actual["more"]) == (["cat"], False)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_keys_find_nothing(shop, text):
    visits = shop.table("visits")
    assert rows_at_moment(shop, visits, "now", text, 10)["rows"] == []
    assert compare_moments(shop, visits, "2", "5", text, 10)["changes"] == []
    assert row_history(shop, visits, text, None, 10)["changes"] == []


LARGE = "9" * 18


@pytest.mark.parametrize(
    "text",
    [
        "commit:9999-12-31T23:59:59-14:00", "event:9999-12-31T23:59:59-14:00", "commit:0001-01-01T00:00:00+14:00",
        "0001-01-01T00:00+23:59", f"tick:{LARGE}", f"version:{LARGE}", LARGE, f"offsets:clicks/0={LARGE}",
        f"offsets:clicks/{LARGE[:9]}=1", "offsets:clicks/0=0", "commit:0001-01-01", "event:9999-12-31T23:59:59Z",
        "\ud800", "commit:\ud800", "tick:\x00", "offsets:\ud800/0=1", "commit:2013-06-01T00:00:00+23:59:59.999999",
    ],
)  # fmt: skip
def test_moments_at_the_ends_of_the_history_are_answered_or_refused(shop, text):
    for ask in (
        lambda: rows_at_moment(shop, shop.table("visits"), text, None, 10),
        lambda: compare_moments(shop, shop.table("visits"), text, "now", None, 10),
    ):
        with suppress(ConfigError, NotFound):
            assert ask()


@pytest.mark.parametrize("text", [*HOSTILE, "", "tick:-1", "version:99999999999999999999", "2013-13-01", "a" * 2000])
def test_hostile_moments_are_refused(shop, text):
    with pytest.raises(ConfigError):
        rows_at_moment(shop, shop.table("visits"), text, None, 10)


def test_a_moment_that_cannot_be_read_is_answered_with_those_that_can(shop):
    with pytest.raises(NotFound, match=r"lies between versions\. The nearest are version 3 .* and version 4"):
        rows_at_moment(shop, shop.table("visits"), "tick:4", None, 10)
    with pytest.raises(NotFound, match=r"has no version 77\. It has versions 0 to 5"):
        rows_at_moment(shop, shop.table("visits"), "77", None, 10)
    with pytest.raises(ConfigError, match=r"found 1,001 characters; expected at most 1,000"):
        rows_at_moment(shop, shop.table("visits"), "now", "k" * 1001, 10)


def test_what_differs_between_two_moments(shop):
    actual = compare_moments(shop, shop.table("visits"), "tick:1", "now", None, 10)
    assert (actual["added"], actual["removed"], actual["changed"]) == (2, 1, 1)
    assert (actual["from"], actual["to"]) == ({"version": 2, "total": 2}, {"version": 5, "total": 3})
    first = actual["changes"][0]
    assert first == {
        "change": "changed", "key": {"user": "ann"}, "before": {"n": 1, "place": "p1"}, "after": {"n": 2, "place": "p2"}
    }  # fmt: skip
    assert len(compare_moments(shop, shop.table("visits"), "tick:1", "now", None, 1)["changes"]) == 1


def test_tables_that_are_too_large_are_not_compared_here(shop, monkeypatch):
    monkeypatch.setattr(past, "COMPARED_MAX", 2)
    with pytest.raises(ConfigError, match=r"has 3 rows; expected at most 2 here\. `lakehouse past diff visits A B`"):
        compare_moments(shop, shop.table("visits"), "2", "now", None, 1)


def test_the_history_of_a_row(shop, story):
    actual = row_history(shop, shop.table("visits"), "ann", None, 10)
    assert [(item["version"], item["tick"], item["change"]) for item in actual["changes"]] == [
        (3, 3, "updated"), (2, 1, "inserted"),
    ]  # fmt: skip
    assert (actual["changes"][0]["before"], actual["changes"][0]["after"]) == (
        {"n": 1, "place": "p1"}, {"n": 2, "place": "p2"},
    )  # fmt: skip
    assert actual["changes"][0]["time_ms"] == story.times[3]
    assert (actual["older"], actual["gone"]) == (None, None)
    gone = row_history(shop, shop.table("visits"), "bob", None, 10)["changes"]
    assert [(item["change"], item["after"] is None) for item in gone] == [("deleted", True), ("inserted", False)]


def test_the_history_of_a_row_names_the_person_behind_an_intervention(own_shop, own_story):
    row = {"at": 3, "id": "i", "table": "visits", "kind": "revert", "reason": "v2", "details": "{}"}
    made = pa.Table.from_pylist([{**row, "decided_by": "ann in Airflow (user airflow)"}])
    write_deltalake(own_story.layout.interventions, made)
    second, first = row_history(own_shop, own_shop.table("visits"), "ann", None, 10)["changes"]
    assert second["decided"] == {"kind": "revert", "by": "ann in Airflow (user airflow)", "reason": "v2"}
    assert first["decided"] is None


def test_a_history_goes_on_where_it_ended(shop, monkeypatch):
    monkeypatch.setattr("lakehouse.page.row_history.VERSIONS_A_READ", 2)
    first = row_history(shop, shop.table("visits"), "ann", None, 1)
    assert ([item["version"] for item in first["changes"]], first["older"]) == ([3, 2], 2)
    rest = row_history(shop, shop.table("visits"), "ann", first["older"], 1)
    assert (rest["changes"], rest["older"]) == ([], None)


def test_changes_that_vacuum_removed_are_reported_as_gone(own_shop, own_story):
    for path in Path(own_story.visits.path).rglob("*.parquet"):
        if "_change_data" in str(path):
            path.unlink()
    actual = row_history(own_shop, own_shop.table("visits"), "ann", None, 10)
    assert "version" in actual["gone"]
    assert "can't be read" in actual["gone"]


def test_keys_of_several_columns_and_of_other_types(tmp_path):
    columns = {"day": pa.date32(), "code": pa.int64(), "seen": pa.timestamp("us", "UTC"), "n": pa.int64()}
    table = VersionedTable(tmp_path / "lake", "pairs", columns, ("day", "code"), feed=True)
    row = {"day": datetime(2026, 1, 31, tzinfo=UTC).date(), "code": None, "seen": at(0), "_position": position(1, 0)}
    table.commit(1, {**row, "n": 1}, {**row, "code": 7, "n": 2})
    table.commit(2, {**row, "n": 3})
    data = {"name": "pairs", "key": ["day", "code"], "windowed": False, "source_topics": ["clicks"]}
    shop = named(tmp_path, manifest(tmp_path / "lake", tables=[data]))
    actual = rows_at_moment(shop, shop.table("pairs"), "now", "2026-01-31", 10)
    assert sorted(actual["keys"]) == ["2026-01-31,", "2026-01-31,7"]
    history = row_history(shop, shop.table("pairs"), "2026-01-31,", None, 10)
    assert [(item["key"]["code"], item["after"]["n"]) for item in history["changes"]] == [(None, 3), (None, 1)]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (2**53 + 1, "9007199254740993"),
        (Decimal("1.50"), "1.50"),
        (math.nan, "NaN"),
        (-math.inf, "-Infinity"),
        (b"\xff\x00", "base64:/wA="),
        (b"text", "text"),
        (datetime(2026, 1, 31, 12, tzinfo=UTC), "2026-01-31T12:00:00Z"),
        ({"a": [1, Decimal("2.0")]}, '{"a": [1, "2.0"]}'),
        (None, None),
        (False, False),
    ],
)
def test_values_lose_nothing_in_a_browser(value, shown):
    assert json_cell(value) == shown


def test_a_long_value_is_cut():
    assert json_cell("x" * 3000) == "x" * 2000 + "… (3,000 characters)"
