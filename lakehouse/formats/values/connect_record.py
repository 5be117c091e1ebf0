"""A record of Kafka Connect in JSON: a value, and the schema that may stand beside it.

The JsonConverter writes {"schema": ..., "payload": ...} if `schemas.enable` is true, else the payload alone. Which, is
looked at in each record. Source: https://docs.confluent.io/platform/current/connect/concepts.html#connect-converters.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from typing import Any

from lakehouse.formats.values.connect_value import FieldSchemas, fields_of_schema, split_payload
from lakehouse.formats.values.json_text import end_of_first_value, parse_object
from lakehouse.formats.values.unfit import Unfit


class RecordSchema:
    """The schema beside a record, or None: the schemas of the row's fields in it."""

    def __init__(self, parsed_schema: Any) -> None:
        self.parsed = parsed_schema

    @cached_property
    def row_schemas(self) -> FieldSchemas | None:
        """Those of a row alone."""
        return fields_of_schema(self.parsed)

    @cached_property
    def after_schemas(self) -> FieldSchemas | None:
        """Those of the row after a change."""
        return fields_of_schema(self.row_schemas.get("after")) if self.row_schemas is not None else None


_NO_SCHEMA = RecordSchema(None)
_BEFORE_SCHEMA, _AFTER_SCHEMA = '{"schema":', re.compile(r'[ \t\r\n]*,[ \t\r\n]*"payload"[ \t\r\n]*:')
_SCHEMAS_MAX, _SCHEMA_LENGTH_MAX = 8, 100_000
# The last schemas, each with the text of a record up to its end: most of a record is a schema that the one before had.
_known_schemas: tuple[tuple[str, RecordSchema], ...] = ()


def read_record(text: str, parse: Callable[[str], Any]) -> tuple[RecordSchema, Any]:
    """Return the schema and the value in a text, see `split_payload`. Raises Unfit.

    parse: reads the whole text, an object as `parse_object` does.
    """
    for start, known_schema in _known_schemas:
        if text.startswith(start) and (match := _AFTER_SCHEMA.match(text, len(start))):
            with suppress(Unfit):  # the reason is that of the whole text
                members = parse_object('{"payload":' + text[match.end() :])
                if len(members) == 1:
                    return known_schema, members[0][1]
    parsed_schema, payload = split_payload(parse(text))
    if parsed_schema is None:
        return _NO_SCHEMA, payload
    schema = RecordSchema(parsed_schema)
    if text.startswith(_BEFORE_SCHEMA):
        _remember(text, schema)
    return schema, payload


def _remember(text: str, schema: RecordSchema) -> None:
    global _known_schemas
    start = text[: len(_BEFORE_SCHEMA) + end_of_first_value(text[len(_BEFORE_SCHEMA) :])]
    if len(start) <= _SCHEMA_LENGTH_MAX:
        _known_schemas = ((start, schema), *_known_schemas[: _SCHEMAS_MAX - 1])
