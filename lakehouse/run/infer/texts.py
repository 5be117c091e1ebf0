"""A proposed declaration as Python and as SQL. Names and texts of records stand quoted in both."""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from lakehouse.errors import PlanError
from lakehouse.plan.build import stream_name
from lakehouse.plan.expression.expression import name_text
from lakehouse.plan.expression.schema import PSEUDO_COLUMNS, parse_schema
from lakehouse.plan.names.field import IDENTIFIER, in_backticks, quote_field, suggest_name
from lakehouse.run.infer.evidence import FieldType

Fields = tuple[tuple[str, FieldType], ...]
WIDTH = 90
_ENVELOPES = ("debezium", "connect_json")  # their formats have moments in SQL
_SQL_TYPES = {"bigint": "BIGINT", "binary": "BYTES", "boolean": "BOOLEAN", "double": "DOUBLE", "int": "INT"}
_PLAIN_SQL_NAME = re.compile("[A-Za-z][A-Za-z0-9_]*")
# Forms of ISO times, and TIMESTAMP_FORMAT for each.
_TIME_FORMATS = (
    (re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:Z|[+-][0-9]{2})"), "yyyy-MM-dd'T'HH:mm:ssX"),
    (re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}[.][0-9]{3}(?:Z|[+-][0-9]{2})"),
     "yyyy-MM-dd'T'HH:mm:ss.SSSX"),
    (re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}[+-][0-9]{2}:[0-9]{2}"),
     "yyyy-MM-dd'T'HH:mm:ssXXX"),
    (re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}"), "yyyy-MM-dd HH:mm:ss"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class DeclarationParts:
    """The parts of a declaration. event_time: the topic's field, "" for the record's own time; time_example: a value.

    format: of the values: "debezium" makes it a database's change log. is_flattened: of rows alone, without envelopes.
    """

    topic: str
    format: str
    columns: Fields
    key: Fields = ()
    key_format: str = "kafka"
    event_time: str = ""
    time_example: str = ""
    is_flattened: bool = False

    @property
    def is_change_log(self) -> bool:
        return self.format == "debezium"


def declaration_arguments(declared: DeclarationParts) -> dict[str, Any]:
    """Return the arguments of `lh.stream`, or of `lh.debezium`, but the topic."""
    names = _column_names([name for name, _ in (*declared.key, *declared.columns)])
    key_names, value_names = names[: len(declared.key)], names[len(declared.key) :]
    result: dict[str, Any] = {
        "key": _schema_text(key_names, declared.key),
        "schema": _schema_text(value_names, declared.columns),
    }
    if not _can_name_stream(declared.topic):
        result["name"] = suggest_name(declared.topic)
    if not declared.is_change_log and declared.format != "json":
        result["format"] = declared.format
    if declared.key_format not in ("kafka", *(["debezium"] if declared.is_change_log else [])):
        result["key_format"] = declared.key_format
    if declared.is_flattened:
        result["flattened"] = True
    if declared.event_time:
        names_by_field = {field: name for name, (field, _) in zip(value_names, declared.columns, strict=True)}
        result["event_time"] = name_text(names_by_field[declared.event_time])
    return result


def _can_name_stream(topic: str) -> bool:
    """Say whether a stream can have the name that is made of its topic's."""
    try:
        stream_name(topic, None)
    except PlanError:
        return False
    return True


def python_text(declared: DeclarationParts) -> str:
    """Return the declaration in Python."""
    variable = suggest_name(declared.topic).lower()
    variable = f"{variable}_" if keyword.iskeyword(variable) or variable == "lh" else variable
    function = "debezium" if declared.is_change_log else "stream"
    lines = [f"    {name}={_wrap_literal(value)},\n" for name, value in declaration_arguments(declared).items()]
    topic = _quote_literal(declared.topic)
    return f"import lakehouse as lh\n\n{variable} = lh.{function}(\n    {topic},\n{''.join(lines)})\n"


def _quote_literal(text: str) -> str:
    """Return a text as Python and JSON write it."""
    return json.dumps(text, ensure_ascii=False)


def _wrap_literal(text: str | bool) -> str:
    """Return a text as one literal, or as several that Python joins, each of some columns; and True as it is."""
    if isinstance(text, bool):
        return repr(text)
    if len(text) <= WIDTH:
        return _quote_literal(text)
    parts = [""]
    for word in re.findall(r"[^ ]* ?", text):
        if parts[-1].endswith(", ") and len(parts[-1]) + len(word) > WIDTH:
            parts.append("")
        parts[-1] += word
    return "(\n" + "".join(f"        {_quote_literal(part)}\n" for part in parts if part) + "    )"


def sql_name(topic: str) -> str:
    """Return the name of the stream, or the table, that `sql_text` declares."""
    return suggest_name(topic)


def sql_text(declared: DeclarationParts, *, quoted: bool, timed: bool = True) -> str:
    """Return the declaration in SQL. quoted: all names in backticks. timed: with the event time, if it has a form."""
    kind = "TABLE" if declared.is_change_log else "STREAM"
    role = " PRIMARY KEY" if kind == "TABLE" else " KEY"
    has_moments, key_moments = (format in _ENVELOPES for format in (declared.format, declared.key_format))
    elements = [
        f"{_sql_field(name, quoted)} {_sql_type(type, quoted, key_moments)}{role}" for name, type in declared.key
    ]
    elements += [
        f"{_sql_field(name, quoted)} {_sql_type(type, quoted, has_moments)}" for name, type in declared.columns
    ]
    properties = {"KAFKA_TOPIC": declared.topic, "VALUE_FORMAT": declared.format.upper()}
    if not declared.is_change_log and declared.key and declared.key_format != "kafka":
        properties["KEY_FORMAT"] = declared.key_format.upper()
    if declared.format == "json" and len(declared.columns) == 1:
        properties["WRAP_SINGLE_VALUE"] = "true"
    if declared.is_flattened:
        properties["FLATTENED"] = "true"
    if timed and declared.event_time and not declared.is_change_log:
        properties |= _time_properties(declared, quoted)
    texts = [f"{name}={_sql_literal(value)}" for name, value in properties.items()]
    body = ",\n".join(f"    {element}" for element in elements)
    return f"CREATE {kind} {sql_name(declared.topic)} (\n{body}\n  ) WITH ({', '.join(texts)});\n"


def _time_properties(declared: DeclarationParts, quoted: bool) -> dict[str, str]:
    name = _sql_field(declared.event_time, quoted)
    if dict(declared.columns)[declared.event_time].name == "bigint" or declared.format in _ENVELOPES:
        return {"TIMESTAMP": name}
    forms = [form for pattern, form in _TIME_FORMATS if pattern.fullmatch(declared.time_example)]
    return {"TIMESTAMP": name, "TIMESTAMP_FORMAT": forms[0]} if forms else {}


def _column_names(fields: Iterable[str], *, is_inside: bool = False) -> list[str]:
    """Return a column's name for each field: its own if it can be one, and none twice, whatever the case."""
    names: list[str] = []
    used_names = set() if is_inside else set(PSEUDO_COLUMNS)
    for field in fields:
        begin = field if IDENTIFIER.fullmatch(field) else suggest_name(field)
        name, number = begin, 2
        while name.lower() in used_names:
            name, number = f"{begin[:60]}_{number}", number + 1
        used_names.add(name.lower())
        names.append(name)
    return names


def _schema_text(names: list[str], fields: Fields) -> str:
    return ", ".join(_column_text(name, field, " ", type) for name, (field, type) in zip(names, fields, strict=True))


def _column_text(name: str, field: str, separator: str, type: FieldType) -> str:
    origin = "" if name == field else f" from {quote_field(field)}"
    return f"{_quoted_word(name, separator)}{separator}{_spark_type(type)}{origin}"


@lru_cache(maxsize=1024)
def _quoted_word(name: str, separator: str) -> str:
    """Return a column's name as a schema has it: in backticks if it is a word of SQL that could not stand there."""
    text = f"{name}{separator}string"
    try:
        columns = parse_schema(text if separator == " " else f"c struct<{text}>", "word")
    except PlanError:
        return f"`{name}`"
    is_read = columns[0].name == name if separator == " " else name in columns[0].type
    return name if is_read and len(columns) == 1 else f"`{name}`"


def _spark_type(type: FieldType) -> str:
    match type.name:
        case "struct":
            names = _column_names((field for field, _ in type.members), is_inside=True)
            members = [
                _column_text(n, field, ": ", inner) for n, (field, inner) in zip(names, type.members, strict=True)
            ]
            return f"struct<{', '.join(members)}>"
        case "array" | "map":
            assert type.inner is not None
            return f"{'array<' if type.name == 'array' else 'map<string, '}{_spark_type(type.inner)}>"
    return type.name


def _sql_field(field: str, quoted: bool) -> str:
    if not quoted and _PLAIN_SQL_NAME.fullmatch(field):
        return field
    return in_backticks(field)


def _sql_type(type: FieldType, quoted: bool, has_moments: bool) -> str:
    match type.name:
        case "struct":
            members = (
                f"{_sql_field(field, quoted)} {_sql_type(inner, quoted, has_moments)}" for field, inner in type.members
            )
            return f"STRUCT<{', '.join(members)}>"
        case "array" | "map":
            assert type.inner is not None
            inner_text = _sql_type(type.inner, quoted, has_moments)
            return f"{'ARRAY<' if type.name == 'array' else 'MAP<VARCHAR, '}{inner_text}>"
        case "date" | "timestamp":  # in JSON, SQL's own are numbers
            return type.name.upper() if has_moments else "VARCHAR"
        case "string":
            return "VARCHAR"
    return _SQL_TYPES.get(type.name, type.name.upper())


def _sql_literal(text: str) -> str:
    return text if text == "true" else quote_field(text)
