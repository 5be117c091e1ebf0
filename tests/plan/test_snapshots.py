"""Snapshots as a source: what a declaration takes, and what it says about one that is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import lakehouse as lh
from lakehouse.errors import PlanError
from lakehouse.plan.origin import Snapshots, Source

GOOD: dict[str, Any] = {"key": "id bigint", "schema": "name string"}


def declared(stream: lh.Stream) -> Snapshots:
    assert isinstance(stream.source, Source)
    assert stream.source.snapshots is not None
    return stream.source.snapshots


def test_a_path_is_taken_from_the_folder_of_the_file_that_declares_it():
    own = declared(lh.snapshots("customers", "exports/c-{at}.parquet", **GOOD))
    assert own.path == str(Path(__file__).parent / "exports/c-{at}.parquet")
    assert own.kind == "parquet"


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("a-{at}.csv", "csv"),
        ("a-{at}.csv.gz", "csv"),
        ("a-{at}.jsonl.gz", "json"),
        ("a/{at}/part-*.parquet", "parquet"),
    ],
)
def test_the_kind_is_told_by_the_ending(path, kind):
    assert declared(lh.snapshots("t", path, **GOOD)).kind == kind


@pytest.mark.parametrize("path", ["s3://lake/exports/c-{at}.csv", "s3a://lake/exports/c-{at}.csv"])
def test_a_store_has_one_name(path):
    assert declared(lh.snapshots("t", path, **GOOD)).path == "s3a://lake/exports/c-{at}.csv"


@pytest.mark.parametrize(
    ("path", "options", "message"),
    [
        ("c.csv", {}, "Expected one of the two"),
        ("c-{at}.csv", {"at": "exported"}, "Expected one of the two"),
        ("c-{at}-{at}.csv", {}, "once"),
        ("c-{time}.csv", {}, "no other braces"),
        ("c-{at}.xlsx", {}, "expected 'parquet', 'csv', 'json' or 'delta'"),
        ("c-{at}.csv", {"kind": "excel"}, "kind='excel'"),
        ("c/{at}", {"kind": "delta"}, "versions have their times"),
        ("c", {"kind": "delta", "at": "exported"}, "versions have their times"),
        ("", {}, "expected the files"),
        ("c-*.csv", {"at": "not a name"}, "at 'not a name'"),
        ("c-{at}.csv", {"partitions": 0}, "partitions=0"),
        ("c-{at}.csv", {"partitions": True}, "partitions=True"),
        ("c-{at}.csv", {"allow_empty": 1}, "allow_empty=1"),
    ],
)
def test_what_is_wrong_is_said(path, options, message):
    with pytest.raises(PlanError, match=message):
        lh.snapshots("t", path, **GOOD, **options)


def test_snapshots_are_no_part_of_a_tables_declaration():
    """Where the files lie changes no row, so a table goes on."""
    from lakehouse.plan.evolution.change import declaration_digest

    one = lh.snapshots("t", "a-{at}.csv", **GOOD).latest("rows")
    other = lh.snapshots("t", "b-{at}.parquet", **GOOD).latest("rows")
    topic = lh.stream("t", **GOOD).latest("rows")
    assert declaration_digest(one) == declaration_digest(other) == declaration_digest(topic)


def test_a_topic_is_written_from_one_declaration():
    one = lh.snapshots("t", "a-{at}.csv", **GOOD).latest("one")
    other = lh.snapshots("t", "b-{at}.csv", name="others", **GOOD).latest("other")
    with pytest.raises(PlanError, match="two declarations of snapshots"):
        lh.app(one, other)
    reader = lh.stream("t", name="others", **GOOD).latest("other")
    assert [source.topic for source in lh.app(one, reader).snapshot_sources] == ["t"]
