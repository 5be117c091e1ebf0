"""MongoDB's Extended JSON as plain JSON: {"$numberLong": "7"} is 7, {"$date": 0} is "1970-01-01T00:00:00.000000Z".

| in a document                                              | as plain JSON                                       |
|------------------------------------------------------------|-----------------------------------------------------|
| {"$numberInt": "7"}, `$numberLong`, `$numberDecimal`, `$numberDouble` | the number; "NaN" and infinities are texts |
| {"$oid": "65..."}, {"$uuid": "..."}, {"$symbol": "a"}      | the text                                            |
| {"$date": "2026-01-01T00:00:00Z"}                          | the text                                            |
| {"$date": 0}, {"$date": {"$numberLong": "0"}}              | the moment of these milliseconds as text            |
| {"$binary": {"base64": "AA==", "subType": "00"}}           | the base64 text                                     |
| {"$binary": "AA==", "$type": "00"}                         | the same                                            |
| {"$undefined": true}                                       | null                                                |

All forms are taken, whatever the connector's setting: legacy, canonical, relaxed. Other objects stay as they are, also
one whose value does not fit, such as a moment in the year 300000: only a column that reads it can refuse it.

Source: https://www.mongodb.com/docs/manual/reference/mongodb-extended-json
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from lakehouse.formats.values.json_text import JsonNumber, Members, format_timestamp, write_parsed
from lakehouse.formats.values.unfit import Unfit, check_number_length, unfit_value
from lakehouse.semantics.epoch_time import to_datetime
from lakehouse.semantics.number_text import NUMBER


class ExactNumber(JsonNumber):
    """A number of which no digit may be lost: a decimal of the database, not a double."""

    __slots__ = ()


def plain_json(value: Any) -> Any:
    """Return a parsed value without the objects that stand for a value's type."""
    if isinstance(value, list):
        return [plain_json(item) for item in value]
    if not isinstance(value, Members):
        return value
    own_members = [member for member in value if member[0] != "$type"]
    if len(own_members) == 1 and own_members[0][0] in _READERS:
        name, inner_value = own_members[0]
        with suppress(Unfit):
            return _READERS[name](inner_value)
        return value
    return Members((name, plain_json(inner_value)) for name, inner_value in value)


def _document_number(value: Any) -> Any:
    return JsonNumber(value) if _is_number(value) else value


def _document_decimal(value: Any) -> Any:
    return ExactNumber(value) if _is_number(value) else value


def _is_number(value: Any) -> bool:
    """Say whether a text is a number; "NaN" and infinities are texts. Raises Unfit for anything but a text."""
    if not isinstance(value, str):
        raise unfit_value("a number as text", write_parsed(value))
    check_number_length(value)
    return NUMBER.fullmatch(value) is not None


def _document_date(value: Any) -> Any:
    milliseconds = plain_json(value)
    if not isinstance(milliseconds, JsonNumber):
        return milliseconds
    try:
        return format_timestamp(to_datetime(int(milliseconds)))
    except (ValueError, OverflowError):
        raise unfit_value("$date in the years 1 to 9999, in milliseconds", milliseconds) from None


def _document_binary(value: Any) -> Any:
    return dict(value).get("base64") if isinstance(value, Members) else value


def _document_text(value: Any) -> Any:
    return value


def _undefined(value: Any) -> Any:
    return None


_READERS: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("$numberInt", "$numberLong", "$numberDouble"), _document_number),
    "$numberDecimal": _document_decimal,
    **dict.fromkeys(("$oid", "$uuid", "$symbol"), _document_text),
    "$date": _document_date,
    "$binary": _document_binary,
    "$undefined": _undefined,
}
