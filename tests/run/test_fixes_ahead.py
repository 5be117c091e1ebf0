"""A record whose event time lies too far ahead of its own timestamp, accepted by hand."""

from __future__ import annotations

from pathlib import Path

from lakehouse.lake.layout import Layout
from lakehouse.lake.record.quarantine import ALL_RECORDS, read_quarantined
from lakehouse.run.repair.fixes import fixed_records, leave_unchanged

from ..written_bronze import write_quarantine
from .test_fixes import app, offsets, record


def test_a_time_from_the_future_is_accepted_by_hand(tmp_path: Path) -> None:
    guarded = app(event_time="at", max_ahead="1 day")
    made = [record(0, b'{"amount": 1, "at": 253402300799999}'), record(1, b'{"amount": 2, "at": 9223372036854775807}')]
    write_quarantine(tmp_path, guarded.sources[0], made)
    assert offsets(fixed_records(Layout(str(tmp_path)), guarded, "orders", ALL_RECORDS, leave_unchanged)) == ([0], [1])
    reasons = [bad.reason for bad in read_quarantined(Layout(str(tmp_path)), "orders", ALL_RECORDS)]
    assert "is more than 1 day ahead of the record's own timestamp; found 9999-12-31T23:59:59.999" in reasons[0]
    assert "outside the years 1 to 9999" in reasons[1]
