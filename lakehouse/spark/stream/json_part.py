"""A key or a value in JSON on Spark: the fast form of `lakehouse.formats.json_value`. A property test holds them equal.

Timestamps are read as text where that can be, and judged alone: looking for what is no moment in the whole record takes
longer than reading the record.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import cast

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructField, StructType, TimestampType

from lakehouse.spark.stream.json_any_case import json_any_case
from lakehouse.spark.stream.part import Part, in_python
from lakehouse.spark.years import any_time, has_time, outside

# Python's json, and so the model, refuses these too.
OPTIONS = {
    "columnNameOfCorruptRecord": "_corrupt",
    "allowSingleQuotes": "false",
    "allowComments": "false",
    # Without this a date "1" would be a day of 1970.
    "enableDateTimeParsingFallback": "false",
}

# In a text: see `_no_moment`. Spark leaves out blanks, control characters and a sign before a time.
MAYBE_NO_MOMENT = r'[0-9]{14}|9[0-9]{12}|"[^"0-9A-Za-z]*(T[0-9]|[0-9]{1,2}:)|\\'
NO_MOMENT = r"^(-?[0-9]{13}|[^0-9A-Za-z]*(T[0-9]|[0-9]{1,2}:))"
NUMBER = r"^-?[0-9.eE+-]*$"


@dataclass(frozen=True)
class JsonPart(Part):
    """A key or a value that is a JSON object."""

    @property
    def read(self) -> Column:
        fields = [StructField(f.name, StringType() if f.name in self._moments else f.dataType) for f in self.type]
        schema = StructType([*fields, StructField("_corrupt", StringType())])

        def from_json(text: Column) -> Column:
            return F.from_json(text, schema, OPTIONS)

        text = self._said
        return json_any_case(text, self.columns, from_json, in_python(self)) if self._is_any_case else from_json(text)

    @property
    def missing(self) -> Column:
        """A missing one is null, and so is the word."""
        word = ~self._said.endswith("}") & (self._trimmed == "null")
        return super().missing | F.coalesce(word, F.lit(False))

    @property
    def broken(self) -> Column:
        # Most texts end as an object does: then they need not be trimmed.
        is_open = ~self._said.endswith("}") & ~self._trimmed.endswith("}")
        return ~F.is_valid_utf8(self._said) | is_open

    @property
    def apart(self) -> dict[str, Column]:
        """The moments that are read as text. A number is read once more, as epoch seconds: the text does not tell
        whether it stood in quotes, where it is no moment."""
        made = {}
        for moment in self._moments:
            found = self.struct[moment]
            number = ~found.contains(":") & found.rlike(NUMBER)  # most moments have one, and are no number
            kind = StructType([StructField(moment, TimestampType())])
            seconds = F.from_json(F.when(number, self.text), kind, OPTIONS)[moment]
            made[self._place(moment)] = F.when(number, seconds).otherwise(found.try_cast("timestamp"))
        return made

    @property
    def unfit(self) -> Column:
        unfit = super().unfit | self.struct.isNull() | self.struct["_corrupt"].isNotNull()
        others = StructType([field for field in self.type if field.name not in self._moments])
        if has_time(others):
            unfit = unfit | outside(self.struct, others) | _no_moment(self.text, others)
        for moment in self._moments:
            found, said = self.column(moment), self.struct[moment]
            is_moment = found.isNotNull() & ~said.rlike(NO_MOMENT) & ~outside(found, TimestampType())
            unfit = unfit | (said.isNotNull() & ~is_moment)
        return unfit

    def column(self, name: str) -> Column:
        return F.col(self._place(name)) if name in self._moments else super().column(name)

    @property
    def _is_any_case(self) -> bool:
        return self.format == "json_any_case"

    @cached_property
    def _moments(self) -> tuple[str, ...]:
        """The timestamps that are read as text: none if there are some deeper in the columns, too."""
        plain = tuple(field.name for field in self.type if isinstance(field.dataType, TimestampType))
        nested = (f.dataType for f in self.type if isinstance(f.dataType, ArrayType | MapType | StructType))
        return () if self._is_any_case or any(map(has_time, nested)) else plain

    def _place(self, moment: str) -> str:
        return f"_{self.name}_time_{moment}"

    @property
    def _said(self) -> Column:
        """The bytes as text, over bronze's rows."""
        return F.col(self.name).cast("string")

    @property
    def _trimmed(self) -> Column:
        return F.trim(F.translate(self._said, "\t\r\n", "   "))


def _no_moment(text: Column, kind: StructType) -> Column:
    """Whether JSON has a value for a timestamp that Spark reads as a wrong one, and the Python rule refuses.

    Spark reads a time without a date as one of the current day. Epoch seconds that are too large (they were meant in a
    smaller unit) overflow, and may come out as any time. A value that may have either is read again, its times as text.
    """
    as_text = cast(StructType, _times_as_text(kind))
    found = F.from_json(F.when(text.rlike(MAYBE_NO_MOMENT), text), as_text, OPTIONS)
    return any_time(found, kind, lambda time, of: time.rlike(NO_MOMENT) & F.lit(isinstance(of, TimestampType)))


def _times_as_text(kind: DataType) -> DataType:
    match kind:
        case StructType():
            return StructType([StructField(field.name, _times_as_text(field.dataType)) for field in kind])
        case ArrayType():
            return ArrayType(_times_as_text(kind.elementType))
        case MapType():
            return MapType(kind.keyType, _times_as_text(kind.valueType))
    return StringType() if has_time(kind) else kind
