"""The options of a format with schemas, as they stand in its name: "avro?name=io.shop.Order&timestamps=millis"."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import parse_qs, quote, urlencode

from lakehouse.errors import PlanError

DEFAULT_NAME = "lakehouse.row"
AVRO_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# The schema of the declared columns, where tests and scenario files write records.
DECLARED_ID = 1
_MILLIS = "millis"


@dataclass(frozen=True, slots=True)
class SchemaOptions:
    """The options for writing rows. Reading needs none of them.

    id: of the schema in the registry; None before it is known. name: the record's full name, or the title of
    a JSON Schema. has_millis: timestamps in Avro and Protobuf are milliseconds, as ksqlDB writes them, and not
    microseconds. numbers: of the fields in Protobuf; see `lakehouse.formats.protobuf.proto_numbers`. schema: that of
    records without a registry, compiled: a FileDescriptorSet in base64, whose last file has the message first.
    """

    id: int | None = None
    name: str = DEFAULT_NAME
    has_millis: bool = False
    numbers: str = ""
    schema: str = ""

    def __str__(self) -> str:
        pairs = [] if self.id is None else [("id", str(self.id))]
        pairs += [("name", self.name)] * (self.name != DEFAULT_NAME)
        pairs += [("timestamps", _MILLIS)] * self.has_millis
        pairs += [("numbers", self.numbers)] * bool(self.numbers) + [("schema", self.schema)] * bool(self.schema)
        return urlencode(pairs, quote_via=quote, safe="")

    @property
    def written_id(self) -> int:
        """The id that is written before a value: the schema's, or that of the declared columns in tests."""
        return DECLARED_ID if self.id is None else self.id


def parse_schema_options(text: str) -> SchemaOptions:
    """Return the options in the text that their `str` is."""
    values = {name: texts[0] for name, texts in parse_qs(text).items()}
    id = int(values["id"]) if "id" in values else None
    return SchemaOptions(
        id,
        values.get("name", DEFAULT_NAME),
        values.get("timestamps") == _MILLIS,
        values.get("numbers", ""),
        values.get("schema", ""),
    )


def check_full_name(name: str, subject: str) -> str:
    """Return a record's full name if Avro allows it: names with points between them. Raises PlanError."""
    if not all(map(AVRO_NAME.fullmatch, name.split("."))):
        raise PlanError(
            f"{subject}={name!r}: expected a record's full name in Avro: letters, digits and underscores, with points "
            "between the parts, none of which begins with a digit: 'io.shop.Order'."
        )
    return name
