"""The lineage with its facts, the versions over time, and the drills."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

import lakehouse as lh
from lakehouse.errors import StorageError
from lakehouse.lake import reader
from lakehouse.lake.commit_metadata import CommitMetadata, UnchangedRows, write_metadata
from lakehouse.lake.properties import NEW_DECLARATION, RETENTION
from lakehouse.page.drills import list_drills
from lakehouse.page.overview import read_overview
from lakehouse.page.versions import list_versions
from lakehouse.semantics.failures import FunctionFailures
from lakehouse.semantics.record import Record

from ..written_bronze import write_quarantine
from ..written_commits import batch
from .conftest import manifest, named


def test_facts_of_everything_in_the_lineage(shop, story):
    actual = read_overview(shop)
    assert (actual["tick"], actual["edges"][0]) == (8, ["topic:clicks", "stream:clicks"])
    assert actual["topics"]["clicks"]["rows"] == 6
    visits = actual["tables"]["visits"]
    assert {name: visits[name] for name in ("rows", "version", "tick", "late", "key")} == {
        "rows": 3, "version": 5, "tick": 7, "late": 0, "key": ["user"],
    }  # fmt: skip
    assert visits["last_commit_ms"] == reader.read_table_facts(story.layout, "silver", "visits").last_commit_ms


def test_only_records_of_its_own_topics_put_a_table_behind(own_shop, own_story):
    behind = ("behind_ticks", "behind_records")
    visits = read_overview(own_shop)["tables"]["visits"]
    assert [visits[name] for name in behind] == [0, 0]  # bronze is at tick 8, which brought only views
    own_story.bronze.tick(9, ("clicks", "ann", 0, 900, "a2"), ("clicks", "bob", 1, 901, "b3"))
    visits = read_overview(own_shop)["tables"]["visits"]
    assert [visits[name] for name in behind] == [2, 2]


def test_late_and_quarantined_records_are_counted(own_shop, own_story):
    own_story.bronze.late("visits", 7, ("clicks", 1, 2, "dan", None, None))
    clicks = lh.stream("clicks", key="user string", schema="ms bigint")
    bad = Record("clicks", "id", 0, 9, 900, b"k", b"no json", 7, 900)
    write_quarantine(own_story.root, lh.app(clicks.latest("last")).sources[0], [bad])
    actual = read_overview(own_shop)
    assert (actual["tables"]["visits"]["late"], actual["streams"]["clicks"]["quarantined"]) == (1, 1)


def test_records_and_rows_that_do_not_meet_an_expectation(own_shop, own_story):
    clicks = lh.stream("clicks", key="user string", schema="ms bigint").expect("positive", "ms > 0")
    source = lh.app(clicks.latest("last")).sources[0]
    write_quarantine(own_story.root, source, [Record("clicks", "id", 0, 9, 900, b"k", b'{"ms": 0}', 7, 900)])
    unmet = FunctionFailures("expectation visits.few of rows", 4, "ann", "n < 9, found 12")
    map_failed = FunctionFailures("map price", 1, "clicks/0/1", "ValueError")
    own_story.visits.commit(9, {"user": "eve", "n": 1, "place": "p"}, content=batch(failures=(unmet, map_failed)))
    actual = read_overview(own_shop)
    assert actual["streams"]["clicks"] == {
        "quarantined": 1, "refused": [{"expectation": "positive", "records": 1, "open": 1}],
    }  # fmt: skip
    assert actual["tables"]["visits"]["unmet"] == [{"expectation": "visits.few of rows", "records": 4}]
    assert "found 12" not in str(actual), "a table's facts hold no values of rows"


def test_a_lake_that_does_not_exist_yet_is_empty(tmp_path):
    actual = read_overview(named(tmp_path, manifest(tmp_path / "lake")))
    assert (actual["tick"], actual["topics"], actual["tables"]) == (0, {"clicks": None}, {"visits": None})


def test_versions_over_time(shop, story):
    """Commits of programs other than Spark have no counts; tests/ui has those of Spark."""
    actual = list_versions(shop, shop.table("visits"))
    assert [item["time_ms"] for item in actual["versions"]] == story.times
    assert [item["rows"] for item in actual["versions"]] == [None] * 5 + [3]
    assert [item["quiet"] for item in actual["versions"]] == [False, True, False, False, False, False]
    assert [item["tick"] for item in actual["versions"]] == [None, 0, 1, 3, 5, 7]
    assert (actual["first_readable"], actual["left_out"], actual["more"]) == (0, 0, False)


@pytest.mark.parametrize("operation", [NEW_DECLARATION, RETENTION])
def test_the_line_goes_on_across_a_new_declaration(own_shop, own_story, operation):
    """It sets properties: the number of rows before it is the number after it."""
    text = write_metadata(CommitMetadata(UnchangedRows(operation=operation)))
    said = CommitProperties(custom_metadata={"userMetadata": text})
    DeltaTable(own_story.visits.path).alter.set_table_properties({"delta.appendOnly": "false"}, commit_properties=said)
    before, newest = list_versions(own_shop, own_shop.table("visits"))["versions"][-2:]
    assert (newest["operation"], newest["quiet"]) == (operation, True)
    assert before["rows"] == newest["rows"] == 3


def test_a_version_made_by_an_intervention_says_who_and_why(own_shop, own_story):
    row = {"at": 3, "id": "i", "table": "visits", "kind": "revert", "reason": "wrong " * 400, "details": "{}",
           "decided_by": "bob (user airflow)"}  # fmt: skip
    other = {**row, "table": "others", "at": 7, "reason": None}
    swap = {**row, "at": 5, "kind": "swap", "reason": "v2", "decided_by": "ann (user airflow)"}
    write_deltalake(own_story.layout.interventions, pa.Table.from_pylist([row, other, swap]))
    decided = [item["decided"] for item in list_versions(own_shop, own_shop.table("visits"))["versions"]]
    assert decided[:3] == [None] * 3
    assert (decided[3]["kind"], decided[3]["by"]) == ("revert", "bob (user airflow)")
    assert decided[3]["reason"].endswith("… (2,400 characters)")
    assert decided[4:] == [{"kind": "swap", "by": "ann (user airflow)", "reason": "v2"}, None]


def test_a_long_log_is_thinned_out_and_keeps_its_first_version(shop):
    whole = list_versions(shop, shop.table("visits"))
    thinned = list_versions(shop, shop.table("visits"), 4)
    assert [item["version"] for item in thinned["versions"]] == [0, 2, 4, 5]
    assert (thinned["left_out"], thinned["more"]) == (2, False)
    assert thinned["versions"] == [whole["versions"][number] for number in (0, 2, 4, 5)]


def test_a_log_that_takes_too_long_to_read_begins_later(shop, monkeypatch):
    monkeypatch.setattr("lakehouse.page.versions.READ_LOG_SECONDS", -1)
    actual = list_versions(shop, shop.table("visits"))
    assert ([item["version"] for item in actual["versions"]], actual["more"]) == ([5], True)


def test_those_that_vacuum_left_can_be_read(own_shop, own_story):
    own_story.visits.vacuum()
    actual = list_versions(own_shop, own_shop.table("visits"))
    readable = [item["version"] for item in actual["versions"] if item["version"] >= actual["first_readable"]]
    assert readable == [4, 5, 6, 7]  # version 5 only added a file; VACUUM commits twice


def test_only_drills_of_the_application(own_shop, own_story):
    assert list_drills(own_shop, None) == []
    drill = {"at": "2026-11-22T00:00:00Z", "table": "visits", "tick": 7, "rows": 3, "hash": -1, "seconds": 2.5,
             "ok": True, "cases": []}  # fmt: skip
    folder = Path(own_story.layout.drills)
    folder.mkdir(parents=True)
    entries = [drill, {**drill, "table": "other"}, {**drill, "seconds": 3.5}]
    for hour, entry in enumerate(entries):
        (folder / f"20261122T0{hour}0000.{entry['table']}.json").write_text(json.dumps(entry))
    assert [item["seconds"] for item in list_drills(own_shop, "visits")] == [3.5, 2.5]
    assert list_drills(own_shop, None)[0]["hash"] == "f" * 16
    for invalid_text in ("{}", '{"at": "20', "[]"):
        (folder / "20261122T050000.visits.json").write_text(invalid_text)
        with pytest.raises(StorageError, match=r"drills.*: found .* expected .* that `lakehouse test drill` wrote"):
            list_drills(own_shop, None)
