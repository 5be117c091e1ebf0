"""Fixes of quarantined records: which fit afterwards, which do not and why; and which records are chosen."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import lakehouse as lh
from lakehouse.errors import ConfigError, NeedsSpark, NotFound, PlanError
from lakehouse.formats.decode import decode_record
from lakehouse.lake.layout import Layout
from lakehouse.lake.record.quarantine import (
    ALL_RECORDS,
    QuarantineChoice,
    RecordPlace,
    count_open_by_stream,
    count_quarantined_records,
    read_quarantined,
    read_reasons,
)
from lakehouse.lake.record.writer_schemas import LakeSchemas
from lakehouse.model.model import DecodedRecord
from lakehouse.plan.registered.writer_schema import WriterSchema
from lakehouse.run.repair.fixes import (
    Edit,
    Fixes,
    StillBad,
    bytes_of_text,
    fixed_records,
    leave_unchanged,
)
from lakehouse.run.start.application import find_app, load_function
from lakehouse.semantics.record import Record

from ..seeds import seeds
from ..written_bronze import SCHEMA as BRONZE
from ..written_bronze import write_quarantine

T = 1_700_000_000_000
SCHEMA = "amount int, at bigint"


def app(schema: str = SCHEMA, topic: str = "orders", **more: Any) -> lh.App:
    return lh.app(lh.stream(topic, key="id string", schema=schema, name="orders", **more).latest("newest"))


def record(
    offset: int, value: bytes | None, key: bytes | None = b"k", ms: int = T, topic_id: str = "id-1", tick: int = 1
) -> Record:
    return Record("orders", topic_id, 0, offset, ms, key, value, tick, ms)


VALUES = (b"no order", b'{"amount": "7"}', b'{"amount": "x"}', b'{"amount": 1', b"\xff", b'{"amount": 2, "at": 3}')


@pytest.fixture
def lake(tmp_path: Path) -> Layout:
    """The quarantine of orders: five records, offsets 0 to 4, a second apart."""
    made = [record(n, value, ms=T + n * 1000, tick=1 + n // 2) for n, value in enumerate(VALUES)]
    write_quarantine(tmp_path, app().sources[0], made)
    return Layout(str(tmp_path))


def offsets(made: Fixes) -> tuple[list[int], list[int]]:
    return [item.was.record.offset for item in made.fixed], [item.was.record.offset for item in made.bad]


def test_a_function_makes_some_fit_and_says_why_others_do_not(lake: Layout) -> None:
    def fix(of: Record) -> Any:
        match of.offset:
            case 0:
                return replace(of, value=b'{"amount": 10}')
            case 1:
                return (of.value or b"").replace(b'"7"', b"7")
            case 2:
                return of
            case 3:
                return None
        raise KeyError("nothing helps")

    made = fixed_records(lake, app(), "orders", ALL_RECORDS, fix)
    assert [(item.was.record.offset, item.key, item.value) for item in made.fixed] == [
        (0, b"k", b'{"amount": 10}'), (1, b"k", b'{"amount": 7}'),
    ]  # fmt: skip
    first = made.fixed[0]
    assert first.was.reason == "value: expected a JSON object, found no order"
    assert first.record == replace(first.was.record, value=b'{"amount": 10}')
    assert [(item.was.record.offset, item.reason) for item in made.bad] == [
        (2, "value: field amount: expected int, found 'x'"), (3, "the fix gave nothing for it"),
        (4, "the fix failed: KeyError: 'nothing helps'"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("fix", "said"),
    [
        (lambda of: "text", "the fix gave str; expected a record, bytes (its value) or None"),
        (lambda of: replace(of, timestamp=1, tick=9), "the fix changed timestamp, tick; only key and value may change"),
        (lambda of: replace(of, value="text"), "the fix gave str as the value; expected bytes or None"),
        (lambda of: replace(of, key=b"\xff", value=None), "key: expected UTF-8, found byte 0xff at 0"),
    ],
    ids=["text", "place", "value", "key"],
)
def test_what_a_function_may_not_return(lake: Layout, fix: Any, said: str) -> None:
    made = fixed_records(lake, app(), "orders", QuarantineChoice(places=(RecordPlace("orders", 0, 0),)), fix)
    assert (made.fixed, [item.reason for item in made.bad]) == ((), [said])


def test_an_edit(lake: Layout) -> None:
    one = QuarantineChoice(places=(RecordPlace("orders", 0, 4),))
    made = fixed_records(lake, app(), "orders", one, Edit(value=None, key=b"other"))
    assert [(f.key, f.value) for f in made.fixed] == [(b"other", None)]
    (still,) = fixed_records(lake, app(), "orders", one, Edit(value=b"[]")).bad
    assert (still.value, still.reason) == (b"[]", "value: expected a JSON object, found []")
    with pytest.raises(ConfigError, match="an edit changes one record, found 5: orders/0/0, id-1, tick 1"):
        fixed_records(lake, app(), "orders", ALL_RECORDS, Edit(value=b"{}"))


def test_a_new_schema_takes_them_as_they_are(lake: Layout) -> None:
    made = fixed_records(lake, app("amount string"), "orders", ALL_RECORDS, leave_unchanged)
    assert offsets(made) == ([1, 2], [0, 3, 4])
    assert all(item.value == VALUES[item.was.record.offset] for item in made.fixed)
    # The declaration differs in other ways, too.
    assert offsets(fixed_records(lake, app(topic="web-orders"), "orders", ALL_RECORDS, leave_unchanged))[0] == []
    (still, *_) = fixed_records(
        lake, app("amount string", topic="web-orders"), "orders", ALL_RECORDS, leave_unchanged
    ).bad
    assert still.reason == "it is not of topic 'web-orders', which the stream reads now"


def test_the_event_time_counts(lake: Layout) -> None:
    timed = app(event_time="at")
    (still,) = fixed_records(
        lake, timed, "orders", QuarantineChoice(reason="found '7'"), Edit(value=b'{"amount": 7}')
    ).bad
    assert still.reason == "the event time at is null"
    assert fixed_records(lake, timed, "orders", QuarantineChoice(reason="found '7'"), Edit(value=b'{"at": 7}')).fixed
    only_spark = app(event_time="unix_millis(timestamp_seconds(at))")
    with pytest.raises(
        NeedsSpark, match="can't be computed without Spark, so it is not known whether a fixed record fits"
    ):
        fixed_records(lake, only_spark, "orders", QuarantineChoice(reason="found '7'"), Edit(value=b'{"at": 7}'))


@pytest.mark.parametrize(
    ("choice", "found"),
    [
        (ALL_RECORDS, [0, 1, 2, 3, 4]),
        (QuarantineChoice(reason="field amount"), [1, 2]),
        (QuarantineChoice(reason="%'; DROP"), []),
        (QuarantineChoice(start_ms=T + 1000, end_ms=T + 3000), [1, 2]),
        (
            QuarantineChoice(
                places=(RecordPlace("orders", 0, 4), RecordPlace("orders", 0, 1), RecordPlace("orders", 9, 1))
            ),
            [1, 4],
        ),
        (QuarantineChoice(reason="field", places=(RecordPlace("orders", 0, 4), RecordPlace("orders", 0, 2))), [2]),
    ],
    ids=str,
)
def test_which_records_are_chosen(lake: Layout, choice: QuarantineChoice, found: list[int]) -> None:
    assert [item.record.offset for item in read_quarantined(lake, "orders", choice)] == found
    assert [item.record.offset for item in read_quarantined(lake, "orders", choice, 2, newest_first=True)] == found[
        ::-1
    ][:2]
    if found:
        assert offsets(fixed_records(lake, app(), "orders", choice, leave_unchanged)) == ([], found)
    else:
        with pytest.raises(NotFound, match="no quarantined record was chosen"):
            fixed_records(lake, app(), "orders", choice, leave_unchanged)


def test_reasons_are_counted_without_the_values_found(lake: Layout) -> None:
    actual = read_reasons(lake, "orders")
    assert [
        (item.kind, item.records, item.first_tick, item.last_tick, item.example.place.offset) for item in actual
    ] == [
        ("value: field amount: expected int", 2, 1, 2, 2),
        ("value: expected UTF-8", 1, 3, 3, 4),
        ("value: expected a JSON object", 1, 1, 1, 0),
        ("value: expected a JSON object that ends with }", 1, 2, 2, 3),
    ]
    for item in actual:  # the text shown chooses the records counted, and perhaps more
        assert len(read_quarantined(lake, "orders", QuarantineChoice(reason=item.kind))) >= item.records


def test_a_record_of_a_recreated_topic_is_another_one(tmp_path: Path) -> None:
    made = [record(0, b"1", topic_id="id-1"), record(0, b"2", ms=T + 5, topic_id="id-2", tick=2)]
    write_quarantine(tmp_path, app().sources[0], made)
    lake, place = Layout(str(tmp_path)), RecordPlace("orders", 0, 0)
    with pytest.raises(ConfigError, match="found 2: orders/0/0, id-1, tick 1, orders/0/0, id-2, tick 2"):
        fixed_records(lake, app(), "orders", QuarantineChoice(places=(place,)), Edit(value=b"{}"))
    made_fit = fixed_records(
        lake, app(), "orders", QuarantineChoice(places=(place,), start_ms=T + 5), Edit(value=b"{}")
    )
    assert [item.record.topic_id for item in made_fit.fixed] == ["id-2"]


def test_names_that_do_not_exist(lake: Layout) -> None:
    with pytest.raises(NotFound, match=r"stream 'clicks' has no quarantine .* There are: orders"):
        read_quarantined(lake, "clicks")
    with pytest.raises(PlanError, match=r"stream 'clicks' is not in this application. There are: orders"):
        fixed_records(lake, app(), "clicks", ALL_RECORDS, leave_unchanged)


def test_a_text_becomes_bytes_as_the_stream_is_declared() -> None:
    numbers = lh.app(lh.stream("n", key="id int", schema="v double", format="kafka").latest("t"))
    source = numbers.source("n")
    assert bytes_of_text(source, "key", "7") == b"\0\0\0\7"
    assert bytes_of_text(source, "value", "1.5") == b"\x3f\xf8" + bytes(6)
    with pytest.raises(ConfigError, match="key 'seven': expected int, found 'seven'"):
        bytes_of_text(source, "key", "seven")
    assert bytes_of_text(app().source("orders"), "value", "ü") == "ü".encode()


def test_a_text_becomes_avro_by_the_newest_schema_that_the_lake_keeps(lake: Layout) -> None:
    orders = lh.stream("paid", key="id bigint", schema="amount decimal(9, 2)", format="avro", key_format="avro")
    source = lh.app(orders.latest("t")).source("paid")
    amount = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
    text = json.dumps({"type": "record", "name": "Paid", "fields": [{"name": "amount", "type": amount}]})
    schemas = LakeSchemas(lake)
    schemas.keep("paid", {"key": {3: WriterSchema("AVRO", '"long"')}, "value": {7: WriterSchema("AVRO", text)}}, 1)
    assert bytes_of_text(source, "key", "-2", schemas.find) == b"\0\0\0\0\3\3"
    assert bytes_of_text(source, "value", '{"amount": 1.28}', schemas.find) == b"\0\0\0\0\7\4\0\x80"
    with pytest.raises(ConfigError, match=r"schema 7: field amount: expected .* Or give the bytes: by --value-file"):
        bytes_of_text(source, "value", '{"amount": "much"}', schemas.find)
    with pytest.raises(ConfigError, match="no schema of the topic's writers is known by which it could be written"):
        bytes_of_text(source, "value", '{"amount": 1}')


def test_the_key_of_a_database_s_change_is_written_by_the_schema_of_keys(lake: Layout) -> None:
    source = lh.debezium("shop.paid", key="id int", schema="amount int", format="avro").source
    key = {"type": "record", "name": "Key", "fields": [{"name": "ID", "type": "int"}]}
    schemas = LakeSchemas(lake)
    schemas.keep("shop.paid", {"key": {3: WriterSchema("AVRO", json.dumps(key))}}, 1)
    assert bytes_of_text(source, "key", '{"ID": 7}', schemas.find) == b"\0\0\0\0\3\x0e"


def test_functions_are_found_by_name(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(
        "import lakehouse as lh\n"
        "app = lh.app(lh.stream('t', key='k string', schema='v int').latest('x'))\n"
        "def repair(record): return b'{}'\n"
    )
    (tmp_path / "fixes.py").write_text("import no_such_module\n")
    of = find_app(str(tmp_path / "app.py"))
    assert load_function("repair", of)(record(0, b"")) == b"{}"
    assert load_function(f"{tmp_path / 'app.py'}:repair", of)(record(0, b"")) == b"{}"
    assert load_function("json:loads", of)("1") == 1
    for target, error, said in (
        ("app", ConfigError, "function 'app': found an application, expected a function"),
        ("missing", ConfigError, "app.py has no 'missing', expected a function"),
        ("no_such:fix", ConfigError, "function 'no_such:fix': No module named"),
        ("missing.py:fix", ConfigError, "function 'missing.py:fix': no such file"),
        ("a b:fix", ConfigError, "function 'a b:fix': expected a Python file"),
        (f"{tmp_path / 'fixes.py'}:fix", PlanError, "fixes.py:1: ModuleNotFoundError: No module"),
    ):
        with pytest.raises(error, match=said):
            load_function(target, of)


TEXTS = (b'{"amount": 1}', b"null", b'{"amount": 99999999999}', b"{}", b"\xff", b"no order")


@pytest.mark.parametrize("seed", seeds(1, 2))
def test_every_fixed_record_fits_and_nothing_is_lost(tmp_path: Path, seed: int) -> None:
    """Of 200 records some are left as they are, some get a value that fits, or one that does not, some another key."""
    dice, lake, source = Random(seed), Layout(str(tmp_path)), app().sources[0]
    quarantined = [
        record(n, b"bad" + dice.randbytes(dice.randint(0, 12)), dice.choice([None, b"k"])) for n in range(200)
    ]
    write_quarantine(tmp_path, source, quarantined)
    edits = {
        n: None if dice.random() < 0.3 else Edit(value=dice.choice(TEXTS), key=dice.choice([None, b"other", b"\xff"]))
        for n in range(len(quarantined))
    }

    def fix(of: Record) -> Any:
        edit = edits[of.offset]
        return None if edit is None else edit(of)

    fixes = fixed_records(lake, app(), "orders", ALL_RECORDS, fix)
    fixed, bad = offsets(fixes)
    assert sorted([*fixed, *bad]) == list(range(len(quarantined)))
    for item in fixes.fixed:
        assert isinstance(decode_record(source, item.record), DecodedRecord)
        before = quarantined[item.record.offset]
        assert replace(item.record, key=None, value=None) == replace(before, key=None, value=None)
    for still in fixes.bad:
        assert isinstance(still, StillBad)
        tried = replace(still.was.record, key=still.key, value=still.value)
        assert edits[tried.offset] is None or getattr(decode_record(source, tried), "reason", None) == still.reason
    changed = {n for n, edit in edits.items() if edit is not None}
    assert changed & set(fixed)
    assert changed & set(bad)
    assert set(bad) - changed, "a record that was left as it is stays in the quarantine"


def decide(
    lake: Layout, at: int, kind: str, tables: str = "newest", fixes: tuple[int, ...] = (), **details: Any
) -> None:
    """Write an intervention into the log, as a lake has it."""
    rows = [
        {"at": at, "id": f"i{at}", "table": table, "kind": kind, "reason": "", "details": json.dumps(details)}
        for table in tables.split()
    ]
    write_deltalake(lake.interventions, pa.Table.from_pylist(rows), mode="append")
    places = [{"id": f"i{at}", "topic_id": "id-1", "partition": 0, "offset": n} for n in fixes]
    columns = {name: BRONZE.field(name).type for name in ("topic_id", "partition", "offset")}
    table = pa.Table.from_pylist(places, pa.schema({"id": pa.string(), **columns}))
    write_deltalake(lake.intervention_records, table, mode="append")


def test_records_that_are_still_open_after_a_replay_are_counted(lake: Layout) -> None:
    def told(choice: QuarantineChoice = ALL_RECORDS) -> list[int | None]:
        return [item.fixed_at for item in read_quarantined(lake, "orders", choice)]

    assert count_quarantined_records(lake, "orders") == (5, 5)
    decide(lake, 4, "fixed", "newest sums", (0, 1), stream="orders")
    decide(lake, 5, "fixed", "newest", (2,), stream="another")
    decide(lake, 6, "fixed", "newest sums", (1, 3), stream="orders")
    assert told() == [4, 6, None, 6, None]
    assert (count_quarantined_records(lake, "orders"), told(QuarantineChoice(open=True))) == ((5, 2), [None, None])
    assert sum(item.open for item in read_reasons(lake, "orders")) == 2
    assert count_open_by_stream(lake, ["orders"]) == {"orders": 2}
    decide(lake, 7, "revert", "sums", tick=5)
    assert told() == [4, 4, None, None, None], "one of the tables has it no more"
    decide(lake, 8, "swap", "sums")
    assert told() == [4, 6, None, 6, None], "what is made from bronze has all fixes again"


def test_a_function_lets_the_time_of_a_record_pass_only_if_it_changes_the_record(tmp_path: Path) -> None:
    ahead = app("amount int, at bigint", event_time="at", max_ahead="1 day")
    far_at = T + 400 * 24 * 60 * 60 * 1000
    values = [
        b'{"amount": "7", "at": %d}' % T,
        b'{"amount": 8, "at": %d}' % far_at,
        b'{"amount": "9", "at": %d}' % far_at,
    ]
    write_quarantine(tmp_path, ahead.sources[0], [record(n, value) for n, value in enumerate(values)])
    layout = Layout(str(tmp_path))

    def unquote(old: Record) -> bytes:
        assert old.value is not None
        return old.value.replace(b'"7"', b"7").replace(b'"9"', b"9")

    by_function = fixed_records(layout, ahead, "orders", ALL_RECORDS, unquote)
    assert offsets(by_function) == ([0, 2], [1])
    assert "ahead of the record's own timestamp" in by_function.bad[0].reason
    assert offsets(fixed_records(layout, ahead, "orders", ALL_RECORDS, leave_unchanged)) == ([1], [0, 2])
