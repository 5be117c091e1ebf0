"""CREATE STREAM and CREATE TABLE over a database's change log: VALUE_FORMAT='DEBEZIUM', or 'DEBEZIUM_AVRO'.

The properties are the options of `lakehouse.plan.databases.debezium`, by their names in capitals. A column of the
envelope is METADATA('source.lsn').
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from lakehouse.errors import PlanError, SqlError
from lakehouse.ksql.property import flag_property, text_property
from lakehouse.ksql.syntax.statement import SchemaElement
from lakehouse.ksql.with_clause import WithClause
from lakehouse.plan.databases.debezium import ENVELOPE, KINDS, debezium
from lakehouse.plan.names.debezium_options import BAD, KEEP, UNAVAILABLE
from lakehouse.plan.names.field import column_name, field_name, is_escaped, quote_field
from lakehouse.plan.stream import Stream

_TIME = re.compile(r"\s*(?:`([^`]+)`|([^\s,`]+))\s+(\w+)\s*(?:,|$)")
_FORMATS = {kind: format for format, kind in KINDS.items()}


def declare_changes(
    name: str,
    key: str,
    elements: Sequence[SchemaElement],
    properties: WithClause,
    *,
    event_time: str | None,
    headers: str,
) -> Stream:
    """Return the stream of a change log. Raises SqlError with the place, PlanError where it is the whole statement.

    key: the key's columns and types. elements: the other columns, without headers. event_time: an expression; None for
    the time of the change.
    """
    options = properties.of_change_log
    is_flattened, unavailable = flag_property(options, "FLATTENED"), text_property(options, "UNAVAILABLE")
    for element in elements:
        if element.role:
            _check_metadata(element, is_flattened=is_flattened)
    times = _read_times(properties)
    try:
        return debezium(
            properties.topic, key=key,
            schema=", ".join(_column_text(element) for element in elements if not element.role),
            meta=", ".join(_column_text(element) for element in elements if element.role),
            flattened=is_flattened, documents=flag_property(options, "DOCUMENTS"),
            decimals=text_property(options, "DECIMALS") or "", times=times,
            unavailable=UNAVAILABLE if unavailable is None else unavailable,
            unsent=text_property(options, "UNSENT") or KEEP,
            truncates=text_property(options, "TRUNCATES") or BAD,
            format=_FORMATS[properties.value_format.lower()], key_format=properties.key_format.lower(),
            event_time=event_time, name=name, headers=headers, max_ahead=properties.max_ahead,
        )  # fmt: skip
    except PlanError as error:
        for option, value in options.items():
            if re.search(rf"\b{option.lower()}\b", str(error)):
                raise SqlError(str(error), value.position) from None
        raise


def _check_metadata(element: SchemaElement, *, is_flattened: bool) -> None:
    if is_flattened:
        raise SqlError(
            "flattened rows have no envelope. Their fields __op, ... are columns like others: `__op` VARCHAR",
            element.position,
        )
    if element.header.split(".")[0] not in ENVELOPE:
        raise SqlError(
            f"METADATA('{element.header}') is not in the envelope",
            element.position,
            expected=f"{', '.join(ENVELOPE)}, or a field in them: METADATA('source.lsn')",
        )


def _column_text(element: SchemaElement) -> str:
    """Return a column as a schema in Python has it."""
    field = element.header or (field_name(element.name) if is_escaped(element.name) else "")
    return f"`{element.name}` {element.kind.spark}{f' from {quote_field(field)}' if field else ''}"


def _read_times(properties: WithClause) -> dict[str, str]:
    """Return the units of moments by the columns' names, from 'MADE micros, BORN days'. Raises SqlError."""
    text = text_property(properties.of_change_log, "TIMES") or ""
    units: dict[str, str] = {}
    position = 0
    while position < len(text.rstrip()):
        match = _TIME.match(text, position)
        if match is None:
            raise SqlError(
                "TIMES has a column and its unit",
                properties.of_change_log["TIMES"].position,
                found=text[position:].strip(),
                expected="'MADE micros, BORN days'",
            )
        units[column_name(match[1] or match[2].upper())] = match[3].lower()
        position = match.end()
    return units
