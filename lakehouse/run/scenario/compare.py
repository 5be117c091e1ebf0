"""Compares a scenario's expectations with an engine's results, and gives the difference as text.

Outputs are compared in order, tables in any order; doubles within 1e-6, decimals exactly, scale included, also as
texts; timestamps, dates and binaries by their text in JSON. A tombstone that repeats the one before it may be expected
of a table, and be lacking. A row of a windowed table has its window beside its key:
"window": {"start": ms, "end": ms, "type": "time"}, or "session" for a session window.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from typing import Any

from lakehouse.formats.epoch import moments_to_numbers
from lakehouse.formats.values.json_text import write_json
from lakehouse.model.event import LateRecord, from_hashable
from lakehouse.model.model import Result
from lakehouse.plan.app import App
from lakehouse.plan.names.field import field_name
from lakehouse.plan.names.record_format import parse_format
from lakehouse.plan.table import Table
from lakehouse.run.scenario.as_written import as_row, plain_value, sink_of_topic
from lakehouse.run.scenario.field_names import in_fields
from lakehouse.run.scenario.keys import Keys, keys_in
from lakehouse.semantics.changelog import Change, Key
from lakehouse.semantics.java_double import java_double

DOUBLE_TOLERANCE = 1e-6
_UNCHANGED = "  "
_MISSING = "- "
_EXTRA = "+ "


def compare(app: App, result: Result, expected: Mapping[str, Any]) -> list[str]:
    """Return one text for each topic, table, quarantine, counter and list of late records that is not as expected.

    expected: "outputs", "tables", "quarantine", "null_keys" and "late" as a scenario file has them; names that it lacks
    are not checked. In a difference, "-" is the expected line and "+" the actual line.
    """
    failures = []
    result = in_fields(app, result)
    outputs_by_topic: dict[str, list[dict[str, Any]]] = {}
    for item in expected.get("outputs", []):
        outputs_by_topic.setdefault(_match_spelling(item["topic"], {**result.topics, **result.changelogs}), []).append(
            item
        )
    for topic, expected_records in outputs_by_topic.items():
        sent_changes = _with_plain_times(app, topic, result.topics.get(topic, result.changelogs.get(topic)))
        changes_by_topic = {**result.changelogs, **result.topics}
        if sent_changes is None:
            failures += _report_missing("topic", topic, changes_by_topic)
        else:
            failures += _compare_outputs(app, topic, expected_records, sent_changes)
    for spelled_name, expected_rows in expected.get("tables", {}).items():
        table_rows = result.tables.get(name := _match_spelling(spelled_name, result.tables))
        if table_rows is None:
            failures += _report_missing("table", name, result.tables)
        else:
            failures += _compare_table(name, keys_in(app, app.table(name)), expected_rows, table_rows)
    for spelled_name, expected_bad in expected.get("quarantine", {}).items():
        quarantined_records = result.quarantine.get(name := _match_spelling(spelled_name, result.quarantine))
        if quarantined_records is None:
            failures += _report_missing("quarantine", name, result.quarantine)
        else:
            failures += _compare_quarantine(
                name, expected_bad, [(r.topic, r.partition, r.offset, reason) for r, reason in quarantined_records]
            )
    for spelled_name, expected_count in expected.get("null_keys", {}).items():
        if (name := _match_spelling(spelled_name, result.tables)) not in result.tables:
            failures += _report_missing("table", name, result.tables)
        elif (ignored_count := result.null_keys.get(name, 0)) != expected_count:
            failures.append(
                f"table {name}: expected {expected_count} records ignored for a null key, found {ignored_count}"
            )
    for spelled_name, expected_records in expected.get("late", {}).items():
        late_records = result.late.get(name := _match_spelling(spelled_name, result.late))
        if late_records is None:
            failures += _report_missing("table", name, result.late)
        else:
            failures += _compare_late(name, keys_in(app, app.table(name)), expected_records, late_records)
    return failures


def compare_beginnings(app: App, result: Result, expected: list[dict[str, Any]]) -> list[str]:
    """Return one text for each topic whose records do not begin with the expected records, as `compare` does."""
    failures = []
    result = in_fields(app, result)
    for topic in dict.fromkeys(item["topic"] for item in expected):
        sent_changes = _with_plain_times(app, topic, result.topics.get(topic, result.changelogs.get(topic))) or []
        key_names = _keys_of_topic(app, topic)
        expected_records = [item for item in expected if item["topic"] == topic]
        expected_records = [
            item | ({"window": item["window"] | {"type": key_names.window}} if "window" in item else {})
            for item in expected_records
        ]
        failures += _compare_outputs(app, topic, expected_records, sent_changes[: len(expected_records)])
    return failures


def _match_spelling(name: str, known_names: Iterable[str]) -> str:
    """Return a name as the application has it: in SQL its case makes no difference, and any text may be one."""
    known_names = list(known_names)
    if name in known_names:
        return name
    return next(
        (known for known in known_names if name.lower() in (known.lower(), field_name(known).lower())),
        name,
    )


def _report_missing(kind: str, name: str, known_names: Iterable[str]) -> list[str]:
    return [f"{kind} {name}: does not exist. There are: {', '.join(sorted(known_names)) or 'none'}"]


def _keys_of_topic(app: App, topic: str) -> Keys:
    """Return the keys of the node published to a topic, or of the table named instead of a topic."""
    return keys_in(app, next((sink.source for sink in app.sinks if sink.topic == topic), None) or app.table(topic))


def _with_plain_times(app: App, topic: str, changes: list[Change] | None) -> list[Change] | None:
    """Return the changes with their times as numbers, if the topic has them as numbers."""
    sink = sink_of_topic(app, topic)
    if changes is None or sink is None or not parse_format(sink.format).has_number_moments:
        return changes
    key_names = _keys_of_topic(app, topic).columns
    converted = []
    for change in changes:
        key, value = change.key, change.value
        if key is not None:
            key_parts = dict(zip(key_names, map(from_hashable, key), strict=False))
            key = (*moments_to_numbers(key_parts).values(), *key[len(key_names) :])
        converted.append(replace(change, key=key, value=None if value is None else moments_to_numbers(value)))
    return converted


def _compare_outputs(
    app: App, topic: str, expected_records: list[dict[str, Any]], actual_changes: list[Change]
) -> list[str]:
    key_names, sink = _keys_of_topic(app, topic), sink_of_topic(app, topic)
    if len(expected_records) > len(actual_changes) and (sink is None or isinstance(sink.source, Table)):
        expected_records = _without_repeated_tombstones(expected_records)
    lines: list[str] = []
    is_equal = True
    for number in range(max(len(expected_records), len(actual_changes))):
        expected_record = expected_records[number] if number < len(expected_records) else None
        actual = _change_to_json(actual_changes[number], key_names) if number < len(actual_changes) else None
        if (
            expected_record is not None
            and actual is not None
            and _matches_expected(as_row(sink, key_names.columns, expected_record, actual_changes[number]), actual)
        ):
            lines.append(_UNCHANGED + write_json(actual))
            continue
        is_equal = False
        if expected_record is not None:
            lines.append(
                _MISSING + write_json({name: value for name, value in expected_record.items() if name != "topic"})
            )
        if actual is not None:
            lines.append(_EXTRA + write_json(actual))
    header = f"topic {topic}: expected {len(expected_records)} records, found {len(actual_changes)}"
    return [] if is_equal else ["\n".join([header, *lines])]


def _without_repeated_tombstones(expected_records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leave out each tombstone of a key that the tombstone before it has deleted.

    Kafka Streams writes it where both sides of a join by a foreign key are deleted. Our changelogs have none.
    """
    deleted_keys: set[str] = set()
    kept_records = []
    for record in expected_records:
        key_text = write_json({"key": record.get("key"), "window": record.get("window")})
        is_tombstone = record.get("value") is None
        if is_tombstone and key_text in deleted_keys:
            continue
        (deleted_keys.add if is_tombstone else deleted_keys.discard)(key_text)
        kept_records.append(record)
    return kept_records


def _change_to_json(change: Change, key_names: Keys) -> dict[str, Any]:
    """Return a change in the form of a scenario."""
    return {**key_names.key_to_json(change.key), "value": plain_value(change.value), "timestamp": change.timestamp}


def _matches_expected(expected: dict[str, Any], actual: dict[str, Any]) -> bool:
    is_same = all(_equals_expected(expected.get(name), actual.get(name)) for name in ("key", "window", "value"))
    return is_same and ("timestamp" not in expected or expected["timestamp"] == actual["timestamp"])


def _compare_table(
    name: str, key_names: Keys, expected_rows: list[dict[str, Any]], actual_rows: dict[Key, Any]
) -> list[str]:
    extra_rows = [{**key_names.key_to_json(row_key), "value": plain_value(row)} for row_key, row in actual_rows.items()]
    missing_lines = []
    for expected_row in expected_rows:
        match = next((n for n, row in enumerate(extra_rows) if _matches_expected(expected_row, row)), None)
        if match is None:
            missing_lines.append(_MISSING + write_json(expected_row))
        else:
            extra_rows.pop(match)
    if not missing_lines and not extra_rows:
        return []
    header = f"table {name}: expected {len(expected_rows)} rows, found {len(actual_rows)}"
    return ["\n".join([header, *missing_lines, *(_EXTRA + write_json(row) for row in extra_rows)])]


def _compare_quarantine(
    name: str, expected_records: list[dict[str, Any]], quarantined_records: list[tuple[str, int, int, str]]
) -> list[str]:
    is_equal = len(expected_records) == len(quarantined_records) and all(
        (expected.get("topic", topic), expected.get("partition", 0), expected["offset"]) == (topic, partition, offset)
        and expected.get("reason contains", "") in reason
        for expected, (topic, partition, offset, reason) in zip(expected_records, quarantined_records, strict=True)
    )
    if is_equal:
        return []
    lines = [_MISSING + write_json(expected) for expected in expected_records]
    lines += [
        _EXTRA + write_json({"offset": offset, "partition": partition, "reason": reason, "topic": topic})
        for topic, partition, offset, reason in quarantined_records
    ]
    return [
        "\n".join(
            [f"quarantine {name}: expected {len(expected_records)} records, found {len(quarantined_records)}", *lines]
        )
    ]


def _compare_late(
    name: str, key_names: Keys, expected_records: list[dict[str, Any]], late_records: list[LateRecord]
) -> list[str]:
    """Compare late records in position order; a record that came too late for several windows counts once for each."""
    late_lines: list[dict[str, Any]] = [
        {"offset": item.identity.offset, "partition": item.identity.partition} for item in late_records
    ]
    for line, item in zip(late_lines, late_records, strict=True):
        if item.span is not None:
            line["window"] = key_names.bounds(*item.span)
        line["topic"] = item.position.topic
    if len(expected_records) == len(late_lines) and all(
        {"topic": line["topic"], "partition": 0, **expected_record} == line
        for expected_record, line in zip(expected_records, late_lines, strict=True)
    ):
        return []
    lines = [_MISSING + write_json(expected_record) for expected_record in expected_records] + [
        _EXTRA + write_json(line) for line in late_lines
    ]
    return [
        "\n".join([f"table {name}: expected {len(expected_records)} late records, found {len(late_lines)}", *lines])
    ]


def is_near(first_value: float, second_value: float) -> bool:
    """Say whether two doubles are the same within the tolerance of tests, which is absolute."""
    return abs(first_value - second_value) <= DOUBLE_TOLERANCE


def is_same_value(
    first_value: Any, second_value: Any, is_same_double: Callable[[float, float], bool] = is_near
) -> bool:
    """Say whether two values of `plain` are the same. is_same_double: called with a finite double and another."""
    if isinstance(first_value, float) and not math.isfinite(first_value):
        first_value = java_double(first_value)
    return _equals_expected(first_value, second_value, is_same_double)


def _parse_decimal(number: int | Decimal | str) -> Decimal:
    try:
        return Decimal(number)
    except InvalidOperation:
        return Decimal("NaN")


def _equals_expected(expected: Any, actual: Any, is_same_double: Callable[[float, float], bool] = is_near) -> bool:
    match actual:
        case float():
            if isinstance(expected, str):  # "NaN", "Infinity", "-Infinity"
                return expected == java_double(actual)
            is_number = isinstance(expected, int | Decimal | float) and not isinstance(expected, bool)
            return is_number and is_same_double(float(Decimal(expected)), actual)
        case int() if isinstance(expected, Decimal) and not isinstance(actual, bool):
            return expected == actual
        case Decimal():
            is_exact = isinstance(expected, int | Decimal | str) and not isinstance(expected, bool)
            return is_exact and _parse_decimal(expected).as_tuple() == actual.as_tuple()
        case dict():
            return (
                isinstance(expected, dict)
                and expected.keys() == actual.keys()
                and all(is_same_value(expected[k], actual[k], is_same_double) for k in actual)
            )
        case list():
            return (
                isinstance(expected, list)
                and len(expected) == len(actual)
                and all(is_same_value(*pair, is_same_double) for pair in zip(expected, actual, strict=True))
            )
    return type(expected) is type(actual) and bool(expected == actual)
