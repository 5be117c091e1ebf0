"""Proposes a declaration for a topic from a sample of its records, in Python and SQL, with the evidence for each part.

Both texts run before they are shown, and the Python text reads the records of the sample: so the records that would go
to the quarantine are counted, not guessed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lakehouse.errors import ConfigError, NeedsSpark, PlanError, SqlError
from lakehouse.formats.codec.debezium import DELETED_MARK
from lakehouse.formats.codec.registered import PREFIX_LENGTH, schema_id
from lakehouse.formats.decode import decode_record
from lakehouse.formats.values.connect_record import RecordSchema
from lakehouse.formats.values.connect_value import FieldSchemas, split_payload, type_of_meaning
from lakehouse.formats.values.json_text import JsonNumber, Members, parse_value, write_parsed
from lakehouse.formats.values.unfit import Unfit
from lakehouse.ksql.script import Script
from lakehouse.model import model
from lakehouse.plan.app import App
from lakehouse.plan.build import stream
from lakehouse.plan.databases.debezium import debezium
from lakehouse.plan.origin import Source
from lakehouse.run.infer.evidence import MOSTLY, Evidence, FieldType
from lakehouse.run.infer.texts import DeclarationParts, declaration_arguments, python_text, sql_name, sql_text
from lakehouse.semantics.record import Record
from lakehouse.semantics.time.named_moment import time_ms

DAY_MS = 24 * 60 * 60 * 1000
REGISTERED = "registered"  # an id of a registry's schema, and bytes that are no JSON
ABSENT = "absent"  # no value: a tombstone
JSON_OBJECT, JSON_BEHIND_ID, OTHER_JSON, TEXT, BYTES = "object", "object behind an id", "other JSON", "text", "bytes"
FLATTENED = "flattened"  # a change log of rows alone
FORMATS = {JSON_OBJECT: "json", JSON_BEHIND_ID: "json_sr", TEXT: "kafka", OTHER_JSON: "kafka", BYTES: "kafka"}


@dataclass(frozen=True, slots=True)
class ProposedColumn:
    """A column of the declaration. field: its name in the topic. evidence, example: for people."""

    field: str
    type: FieldType
    evidence: str
    example: str
    is_key: bool = False


@dataclass(frozen=True, slots=True)
class Unread:
    """Records of the sample that the declaration would send to the quarantine, for one kind of reason."""

    reason: str
    records: int
    first: str


@dataclass(frozen=True, slots=True)
class Proposal:
    """A declaration of a topic.

    notes: facts that people should know, or decide about. unread: the records that it would not read.
    """

    topic: str
    records: int
    columns: tuple[ProposedColumn, ...]
    python: str
    sql: str
    notes: tuple[str, ...]
    unread: tuple[Unread, ...]


def propose(topic: str, records: Sequence[Record]) -> Proposal:
    """Return the declaration that fits most records of a topic. Raises ConfigError if there is nothing to go by."""
    read_records = [(record, *_read_value(record.value)) for record in records]
    kinds = Counter(kind for _, kind, _ in read_records)
    present = len(records) - kinds[ABSENT]
    if not present:
        raise ConfigError(
            f"topic {topic!r}: {len(records):,} records were read and none has a value, so nothing says what its "
            "columns are."
        )
    kind = max((kind for kind in kinds if kind != ABSENT), key=lambda kind: kinds[kind])
    if kind == REGISTERED:
        raise ConfigError(
            f"topic {topic!r}: {kinds[REGISTERED]:,} of {present:,} values begin with the id of a registry's schema, "
            f"such as {_first_schema_id(records)}, and are no JSON. Their columns are in the registry: "
            f'`lakehouse schema pull {topic}`, and lh.stream("{topic}", format="avro"), or "protobuf" (docs/avro.md, '
            "docs/protobuf.md)."
        )
    notes = [
        f"{kinds[other_kind]:,} of {present:,} values are {_WORDS[other_kind]}, not {_WORDS[kind]}."
        for other_kind in kinds
        if other_kind not in (kind, ABSENT)
    ]
    rows = [(record, value) for record, own_kind, value in read_records if own_kind == kind]
    columns, declared = _columns_of_rows(topic, kind, rows)
    key_columns, key_format, key_notes = _propose_key(records, rows if kind == JSON_OBJECT else [], columns)
    repeated_fields = {column.field for column in key_columns}
    is_object = kind in (JSON_OBJECT, JSON_BEHIND_ID)
    # A change log's key is made of its row's fields.
    if is_object and key_format != "kafka" and not declared.is_change_log:
        pairs = [
            (_fields_of(_parse_json(record.key), key_format), _fields_of(value, declared.format))
            for record, value in rows
            if record.key is not None
        ]
        other_fields = [
            column.field for column in columns if column.field in repeated_fields and _is_other(column.field, pairs)
        ]
        repeated_fields = repeated_fields.difference(other_fields)
        key_notes += [
            f"The value's field {field!r} is another than the key's of this name: it is a column with another name."
            for field in other_fields
        ]
    columns = [column for column in columns if column.field not in repeated_fields]
    if not columns:
        raise ConfigError(
            f"topic {topic!r}: its values have no field beside {', '.join(map(repr, sorted(repeated_fields)))}, which "
            "the key has, too. Declare it by hand (docs/your-own-topic.md)."
        )
    event_time, time_notes = _propose_time(rows, columns, declared)
    examples = {column.field: column.example for column in columns}
    declared = replace(
        declared,
        key=tuple((column.field, column.type) for column in key_columns),
        key_format=key_format,
        columns=tuple((column.field, column.type) for column in columns),
        event_time=event_time,
        time_example=examples.get(event_time, ""),
    )
    notes += [*key_notes, *time_notes]
    if kinds[ABSENT]:
        notes.append(
            f"{kinds[ABSENT]:,} of {len(records):,} records have no value: they are deletes for a table of the latest "
            "values."
        )
    unread = _find_unread(_declare_source(declared), records)
    statement, sql_notes = _propose_sql(declared, records, sum(item.records for item in unread))
    return Proposal(
        topic, len(records), (*key_columns, *columns), python_text(declared), statement, (*notes, *sql_notes), unread
    )


_WORDS = {
    JSON_OBJECT: "JSON objects", JSON_BEHIND_ID: "JSON objects behind the id of a registry's schema",
    OTHER_JSON: "JSON, but no objects", TEXT: "text", BYTES: "bytes that are no text",
    REGISTERED: "bytes behind the id of a registry's schema", ABSENT: "no value",
}  # fmt: skip


def _read_value(data: bytes | None) -> tuple[str, Any]:
    """Return the kind of a record's value, and an object as parsed JSON; else its text, None for no value."""
    if data is None:
        return ABSENT, None
    is_behind_id = schema_id(data) is not None
    value = _parse_json(data[PREFIX_LENGTH:] if is_behind_id else data)
    if isinstance(value, Members):
        return (JSON_BEHIND_ID if is_behind_id else JSON_OBJECT), value
    text = data.decode(errors="replace")
    if is_behind_id:
        return REGISTERED, text
    if value is None and data.strip() == b"null":
        return ABSENT, None
    if value is not _NO_JSON:
        return OTHER_JSON, text
    return (TEXT if _is_text(data) else BYTES), text


_NO_JSON = object()


def _parse_json(data: bytes) -> Any:
    try:
        return parse_value(data.decode())
    except (UnicodeDecodeError, Unfit):
        return _NO_JSON


def _is_text(data: bytes) -> bool:
    try:
        return data.decode().isprintable()
    except UnicodeDecodeError:
        return False


def _first_schema_id(records: Iterable[Record]) -> int | None:
    return next((id for record in records if (id := schema_id(record.value or b"")) is not None), None)


def _columns_of_rows(
    topic: str, kind: str, rows: Sequence[tuple[Record, Any]]
) -> tuple[list[ProposedColumn], DeclarationParts]:
    """Return the value's columns, and the declaration with the format."""
    bare = DeclarationParts(topic, FORMATS[kind], ())
    if kind not in (JSON_OBJECT, JSON_BEHIND_ID):
        type = FieldType("binary" if kind == BYTES else "string")
        evidence = f"{len(rows):,} values are {_WORDS[kind]}"
        return [ProposedColumn("value", type, evidence, str(rows[0][1]))], bare
    envelope, inner_rows = _unwrap_rows(rows) if kind == JSON_OBJECT else ("", [row for _, row in rows])
    is_flattened = envelope == FLATTENED
    columns = _columns_of_objects(inner_rows, is_key=False)
    if is_flattened:
        columns = [column for column in columns if column.field != DELETED_MARK]
    if envelope:
        columns = _with_schema_types(columns, _field_schemas(rows, is_change=envelope == "debezium"))
    if not columns and envelope == "debezium":
        raise ConfigError(
            f"topic {topic!r}: its values are changes of a database, and none has an object in after or before. "
            "MongoDB's connector writes documents as texts: declare it by hand, lh.debezium(..., documents=True) "
            "(docs/databases.md#mongodb)."
        )
    if not columns:
        raise ConfigError(f"topic {topic!r}: its values are JSON objects without a field, so there is no column.")
    format = "debezium" if is_flattened else envelope or FORMATS[kind]
    return columns, replace(bare, format=format, is_flattened=is_flattened)


def _field_schemas(rows: Sequence[tuple[Record, Any]], *, is_change: bool) -> FieldSchemas | None:
    """Return what the newest record says of its row's fields, in the schema beside it; None without one."""
    schema = RecordSchema(split_payload(rows[-1][1])[0])
    return schema.after_schemas if is_change else schema.row_schemas


def _with_schema_types(columns: list[ProposedColumn], schemas: FieldSchemas | None) -> list[ProposedColumn]:
    """Return the columns with the types that a schema means: bytes may be a decimal, and a number days."""
    if schemas is None:
        return columns
    meanings = [type_of_meaning(schemas.get(column.field)) for column in columns]
    return [
        replace(column, type=FieldType(meaning), evidence=f"{column.evidence}; the schema beside them says {meaning}")
        if meaning
        else column
        for column, meaning in zip(columns, meanings, strict=True)
    ]


def _columns_of_objects(objects: Sequence[Members], *, is_key: bool) -> list[ProposedColumn]:
    """Return a column for each field of these objects."""
    whole = Evidence()
    for row in objects:
        whole.add(row)
    return [
        ProposedColumn(name, type := member.type(), member.text(type, len(objects)), member.example, is_key)
        for name, member in whole.fields.items()
    ]


def _unwrap_rows(rows: Sequence[tuple[Record, Any]]) -> tuple[str, list[Any]]:
    """Return the envelope around most rows, "" for none, and the rows inside."""
    objects = [dict(row) for _, row in rows]
    payloads = [row["payload"] if set(row) == {"schema", "payload"} else None for row in objects]
    changes = [
        dict(payload) if isinstance(payload, Members) else row for payload, row in zip(payloads, objects, strict=True)
    ]
    if sum(map(_is_change, changes)) >= MOSTLY * len(rows):
        images = [change[side] for change in changes for side in ("after", "before") if side in change]
        return "debezium", [image for image in images if isinstance(image, Members)]
    if sum(DELETED_MARK in change for change in changes) >= MOSTLY * len(rows):
        return FLATTENED, [Members(change.items()) for change in changes]
    if sum(isinstance(payload, Members) for payload in payloads) >= MOSTLY * len(rows):
        return "connect_json", [payload for payload in payloads if isinstance(payload, Members)]
    return "", [row for _, row in rows]


def _is_change(row: dict[str, Any]) -> bool:
    """Say whether an object is a change of a database's table, as Debezium writes it."""
    return "op" in row and "source" in row and ("after" in row or "before" in row)


def _propose_key(
    records: Sequence[Record], rows: Sequence[tuple[Record, Members]], columns: Sequence[ProposedColumn]
) -> tuple[list[ProposedColumn], str, list[str]]:
    """Return the key's columns, its format, and notes. rows: the values that are objects, which may repeat the key."""
    keys = [record.key for record in records if record.key is not None]
    notes = []
    if len(keys) < len(records):
        advice = "`rekey` gives one (in SQL PARTITION BY)" if not keys else "a table ignores and counts these"
        notes.append(f"{len(records) - len(keys):,} of {len(records):,} records have no key: {advice}.")
    taken_names = {column.field.lower() for column in columns}
    key_name = next(name for name in ("key", "record_key", "topic_key") if name not in taken_names)
    if not keys:
        return [ProposedColumn(key_name, FieldType("string"), "no record has a key", "", is_key=True)], "kafka", notes
    parsed_keys = [_parse_json(key) for key in keys]
    objects = [key for key in parsed_keys if isinstance(key, Members)]
    payloads = [dict(key).get("payload") for key in objects]
    if objects and len(objects) >= MOSTLY * len(keys):
        format = "json"
        if sum(isinstance(payload, Members) for payload in payloads) >= MOSTLY * len(objects):
            objects, format = [payload for payload in payloads if isinstance(payload, Members)], "connect_json"
        if key_columns := _columns_of_objects(objects, is_key=True):
            return key_columns, format, notes
    type_name, count, text_of = _key_type(keys)
    evidence = f"{count:,} of {len(keys):,} keys are {_KEY_WORDS[type_name]}"
    same_field = _field_of_key(rows, columns, text_of)
    if same_field is not None:
        column, equal_count = same_field
        evidence += f"; equal to the value's field {column.field!r} in {equal_count:,}"
        key_name = column.field
    example = text_of(keys[0])
    return [ProposedColumn(key_name, FieldType(type_name), evidence, example, is_key=True)], "kafka", notes


def _fields_of(value: Any, format: str) -> dict[str, Any]:
    """Return the fields of a key or value that is an object, in Connect's envelope or not; none of any other."""
    fields = dict(value) if isinstance(value, Members) else {}
    return _fields_of(fields.get("payload"), "json") if format == "connect_json" else fields


def _is_other(field: str, pairs: Sequence[tuple[dict[str, Any], dict[str, Any]]]) -> bool:
    """Say whether a field of the key and one of the value, of the same name, are two: too few values are equal.

    pairs: the fields of the key and of the value, for each record.
    """
    both = [(key[field], value[field]) for key, value in pairs if field in key and field in value]
    equal_count = sum(write_parsed(in_key).strip('"') == write_parsed(in_value).strip('"') for in_key, in_value in both)
    return not both or equal_count < MOSTLY * len(both)


_KEY_WORDS = {"string": "text", "int": "4 bytes", "bigint": "8 bytes", "binary": "bytes"}


def _key_type(keys: Sequence[bytes]) -> tuple[str, int, Callable[[bytes], str]]:
    """Return the type of keys in Kafka's primitives, how many fit, and a function that gives a key's text."""
    texts = sum(map(_is_text, keys))
    if texts >= MOSTLY * len(keys):
        return "string", texts, lambda key: key.decode(errors="replace")
    for type, size in (("int", 4), ("bigint", 8)):
        if (count := sum(len(key) == size for key in keys)) >= MOSTLY * len(keys):
            return type, count, lambda key: str(int.from_bytes(key, "big", signed=True))
    return "binary", len(keys), lambda key: f"0x{key.hex()}"


def _field_of_key(
    rows: Sequence[tuple[Record, Members]],
    columns: Sequence[ProposedColumn],
    text_of: Callable[[bytes], str],
) -> tuple[ProposedColumn, int] | None:
    """Return the value's field that most keys are equal to, and in how many records."""
    counts: Counter[str] = Counter()
    compared = 0
    for record, row in rows:
        if record.key is None:
            continue
        compared += 1
        key_text = text_of(record.key)
        counts.update(name for name, item in dict(row).items() if isinstance(item, str) and str(item) == key_text)
    columns_by_field = {column.field: column for column in columns}
    for name, count in counts.most_common(1):
        if name in columns_by_field and compared > 1 and count >= MOSTLY * compared:
            return columns_by_field[name], count
    return None


def _propose_time(
    rows: Sequence[tuple[Record, Any]], columns: Sequence[ProposedColumn], declared: DeclarationParts
) -> tuple[str, list[str]]:
    """Return the field of the event time, "" for the record's own time, and a note that says why."""
    if declared.is_flattened:
        return "", [
            f"The rows have {DELETED_MARK}, as Debezium's ExtractNewRecordState writes it: where it is true, the row "
            "is deleted."
        ]
    if declared.is_change_log:
        return "", ["The event time is that of the change in the database (docs/databases.md)."]
    best_count, best_field = 0, ""
    for column in columns:
        if column.type.name not in ("timestamp", "bigint"):
            continue
        near_count = sum(
            (ms := _milliseconds_of(dict(row).get(column.field))) is not None and abs(ms - record.timestamp) <= DAY_MS
            for record, row in rows
            if isinstance(row, Members)
        )
        if near_count > best_count:
            best_count, best_field = near_count, column.field
    if best_count < MOSTLY * len(rows):
        return "", []
    return best_field, [
        f"The event time is {best_field}: in {best_count:,} of {len(rows):,} records it lies within a day of the "
        "record's own timestamp."
    ]


def _milliseconds_of(value: Any) -> int | None:
    """Return the milliseconds of a moment in JSON; None for a value that is no moment."""
    if isinstance(value, JsonNumber):
        return int(value) if value.isdecimal() and len(value) <= 15 else None
    if not isinstance(value, str):
        return None
    try:
        return time_ms(value)
    except ConfigError:
        return None


def _declare_source(declared: DeclarationParts) -> Source:
    declared_stream = (debezium if declared.is_change_log else stream)(
        declared.topic, **declaration_arguments(declared)
    )
    assert isinstance(declared_stream.source, Source)
    return declared_stream.source


def _propose_sql(declared: DeclarationParts, records: Sequence[Record], unread_count: int) -> tuple[str, list[str]]:
    """Return the declaration in SQL, "" if there is none, and notes.

    unread_count: how many records the declaration in Python does not read.
    """
    unread_max = unread_count + (1 - MOSTLY) * len(records)
    if statement := _possible_statement(declared, records, unread_max):
        return statement, _note_no_time(declared, statement)
    key_fields = dict(declared.key)
    possible_columns = tuple(
        column for column in declared.columns if column[0] not in key_fields and _is_possible_in_sql(declared, column)
    )
    notes = [
        f"In SQL, no column can have the name of field {field!r}: it is left out."
        if field not in key_fields
        else f"In SQL, the value's field {field!r} is left out: the key's has the name."
        for field, _ in declared.columns
        if field not in dict(possible_columns)
    ]
    declared = replace(declared, columns=possible_columns)
    if statement := _possible_statement(declared, records, unread_max):
        return statement, [*notes, *_note_no_time(declared, statement)]
    return "", ["In SQL, it can't be declared: write the columns by hand (docs/sql.md)."]


def _possible_statement(declared: DeclarationParts, records: Sequence[Record], unread_max: float) -> str:
    """Return a statement that is taken, with the event time if that leaves at most `unread_max` records unread."""
    for is_timed in (True, False) if declared.event_time in dict(declared.columns) else (False,):
        for is_quoted in (False, True):
            statement = sql_text(declared, quoted=is_quoted, timed=is_timed)
            source = _sql_source(declared.topic, statement)
            if source is not None and (not is_timed or _count_unread(source, records) <= unread_max):
                return statement
    return ""


def _note_no_time(declared: DeclarationParts, statement: str) -> list[str]:
    if not declared.event_time or "TIMESTAMP=" in statement.rpartition(" WITH (")[2]:
        return []
    return [f"In SQL, {declared.event_time} is no event time: no TIMESTAMP_FORMAT reads its values."]


def _is_possible_in_sql(declared: DeclarationParts, column: tuple[str, FieldType]) -> bool:
    alone = replace(declared, columns=(column, ("another", FieldType("string"))), key=(("id", FieldType("string")),))
    return any(
        _sql_source(declared.topic, sql_text(alone, quoted=quoted, timed=False)) is not None for quoted in (False, True)
    )


def _count_unread(source: Source, records: Sequence[Record]) -> int:
    try:
        return sum(item.records for item in _find_unread(source, records))
    except NeedsSpark:
        return 0


def _sql_source(topic: str, statement: str) -> Source | None:
    """Return the source that a statement declares; None if the statement is refused."""
    script = Script(folder=Path())
    try:
        script.run(statement)
        source = script.find(sql_name(topic).upper(), 0).relation.stream.source
    except (SqlError, PlanError):
        return None
    return source if isinstance(source, Source) else None


def _find_unread(source: Source, records: Sequence[Record]) -> tuple[Unread, ...]:
    """Return the records of the sample that a source does not read, by reason. Raises NeedsSpark."""
    bad_records = model.run(App((), (), (source,)), records, decode_record).quarantine[source.name]
    first_places: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for record, reason in bad_records:
        kind = reason.partition(", found ")[0]
        first_places.setdefault(kind, f"{record.topic}/{record.partition}/{record.offset}")
        counts[kind] += 1
    return tuple(Unread(kind, count, first_places[kind]) for kind, count in counts.most_common())
