"""A key or a value in JSON on Spark: the fast form of `lakehouse.formats.json_value`. A property test holds them equal.

Timestamps are read as text where that can be, and judged alone: looking for what is no moment in the whole record takes
longer than reading the record. What from_json does not read as the rule does: `lakehouse.spark.stream.json_written`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructField, StructType, TimestampType

from lakehouse.spark.stream import json_written
from lakehouse.spark.stream.json_any_case import has_signs, json_any_case, odd_names, quick_or_careful
from lakehouse.spark.stream.part import Part, in_python
from lakehouse.spark.years import any_time, has_time, outside

# Python's json, and so the model, refuses these too.
OPTIONS = {
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
        there = [
            StructField(f.name, own.dataType if isinstance(own.dataType, StringType) else f.dataType)
            for own, f in zip(fields, self._in_topic, strict=True)
        ]
        corrupt = StructField(self._corrupt, StringType())

        def from_json(text: Column) -> Column:
            found = F.from_json(text, StructType([*there, corrupt]), self._options)
            # By their places: a field's name may be one that no column can have.
            return found if self._is_plain else found.cast(StructType([*fields, StructField("_corrupt", StringType())]))

        text = self._said
        if self._is_flat:
            return from_json(json_written.without_large_exponents(text, self.type))
        own = self._in_own_form(text)
        if self._is_any_case:
            return json_any_case(text, self.columns, from_json, in_python(self), own)
        return quick_or_careful(text, text, self.columns, from_json, in_python(self), own)

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
        """The moments that are read as text, and texts as they are written.

        A moment that looks like a number is read once more, as epoch seconds if it did not stand in quotes. A text
        that may have other numbers than the record is read once more, too.
        """
        made = {}
        for moment, kind in self._moments.items():
            found = self.struct[moment]
            number = ~found.contains(":") & found.rlike(NUMBER)  # most moments have one, and are no number
            field = self._field(moment)
            typed = StructType([StructField(field, kind), StructField(self._corrupt, StringType())])
            once_more = F.from_json(F.when(number, self.text), typed, self._options)
            # Of a field that stands twice, Spark keeps the first value if the last one does not fit.
            seconds = F.when(once_more[self._corrupt].isNull(), once_more[field])
            read = json_written.moment(found, kind.simpleString())
            quoted = json_written.in_quotes(F.when(number, self.text), field)
            made[self._place(moment)] = F.when(number & ~quoted, seconds).otherwise(read)
        for name in self._texts:
            field = self._field(name)
            found, one = self.struct[name], StructType([StructField(field, StringType())])
            changed = json_written.is_changed(self.text, found, self.type)
            again = F.from_json(F.when(changed, json_written.marked(self.text)), one, self._options)[field]
            made[self._place(name)] = F.when(changed, json_written.unmarked(again)).otherwise(found)
        return made

    @property
    def unfit(self) -> Column:
        unfit = super().unfit | self.struct.isNull() | self.struct["_corrupt"].isNotNull()
        others = StructType([field for field in self.type if field.name not in self._moments])
        if has_time(others):
            # What was not read by from_json was judged by the rule itself.
            quick = F.when(~self._in_own_form(self.text), self.text)
            unfit = unfit | outside(self.struct, others) | self._no_moment(quick, others)
        for moment, kind in self._moments.items():
            found, said = self.column(moment), self.struct[moment]
            is_moment = found.isNotNull() & ~said.rlike(NO_MOMENT) & ~outside(found, kind)
            unfit = unfit | (said.isNotNull() & ~is_moment)
        return unfit

    def column(self, name: str) -> Column:
        return F.col(self._place(name)) if name in self._moments or name in self._texts else super().column(name)

    def _in_own_form(self, text: Column) -> Column:
        """Whether a text is one that Python reads; never null."""
        own, odd = json_written.in_own_form(text, self._in_topic), odd_names(text, self.columns)
        return own if odd is None else own | F.coalesce(odd, F.lit(False))

    def _no_moment(self, text: Column, kind: StructType) -> Column:
        """Whether JSON has a value for a timestamp that Spark reads as a wrong one, and the Python rule refuses.

        Spark reads a time without a date as one of the current day. Epoch seconds that are too large (they were meant
        in a smaller unit) overflow, and may come out as any time. A value that may have either is read again, its times
        as text.
        """
        there = StructType([field for field, own in zip(self._in_topic, self.type, strict=True) if own in kind.fields])
        as_text = F.when(text.rlike(MAYBE_NO_MOMENT), text)
        found = F.from_json(as_text, _times_as_text(there), self._options).cast(_times_as_text(kind))
        return any_time(found, kind, lambda time, of: time.rlike(NO_MOMENT) & F.lit(isinstance(of, TimestampType)))

    def _field(self, name: str) -> str:
        """The name of a column's field."""
        return self._in_topic.names[self.type.names.index(name)]

    @cached_property
    def _in_topic(self) -> StructType:
        """The columns' fields."""
        there = (column.in_topic for column in self.columns)
        text = ", ".join(f"`{column.name.replace('`', '``')}` {column.type}" for column in there)
        return cast(StructType, StructType.fromDDL(text))

    @property
    def _is_plain(self) -> bool:
        """Whether all columns have their fields' names."""
        return not any(column.is_renamed for column in self.columns)

    @property
    def _corrupt(self) -> str:
        """Where from_json puts a text that does not fit: no field's name."""
        return "_corrupt" if self._is_plain else "_corrupt" + "_" * max(map(len, self._in_topic.names))

    @property
    def _options(self) -> dict[str, str]:
        return {**OPTIONS, "columnNameOfCorruptRecord": self._corrupt}

    @property
    def _is_any_case(self) -> bool:
        return self.format == "json_any_case"

    @cached_property
    def _is_flat(self) -> bool:
        """Whether Spark reads all records; else Python reads those with values in a form of their own."""
        return not self._is_any_case and json_written.is_flat(self.type) and not has_signs(self.columns)

    @cached_property
    def _moments(self) -> dict[str, DataType]:
        """The timestamps and dates that are read as text."""
        return {field.name: field.dataType for field in self.type if self._is_flat and has_time(field.dataType)}

    @cached_property
    def _texts(self) -> list[str]:
        """The texts that may have to be read once more."""
        return [field.name for field in self.type if self._is_flat and isinstance(field.dataType, StringType)]

    def _place(self, name: str) -> str:
        return f"_{self.name}_read_{name}"

    @property
    def _said(self) -> Column:
        """The bytes as text, over bronze's rows."""
        return self.bytes.cast("string")

    @property
    def _trimmed(self) -> Column:
        return F.trim(F.translate(self._said, "\t\r\n", "   "))


def _times_as_text(kind: DataType) -> Any:
    match kind:
        case StructType():
            return StructType([StructField(field.name, _times_as_text(field.dataType)) for field in kind])
        case ArrayType():
            return ArrayType(_times_as_text(kind.elementType))
        case MapType():
            return MapType(kind.keyType, _times_as_text(kind.valueType))
    return StringType() if has_time(kind) else kind
