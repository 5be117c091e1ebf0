"""What is declared of a format in Avro, as it stands in its name: "avro?name=io.shop.Order&timestamps=millis"."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import parse_qs, quote, urlencode

from lakehouse.errors import PlanError

DEFAULT_NAME = "lakehouse.row"
AVRO_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MILLIS = "millis"


@dataclass(frozen=True, slots=True)
class AvroOptions:
    """How rows are written. Reading needs none of it.

    id: of the schema in the registry; None before it is known. name: the record's full name. has_millis: timestamps are
    milliseconds, as ksqlDB writes them, and not microseconds.
    """

    id: int | None = None
    name: str = DEFAULT_NAME
    has_millis: bool = False

    def __str__(self) -> str:
        pairs = [] if self.id is None else [("id", str(self.id))]
        pairs += [("name", self.name)] * (self.name != DEFAULT_NAME)
        pairs += [("timestamps", _MILLIS)] * self.has_millis
        return urlencode(pairs, quote_via=quote, safe="")


def parse_avro_options(text: str) -> AvroOptions:
    """Return the options in the text that their `str` is."""
    values = {name: texts[0] for name, texts in parse_qs(text).items()}
    id = int(values["id"]) if "id" in values else None
    return AvroOptions(id, values.get("name", DEFAULT_NAME), values.get("timestamps") == _MILLIS)


def check_full_name(name: str, subject: str) -> str:
    """Return a record's full name if Avro allows it: names with points between them. Raises PlanError."""
    if not all(map(AVRO_NAME.fullmatch, name.split("."))):
        raise PlanError(
            f"{subject}={name!r}: expected a record's full name in Avro: letters, digits and underscores, with points "
            "between the parts, none of which begins with a digit: 'io.shop.Order'."
        )
    return name
