"""Records that do not meet what is expected of a stream: their fixes must meet it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lakehouse as lh
from lakehouse.lake.layout import Layout
from lakehouse.lake.record.quarantine import ALL_RECORDS, read_reasons
from lakehouse.run.repair.fixes import fixed_records, leave_unchanged
from lakehouse.semantics.record import Record

from ..written_bronze import write_quarantine
from .test_fixes import offsets, record

VALUES = [b'{"amount": -1, "at": 1}', b'{"amount": null, "at": 2}', b'{"amount": -3, "at": 3}']


def application(condition: str) -> lh.App:
    orders = lh.stream("orders", key="id string", schema="amount int, at bigint").expect("positive", condition)
    return lh.app(orders.latest("newest"))


def test_a_fix_must_meet_it(tmp_path: Path) -> None:
    app, layout = application("amount > 0"), Layout(str(tmp_path))
    write_quarantine(tmp_path, app.sources[0], [record(number, value) for number, value in enumerate(VALUES)])

    def fix(bad_record: Record) -> Any:
        return (bad_record.value or b"").replace(b"-1", b"1")

    fixes = fixed_records(layout, app, "orders", ALL_RECORDS, fix)
    assert offsets(fixes) == ([0], [1, 2])
    assert [bad.reason for bad in fixes.bad] == [
        "expectation positive: amount > 0, found null", "expectation positive: amount > 0, found -3",
    ]  # fmt: skip
    assert offsets(fixed_records(layout, app, "orders", ALL_RECORDS, leave_unchanged)) == ([], [0, 1, 2])
    kinds = [(reason.kind, reason.records) for reason in read_reasons(layout, "orders", ALL_RECORDS)]
    assert kinds == [("expectation positive: amount > 0", 3)]


def test_spark_judges_what_the_model_can_not_tell(tmp_path: Path) -> None:
    """The replay asks Spark: `tests/spark/test_expectations.py`."""
    app = application("amount > 0")
    write_quarantine(tmp_path, app.sources[0], [record(0, VALUES[0])])
    unknown = application("soundex(cast(amount AS string)) > ''")
    assert offsets(fixed_records(Layout(str(tmp_path)), unknown, "orders", ALL_RECORDS, leave_unchanged)) == ([0], [])
