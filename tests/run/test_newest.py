"""The newest record of each key, among more records than memory holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from lakehouse.errors import NotFound
from lakehouse.kafka.headers import RecordHeaders
from lakehouse.lake.record import sorted_rows
from lakehouse.run.repair import newest_records as module
from lakehouse.run.repair.newest_records import newest_records
from lakehouse.semantics.position import Position

Record = tuple[RecordHeaders, bytes, bytes | None]


def record(number: int, key: bytes, value: bytes | None) -> Record:
    at = Position(number, 1, "in", 0, number, (0,))
    kept, formats = (b'{"n": 1}', ("json", "")) if number % 2 else (None, ("delimited|+epoch", "json_bare"))
    return RecordHeaders(f"t/0@{number}", at, number, "lake", "totals", kept, None, formats), key, value


@pytest.fixture(autouse=True, params=[1, 64 << 20])
def small(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    monkeypatch.setattr(sorted_rows, "RUN_BYTES", request.param)
    monkeypatch.setattr(module, "AT_ONCE", 3)


def test_the_last_record_of_each_key_is_complete_and_deletes_are_included() -> None:
    """All keys of a topic were in the driver's memory, each with its message."""
    records = [record(n, b"%03d" % (n % 7), None if n % 5 == 0 else b"\x00%d" % n) for n in range(100)]
    last = {key: (said, value) for said, key, value in records}
    actual = list(newest_records(iter(records)))
    assert {item.key: (item.headers, item.value) for item in actual} == last
    assert [item.key for item in actual] == sorted(last)
    assert not list(newest_records(()))


def test_a_record_that_is_refused_is_found_before_the_first_comes_out() -> None:
    def records() -> Iterator[Record]:
        yield from (record(n, b"k", b"v") for n in range(20))
        raise NotFound("another lake")

    with pytest.raises(NotFound, match="another lake"):
        next(newest_records(records()))


def test_a_key_that_is_in_two_partitions_is_refused() -> None:
    """The records of two partitions come in any order: of 40,000 restored rows, 30,000 were older ones."""
    records = [record(n, b"%d" % (n % 4), b"v") for n in range(20)]
    said, key, value = records[10]
    records[10] = (replace(said, where="t/3@10"), key, value)
    with pytest.raises(NotFound, match=r"record t/3@10 has the key b'2', which a record of t/0 has.*more partitions"):
        list(newest_records(iter(records)))


def test_rows_are_passed_on_in_chunks_of_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HANDED_BYTES", 10)
    monkeypatch.setattr(module, "HANDED_ROWS", 3)
    rows = [(1, (1,)), (9, (2,)), (30, (3,)), *[(0, (n,)) for n in range(4, 8)]]
    assert [len(some) for some in module._group_by_size(rows)] == [2, 1, 3, 1]
