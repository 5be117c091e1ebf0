"""Rules about a table as a whole: how they are declared, when they hold, and what a running job tells about them."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import lakehouse as lh
from lakehouse.cli.start.verify import verify_tables
from lakehouse.errors import PlanError
from lakehouse.lake.layout import Layout
from lakehouse.plan.evolution.change import declaration_digest
from lakehouse.run.watch import table_rules
from lakehouse.run.watch.event import JobEvent
from lakehouse.run.watch.lines import event_text
from lakehouse.run.watch.metrics import RunMetrics
from lakehouse.run.watch.table_rules import SLOW_SECONDS, RuleWatch, find_unmet_rules
from lakehouse.run.watch.watching import Watcher

from ..cli.versioned import VersionedTable, visit

VISITS = lh.stream("clicks", key="user string", schema="n bigint, place string, tags array<string>").latest("visits")
MINUTE = 60_000


def reasons(root: Path, table: lh.Table, now_ms: int = 0) -> list[str]:
    return [unmet.reason for unmet in find_unmet_rules(Layout(str(root)), table, table.watched_rules, now_ms)]


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (lambda: VISITS.expect_unique(), "expected the names of columns"),
        (lambda: VISITS.expect_unique("plaec"), "'plaec' is no column.*place"),
        (lambda: VISITS.expect_unique("tags"), "has parts"),
        (lambda: VISITS.expect_unique("place", "PLACE"), "each column once"),
        (lambda: VISITS.expect_unique("user"), "the whole key, user, which is unique"),
        (lambda: VISITS.expect_unique(["place"]), "is no column"),
        (lambda: VISITS.expect_unique("place").expect_unique("place"), "declared twice"),
        (
            lambda: VISITS.expect_fresh("10 minutes").expect_fresh("1 hour"),
            "rule fresh is declared twice: its newest record is at most 10 minutes old; its .* 1 hour old",
        ),
        (lambda: VISITS.expect_fresh("soon"), "expect_fresh"),
        (lambda: VISITS.expect_fresh("0 minutes"), "expect_fresh"),
    ],
)
def test_rules_are_declared_with_care(declare: Any, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        declare()


def test_they_are_no_part_of_what_decides_the_rows() -> None:
    judged = VISITS.expect_unique("Place").expect_fresh("10 minutes")
    assert declaration_digest(judged) == declaration_digest(VISITS)
    text = str(lh.describe(judged))
    assert "EXPECT no two rows have the same place" in text
    assert "EXPECT its newest record is at most 10 minutes old" in text


def test_a_value_that_several_rows_have_is_found(tmp_path: Path) -> None:
    table = VISITS.expect_unique("place").expect_unique("place", "n")
    assert reasons(tmp_path, table) == []  # there is no table yet
    written = VersionedTable(tmp_path)
    assert reasons(tmp_path, table) == []
    written.commit(1, visit("ann", 1, 1, 0, place=None), visit("bob", 1, 1, 1, place=None), visit("cat", 1, 1, 2))
    assert reasons(tmp_path, table) == []
    written.commit(
        2, visit("dan", 2, 2, 3, place="p1"), visit("eve", 3, 2, 4, place="it's"), visit("fay", 3, 2, 5, place="it's")
    )
    assert reasons(tmp_path, table) == [
        'no two rows have the same place; found place "it\'s" in 2 rows, and 1 more that several rows have',
        'no two rows have the same place, n; found place "it\'s", n 3 in 2 rows',
    ]


def test_a_value_is_shown_as_people_write_it(tmp_path: Path) -> None:
    schema = "born date, price decimal(4, 2), at timestamp, raw binary, x double, text string"
    table = lh.stream("people", key="id string", schema=schema).latest("people")
    row = {
        "born": date(1980, 5, 5), "price": Decimal("1.50"), "at": datetime(2026, 1, 31, 12, tzinfo=UTC), "raw": b"\xff",
        "x": -0.0, "text": "x" * 100,
    }  # fmt: skip
    rows = [{"id": "a", **row}, {"id": "b", **row, "x": 0.0}]
    write_deltalake(Layout(str(tmp_path)).silver("people"), pa.Table.from_pylist(rows))
    assert reasons(tmp_path, table.expect_unique("born", "price", "at", "raw")) == [
        "no two rows have the same born, price, at, raw; found born 1980-05-05, price 1.50, at 2026-01-31T12:00:00Z, "
        "raw base64:/w== in 2 rows"
    ]
    other_case = lh.stream("people", key="id string", schema=schema.upper()).latest("people").expect_unique("born")
    assert reasons(tmp_path, other_case) == ["no two rows have the same BORN; found BORN 1980-05-05 in 2 rows"]
    assert reasons(tmp_path, table.expect_unique("x"))[0].endswith("0.0 in 2 rows")  # both zeros are one value
    assert reasons(tmp_path, table.expect_unique("text"))[0].endswith("'" + "x" * 79 + "... in 2 rows")


def test_the_age_of_the_newest_record_is_that_of_event_time(tmp_path: Path) -> None:
    table = VISITS.expect_fresh("10 minutes")
    assert reasons(tmp_path, table) == ["its newest record is at most 10 minutes old; found no table yet"]
    written = VersionedTable(tmp_path)
    assert reasons(tmp_path, table) == ["its newest record is at most 10 minutes old; found no record yet"]
    written.commit(1, visit("ann", 1, 1, 0), times=(0, 30 * MINUTE))
    written.commit(2, visit("bob", 1, 2, 1), times=(MINUTE, MINUTE))  # late: the newest record stays
    assert reasons(tmp_path, table, 40 * MINUTE) == []
    assert reasons(tmp_path, table, 40 * MINUTE + 1_999) == [
        "its newest record is at most 10 minutes old; found one of 1970-01-01T00:30:00Z, 10 minutes 1 second ago"
    ]


def test_a_running_job_tells_when_a_rule_ceases_to_hold_and_holds_again(tmp_path: Path, monkeypatch: Any) -> None:
    app, layout = lh.app(VISITS.expect_unique("place").expect_fresh("10 minutes")), Layout(str(tmp_path))
    written, heard, now, wall_ms = VersionedTable(tmp_path), [], 0.0, 30 * MINUTE
    metrics = RunMetrics(app, layout)
    monkeypatch.setattr(table_rules.time, "time_ns", lambda: wall_ms * 1_000_000)
    watcher = Watcher(lambda note_answer: {}, heard.append, metrics, 0.0, lambda: now, rules=RuleWatch(layout, app))

    def look() -> list[str]:
        heard.clear()
        watcher.look()
        return [event_text(event) for event in heard]

    written.commit(1, visit("ann", 1, 1, 0), times=(0, 25 * MINUTE))
    assert look() == []
    written.commit(2, visit("bob", 1, 2, 1), times=(0, 0))
    wall_ms = 36 * MINUTE
    assert look() == [
        "table visits does not meet fresh: its newest record is at most 10 minutes old; found one of "
        "1970-01-01T00:25:00Z, 11 minutes ago"
    ]
    assert look() == []
    now = SLOW_SECONDS  # only now are the rows read again
    assert look() == [
        "table visits does not meet unique_place: no two rows have the same place; found place 'p1' in 2 rows"
    ]
    unmet = [metrics.registry.get_sample_value("lakehouse_rule_unmet", {"table": "visits", "expectation": name})
             for name in ("fresh", "unique_place")]  # fmt: skip
    assert unmet == [1, 1]
    written.commit(3, visit("bob", 2, 3, 2), times=(36 * MINUTE, 36 * MINUTE))
    now = 2 * SLOW_SECONDS
    assert look() == ["table visits meets unique_place again", "table visits meets fresh again"]


def test_test_check_names_the_rules_that_do_not_hold(tmp_path: Path) -> None:
    from ..cli.versioned import Story

    Story(tmp_path)
    report = verify_tables(Layout(str(tmp_path)), lh.app(VISITS.expect_fresh("10 minutes")))
    assert not report["ok"]
    assert next(problem for problem in report["problems"] if "fresh" in problem).startswith(
        "table visits: fresh: its newest record is at most 10 minutes old; found one of 1970-01-01T00:00:00Z"
    )


def test_rows_that_do_not_meet_a_rule_are_told_as_rows() -> None:
    details = {"table": "totals", "expectation": "totals.positive of rows", "first": "Oslo", "reason": "n > 0, found 0"}
    assert event_text(JobEvent("expectation unmet", 3, 2, 1.0, details)) == (
        "2 rows of table totals do not meet expectation totals.positive of rows; the first, Oslo: n > 0, found 0"
    )


def test_a_table_whose_log_was_cleaned_is_as_fresh_as_its_rows(tmp_path: Path) -> None:
    table = VISITS.expect_fresh("10 minutes")
    written = VersionedTable(tmp_path)
    written.commit(1, visit("ann", 1, 1, 0), times=(1, 1))
    written.open_epoch()
    DeltaTable(written.path).create_checkpoint()
    for commit in sorted(Path(written.path, "_delta_log").glob("*.json"))[:-1]:
        commit.unlink()
    assert reasons(tmp_path, table, 10 * MINUTE) == []
    assert reasons(tmp_path, table, 11 * MINUTE + 1) == [
        "its newest record is at most 10 minutes old; found one of 1970-01-01T00:00:00Z, 11 minutes ago"
    ]
