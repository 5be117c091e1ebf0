"""The newest record of each key, among more records than memory holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import date

import pytest

from lakehouse.errors import NotFound
from lakehouse.formats.codec.registered import NO_SCHEMAS
from lakehouse.formats.encode import encode_key
from lakehouse.kafka.headers import RecordHeaders
from lakehouse.lake.record import sorted_rows
from lakehouse.plan.expression.schema import Column
from lakehouse.run.repair import newest_records as module
from lakehouse.run.repair.newest_records import newest_records
from lakehouse.run.repair.restored_rows import _PlainKeys
from lakehouse.semantics.position import Position
from lakehouse.spark.changelog.published import key_format

Record = tuple[RecordHeaders, bytes, bytes | None]


def record(number: int, key: bytes, value: bytes | None) -> Record:
    at = Position(number, 1, "in", 0, number, (0,))
    kept, formats = (b'{"n": 1}', ("json", "")) if number % 2 else (None, ("delimited|+epoch", "json_bare"))
    return RecordHeaders(f"t/0@{number}", at, number, "lake", "totals", kept, None, formats), key, value


@pytest.fixture(autouse=True, params=[1, 64 << 20])
def small(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    monkeypatch.setattr(sorted_rows, "RUN_BYTES", request.param)
    monkeypatch.setattr(module, "AT_ONCE", 3)


def plain(headers: RecordHeaders, key: bytes) -> bytes:
    return key


def test_the_last_record_of_each_key_is_complete_and_deletes_are_included() -> None:
    """All keys of a topic were in the driver's memory, each with its message."""
    records = [record(n, b"%03d" % (n % 7), None if n % 5 == 0 else b"\x00%d" % n) for n in range(100)]
    last = {key: (said, value) for said, key, value in records}
    actual = list(newest_records(iter(records), plain))
    assert {item.key: (item.headers, item.value) for item in actual} == last
    assert [item.key for item in actual] == sorted(last)
    assert not list(newest_records((), plain))


def test_a_record_that_is_refused_is_found_before_the_first_comes_out() -> None:
    def records() -> Iterator[Record]:
        yield from (record(n, b"k", b"v") for n in range(20))
        raise NotFound("another lake")

    with pytest.raises(NotFound, match="another lake"):
        next(newest_records(records(), plain))


def test_a_key_that_is_in_two_partitions_is_refused() -> None:
    """The records of two partitions come in any order: of 40,000 restored rows, 30,000 were older ones."""
    records = [record(n, b"%d" % (n % 4), b"v") for n in range(20)]
    said, key, value = records[10]
    records[10] = (replace(said, where="t/3@10"), key, value)
    with pytest.raises(NotFound, match=r"record t/3@10 has the key b'2', which a record of t/0 has.*more partitions"):
        list(newest_records(iter(records), plain))


def test_a_key_that_was_written_in_two_ways_is_refused() -> None:
    """A key's format was changed: a restore had two rows of it, or one that was deleted under its other bytes."""
    keys = _PlainKeys((Column("city", "string"),), "totals", lambda format, data: NO_SCHEMAS)

    def written(number: int, key: bytes, format: str, value: bytes | None = b"v") -> Record:
        headers, _, _ = record(number, key, value)
        return replace(headers, formats=("json", format)), key, value

    usual = [written(n, b"city %d" % n, "") for n in range(9)]
    for value in (b"v", None):
        for format, key in (("json", b'{"city":"city 4"}'), ("json_sr?id=7", b'\0\0\0\0\7{"city":"city 4"}')):
            with pytest.raises(NotFound, match=r"record t/0@9 has the key .*, which is written as b'city 4' in record"):
                list(newest_records([*usual, written(9, key, format, value)], keys.find))
    others = [written(10, b'{"city":"city 9"}', "json"), written(11, b"city 9", "delimited|+epoch")]
    assert len(list(newest_records([*usual, others[0]], keys.find))) == 10
    with pytest.raises(NotFound, match=r"record t/0@11 .*'city 9'.*is written as .* in record t/0@10"):
        list(newest_records([*usual, *others], keys.find))
    # In one format, under two ids of its schema; and spelled in two ways, as by two programs.
    for first, second in (
        (
            written(9, b'\0\0\0\0\7{"city":"x"}', "json_sr?id=7"),
            written(10, b'\0\0\0\0\x09{"city":"x"}', "json_sr?id=9"),
        ),
        (written(9, b'{"city":"x"}', "json"), written(10, b'{"city": "x"}', "json")),
    ):
        with pytest.raises(NotFound, match=r"record t/0@10 has the key"):
            list(newest_records([*usual, first, second], keys.find))
    with pytest.raises(NotFound, match=r"record t/0@10 is not a row of table 'totals'"):
        list(newest_records([written(10, b"city", "json")], keys.find))


def test_keys_of_all_formats_are_compared_as_values() -> None:
    columns = (Column("n", "double"), Column("day", "date"))
    keys = _PlainKeys(columns, "totals", lambda format, data: NO_SCHEMAS)
    headers, _, _ = record(1, b"", b"v")
    rows = ({"n": 0.0, "day": date(2026, 1, 2)}, {"n": -0.0, "day": date(2026, 1, 2)}, {"n": None, "day": None})
    found = [
        {
            keys.find(replace(headers, formats=formats), encode_key(key_format(columns, *formats), columns, row) or b"")
            for formats in (("json", ""), ("json+epoch", ""), ("json", "delimited"), ("avro", "json_sr?id=3"))
        }
        for row in rows
    ]
    assert found[0] == found[1]  # the two zeros are one key
    assert [len(spellings) for spellings in found] == [1, 1, 1]


def test_rows_are_passed_on_in_chunks_of_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HANDED_BYTES", 10)
    monkeypatch.setattr(module, "HANDED_ROWS", 3)
    rows = [(1, (1,)), (9, (2,)), (30, (3,)), *[(0, (n,)) for n in range(4, 8)]]
    assert [len(some) for some in module._group_by_size(rows)] == [2, 1, 3, 1]
