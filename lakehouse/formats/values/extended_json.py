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

All forms are taken, whatever the connector's setting: legacy, canonical, relaxed. Other objects stay as they are.

Source: https://www.mongodb.com/docs/manual/reference/mongodb-extended-json
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lakehouse.formats.values.json_text import JsonNumber, Members, format_timestamp, write_parsed
from lakehouse.formats.values.unfit import check_number_length, unfit_value
from lakehouse.semantics.epoch_time import to_datetime
from lakehouse.semantics.number_text import NUMBER


def plain_json(value: Any) -> Any:
    """Return a parsed value without the objects that stand for a value's type. Raises Unfit for a wrong object."""
    if isinstance(value, list):
        return [plain_json(item) for item in value]
    if not isinstance(value, Members):
        return value
    if value and value[0][0] in _READERS and (len(value) == 1 or value[1][0] == "$type"):
        name, inner_value = value[0]
        return _READERS[name](inner_value)
    return Members((name, plain_json(inner_value)) for name, inner_value in value)


def _document_number(value: Any) -> Any:
    if not isinstance(value, str):
        raise unfit_value("a number as text", write_parsed(value))
    check_number_length(value)
    return JsonNumber(value) if NUMBER.fullmatch(value) else value


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
    **dict.fromkeys(("$numberInt", "$numberLong", "$numberDecimal", "$numberDouble"), _document_number),
    **dict.fromkeys(("$oid", "$uuid", "$symbol"), _document_text),
    "$date": _document_date,
    "$binary": _document_binary,
    "$undefined": _undefined,
}
