"""What the schema beside a record says of its values: the same as the rule, which asks it for each value."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lakehouse.formats.values.connect_meaning import MICROS_OF_UNIT, ValueMeaning, meaning_of_start
from lakehouse.plan.expression.schema import parse_schema
from lakehouse.plan.names.debezium_options import DebeziumOptions

CONNECT, DEBEZIUM = "org.apache.kafka.connect.data.", "io.debezium.time."
NOTHING_DECLARED = DebeziumOptions()
COLUMNS = parse_schema("id int, name string, amount decimal(10, 4), made timestamp, born date, photo binary", "test")


def decimal(scale: Any) -> dict[str, Any]:
    return {"type": "bytes", "name": CONNECT + "Decimal", "parameters": {"scale": scale}}


def meaning(types: dict[str, Any], options: DebeziumOptions = NOTHING_DECLARED) -> ValueMeaning | None:
    fields = [{"field": name} | kind for name, kind in types.items()]
    start = json.dumps({"schema": {"type": "struct", "fields": fields}})[:-1] + ", "
    return meaning_of_start(start.encode(), COLUMNS, options, is_row_alone=True)


@pytest.mark.parametrize(
    ("amount", "number"),
    [
        (decimal("4"), 1),
        (decimal("2"), 100),
        (decimal("0"), 10_000),
        (decimal("5"), None),  # a digit may be lost: the rule looks at each
        (decimal("-1"), None),
        ({"type": "string"}, 0),
        ({"type": "double"}, None),
        ({"type": "bytes"}, None),
    ],
)
def test_a_decimal_s_text(amount: dict[str, Any], number: int | None) -> None:
    assert meaning({"amount": amount}) == ValueMeaning(fits=True, numbers=(number, None))
    assert meaning({"AMOUNT": amount}) == ValueMeaning(fits=True, numbers=(number, None)), "names are in any case"


@pytest.mark.parametrize(
    ("made", "unit"),
    [
        (DEBEZIUM + "Timestamp", "millis"),
        (DEBEZIUM + "MicroTimestamp", "micros"),
        (DEBEZIUM + "NanoTimestamp", "nanos"),
        (CONNECT + "Timestamp", "millis"),
        (DEBEZIUM + "ZonedTimestamp", None),
        (DEBEZIUM + "Date", None),
    ],
)
def test_a_moment_s_number(made: str, unit: str | None) -> None:
    number = None if unit is None else MICROS_OF_UNIT[unit]
    assert meaning({"made": {"type": "int64", "name": made}}) == ValueMeaning(fits=True, numbers=(None, number))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("name", {"type": "bytes"}),
        ("photo", {"type": "string"}),
        ("born", {"type": "int64", "name": DEBEZIUM + "Timestamp"}),
    ],
)
def test_a_type_that_only_the_rule_can_judge(name: str, kind: dict[str, Any]) -> None:
    assert meaning({name: kind}) == ValueMeaning(fits=False, numbers=(None, None))


def test_a_field_without_a_schema_is_as_declared() -> None:
    options = DebeziumOptions(decimals="precise", times=(("made", "micros"),))
    assert meaning({}, options) == ValueMeaning(fits=True, numbers=(1, MICROS_OF_UNIT["micros"]))
    assert meaning({"amount": decimal("2")}, options) == ValueMeaning(
        fits=True, numbers=(100, MICROS_OF_UNIT["micros"])
    )


def test_an_event_s_row_is_in_after() -> None:
    after = {"field": "after", "fields": [{"field": "amount"} | decimal("4")]}
    start = json.dumps({"schema": {"fields": [after]}})[:-1] + ","
    assert meaning_of_start(start.encode(), COLUMNS, DebeziumOptions(), is_row_alone=False) == ValueMeaning(
        fits=True, numbers=(1, None)
    )


@pytest.mark.parametrize(
    "start",
    [
        b"", b"{", b'{"schema":', b'{"schema":{}', b'{"schema":{},"payload" :7}{', b'{"schema":null,', b'{"schema":7,',
        b'{"schema":{},"x":1,', b'{"schema":{},"schema":{},', b'{"schema":{},"payload":1,', b'{"schema":{}}', b"[",
        b'{"schema":{"a":"\xff"},', b'{"schema":{"a":' + b"9" * 100_000 + b"},", b'{"schema":' + b"[" * 2000,
        b'{"schema":{"fields":[{"field":"amount","name":"org.apache.kafka.connect.data.Decimal"}]},',
        b'{"schema":{"fields":[{"field":"NAME"},{"field":"Name"}]},',
    ],
)  # fmt: skip
def test_what_is_no_start_of_a_record_with_a_schema(start: bytes) -> None:
    assert meaning_of_start(start, COLUMNS, DebeziumOptions(), is_row_alone=True) is None
