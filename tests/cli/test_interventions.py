"""`lakehouse look interventions`: who decided what, and why, from a log written without Spark."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from lakehouse.cli.look.interventions import describe_details
from lakehouse.cli.look.read import ROWS_SHOWN
from lakehouse.lake.layout import Layout


def write(root: Path, *rows: tuple[int, str, str], by: str) -> None:
    """Append interventions: tick, table, reason."""
    made = [
        {"at": at, "id": f"i{at}", "table": table, "kind": "revert", "reason": reason,
         "decided_at": datetime(2026, 11, 22, tzinfo=UTC), "details": json.dumps({"tick": at - 2, "version": None}),
         "decided_by": by}
        for at, table, reason in rows
    ]  # fmt: skip
    write_deltalake(Layout(str(root)).interventions, pa.Table.from_pylist(made), mode="append")


def test_the_log_names_the_person_who_decided(tmp_path, lakehouse):
    write(tmp_path, (3, "totals", "a wrong release"), by="bob (user airflow)")
    lake = ("--lake", str(tmp_path))
    (old,) = map(json.loads, lakehouse("look", "interventions", "--json", *lake).out.splitlines())
    assert (old["at"], old["decided_by"], old["details"]) == (3, "bob (user airflow)", {"tick": 1})
    write(tmp_path, (5, "totals", "again"), (5, "visits", "again"), by="ann (user airflow)")
    told = [json.loads(line) for line in lakehouse("look", "interventions", "--json", *lake).out.splitlines()]
    assert [(item["at"], item["table"], item["decided_by"]) for item in told] == [
        (5, "totals", "ann (user airflow)"), (5, "visits", "ann (user airflow)"), (3, "totals", "bob (user airflow)"),
    ]  # fmt: skip
    out = lakehouse("look", "interventions", "visits", *lake).out
    assert "ann (user airflow)" in out
    assert "totals" not in out


def test_a_long_log_is_cut_with_a_hint_how_to_get_the_rest(tmp_path, lakehouse):
    write(tmp_path, *((at, "totals", "") for at in range(1, ROWS_SHOWN + 3)), by="ann")
    out = lakehouse("look", "interventions", "--limit", "2", "--lake", str(tmp_path)).out
    assert "the first 2 rows; --limit shows more" not in out, "two were asked for"
    out = lakehouse("look", "interventions", "--lake", str(tmp_path)).out
    assert f"the first {ROWS_SHOWN} rows; --limit shows more" in " ".join(out.split())
    told = lakehouse("look", "interventions", "--json", "--lake", str(tmp_path)).out
    assert len(told.splitlines()) == ROWS_SHOWN + 2


@pytest.mark.parametrize(
    ("kind", "details", "words"),
    [
        ("swap", {"beside": "build", "declaration": "{}", "changed": True}, "all rows, under another declaration"),
        ("swap", {"changed": False}, "all rows"),
        ("fixed", {"stream": "clicks"}, "records of stream clicks"),
        ("revert", {"tick": 7, "version": 3}, "to version 3"),
        ("revert", {"tick": 7, "event_ms": None, "offsets": None}, "to tick 7"),
        ("revert", {"tick": 7, "offsets": {"clicks": {"0": 5}}}, "to clicks/0=5"),
        ("revert", {"tick": 7, "event_ms": 1500}, "to event time 1970-01-01 00:00:01.500Z"),
        ("refold", {"first_ms": 0, "last_ms": None}, "event times from 1970-01-01 00:00:00.000Z"),
        ("refold", {"offsets": {"clicks": {"1": [3, 9]}}}, "clicks/1=3..9"),
        ("late", {}, ""),
    ],
)
def test_what_an_intervention_was_about_is_told_in_words(kind, details, words):
    assert describe_details(kind, details) == words
