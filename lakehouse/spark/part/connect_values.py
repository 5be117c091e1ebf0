"""How from_json reads a value of Kafka Connect: the fast form of `lakehouse.formats.values.connect_value`.

What only the schema beside a record can say (`lakehouse.formats.values.connect_meaning`) is read as a variant, which
knows a text from a number; what is declared, as the type that was declared.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from decimal import Decimal

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import TimestampType

from lakehouse.formats.values.connect_meaning import DIGITS, MICROS_OF_UNIT, NANOS
from lakehouse.formats.values.text_value import precision_and_scale
from lakehouse.formats.values.unsent import placeholder_texts
from lakehouse.plan.expression.schema import Column as PlanColumn
from lakehouse.plan.expression.schema import base_type
from lakehouse.plan.names.debezium_options import DebeziumOptions
from lakehouse.semantics.time.years import FIRST_MS, LAST_MS
from lakehouse.spark.expression.years import null_outside_years
from lakehouse.spark.part.json_written import LOOSE

_MOMENT = r'^"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,6})?(Z|[+-][0-9]{2}:[0-9]{2})"$'
_DAY_MS = 86_400_000
_DIGITS_OF_DOUBLE = 15
# In quotes, of 1 to 8 bytes.
_SHORT_BASE64 = '^"(?!")(?:[A-Za-z0-9+/]{4}){0,2}(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?"$'
_UNSCALED_MAX = 8
_WHOLE = "^-?[0-9]{1,19}$"
_VARIANT = "variant"

# Makes a column of what from_json read and of those that the steps before made, and of the schema's number, or null.
Step = Callable[[list[Column], Column], Column]


@dataclass(frozen=True)
class QuickValue:
    """How from_json reads a field: as which type, and the column's value; null where only the rule can say it.

    last_step: makes the value. steps: those before it; of a variant, the first gives null where the record has null.
    Spark would write out a column again for each use, and Java compiles no long method: so each has a step of its own.
    expected: the number in `ValueMeaning.numbers` with which alone a record that has a schema can be read so.
    """

    type: str
    last_step: Step = lambda parts, _: parts[-1]
    steps: tuple[Step, ...] = ()
    expected: int | None = None

    @property
    def is_explained(self) -> bool:
        """Whether the schema of the record says what the value means."""
        return self.type == _VARIANT


def quick_value(column: PlanColumn, options: DebeziumOptions) -> QuickValue | None:
    """Return how from_json reads a column of the row; None if it can't read it exactly."""
    texts = placeholder_texts(options.unavailable)
    match base_type(column.type):
        case "int" | "bigint" | "boolean" | "float" | "double":
            return QuickValue(column.type)
        case "string":
            return QuickValue("string", lambda parts, _: _strict_text(parts[0], texts))
        case "binary":
            return QuickValue("binary", lambda parts, _: F.when(~parts[0].isin(*_decoded(texts)), parts[0]))
        case "decimal":
            return _quick_decimal(column, options)
        case "timestamp":
            return _quick_timestamp(dict(options.times).get(column.name, ""))
        case "date" if dict(options.times).get(column.name, "days") == "days":
            first_day, last_day = FIRST_MS // _DAY_MS, LAST_MS // _DAY_MS
            return QuickValue(
                "int", lambda parts, _: F.date_add(F.lit(date(1970, 1, 1)), _between(parts[0], first_day, last_day))
            )
    return None


def _strict_text(read: Column, placeholders: Iterable[str]) -> Column:
    return F.when(~(read.rlike(LOOSE) | read.isin(*placeholders)), read)


def _decoded(texts: Iterable[str]) -> Iterator[bytes]:
    """Yield the bytes that the placeholder's texts would be."""
    for text in texts:
        with suppress(binascii.Error):
            yield base64.b64decode(text, validate=True)


def _quick_decimal(column: PlanColumn, options: DebeziumOptions) -> QuickValue | None:
    _, scale = precision_and_scale(column.type)
    if scale > _DIGITS_OF_DOUBLE:
        return None
    placeholders = [data for data in _decoded(placeholder_texts(options.unavailable)) if len(data) <= _UNSCALED_MAX]

    def of_unscaled(unscaled: Column) -> Column:
        return (unscaled * F.lit(Decimal(1).scaleb(-scale))).try_cast(column.type)

    def of_digits(text: Column) -> Column:
        # from_json reads a number without quotes as a double, and writes that as text: its digits may be others.
        fraction = f"([.][0-9]{{1,{scale}}})?" if scale else ""
        is_short = f"^-?(?:[0-9]+|(?=.{{1,{_DIGITS_OF_DOUBLE}}}$)[0-9]+{fraction})$"
        return F.when(text.rlike(is_short), text).try_cast(column.type)

    def hex_of_text(parts: list[Column], meaning: Column) -> Column:
        json_text = parts[-1]
        data = F.unbase64(_without_quotes(F.when(json_text.rlike(_SHORT_BASE64) & (meaning != DIGITS), json_text)))
        return F.hex(F.when(~data.isin(*placeholders), data) if placeholders else data)

    def by_schema(parts: list[Column], meaning: Column) -> Column:
        variant, json_text, digits = parts
        unscaled = (_unscaled(digits) * meaning.cast("decimal(19, 0)")).try_cast("decimal(19, 0)")
        text_value = F.when(meaning == DIGITS, of_digits(_without_quotes(json_text))).otherwise(of_unscaled(unscaled))
        # A double is not the number that the record has.
        is_exact = F.schema_of_variant(variant).rlike("^(BIGINT|DECIMAL.*)$")
        number_value = F.when(is_exact, F.try_variant_get(variant, "$", column.type))
        return F.when(json_text.startswith('"'), text_value).otherwise(number_value)

    def hex_of_bytes(parts: list[Column], _: Column) -> Column:
        is_short = F.octet_length(parts[0]).between(1, _UNSCALED_MAX)
        return F.hex(F.when(is_short & ~parts[0].isin(*placeholders) if placeholders else is_short, parts[0]))

    match options.decimals:
        case "precise":
            return QuickValue("binary", lambda parts, _: of_unscaled(_unscaled(parts[-1])), (hex_of_bytes,), expected=1)
        case "string":
            return QuickValue("string", lambda parts, _: of_digits(parts[0]), expected=DIGITS)
    return QuickValue(_VARIANT, by_schema, (_json_text, hex_of_text))


def _json_text(parts: list[Column], _: Column) -> Column:
    """Return the JSON that a variant was read from: a text in quotes, a number's digits; null for null."""
    json_text = F.to_json(parts[0])
    return F.nullif(json_text, F.lit("null"))


def _without_quotes(json_text: Column) -> Column:
    return F.substring(json_text, F.lit(2), F.octet_length(json_text) - 2)


def _unscaled(digits: Column) -> Column:
    """Return the number in at most eight bytes, given as hexadecimal digits."""
    # Eight bytes with the number's sign: a base below 0 means a signed number of 64 bits.
    sign_digit = F.when(digits >= "8", F.lit("F")).otherwise(F.lit("0"))
    return F.conv(F.lpad(digits, 16, sign_digit), 16, -10).try_cast("decimal(19, 0)")


def _quick_timestamp(unit: str) -> QuickValue | None:
    match unit:
        case "":
            return QuickValue(_VARIANT, _timestamp_by_schema, (_json_text, _micros_by_schema))
        case "millis":
            return QuickValue(
                "bigint",
                lambda parts, _: F.timestamp_millis(_between(parts[0], FIRST_MS, LAST_MS)),
                expected=MICROS_OF_UNIT[unit],
            )
        case "micros":
            return QuickValue(
                "bigint",
                lambda parts, _: _timestamp_of_micros(parts[0]),
                expected=MICROS_OF_UNIT[unit],
            )
        case "nanos":
            return QuickValue(
                "bigint",
                lambda parts, _: _timestamp_of_micros(_micros_of_nanos(parts[0])),
                expected=MICROS_OF_UNIT[unit],
            )
    return None


def _micros_by_schema(parts: list[Column], meaning: Column) -> Column:
    """Return the microseconds in a moment's number; null for a text."""
    number = F.when(parts[-1].rlike(_WHOLE), parts[-1]).try_cast("bigint")
    return F.when(meaning == NANOS, _micros_of_nanos(number)).otherwise(F.try_multiply(number, meaning))


def _timestamp_by_schema(parts: list[Column], _: Column) -> Column:
    _, json_text, micros = parts
    text = F.when(json_text.rlike(_MOMENT), _without_quotes(json_text))
    text_value = null_outside_years(text.try_cast("timestamp"), TimestampType())
    return F.when(json_text.startswith('"'), text_value).otherwise(_timestamp_of_micros(micros))


def _timestamp_of_micros(micros: Column) -> Column:
    return F.timestamp_micros(_between(micros, FIRST_MS * 1000, LAST_MS * 1000 + 999))


def _micros_of_nanos(nanos: Column) -> Column:
    is_rest_negative = nanos % 1000 < 0
    return F.call_function("div", nanos, F.lit(1000)) - F.when(is_rest_negative, 1).otherwise(0)


def _between(number: Column, first: int, last: int) -> Column:
    """Return a number within bounds; else null."""
    return F.when(number.between(first, last), number)
