"""A key or a value in JSON on Spark: the fast form of `lakehouse.formats.values.json_value`.

A property test compares both.

Where possible, timestamps are read as text, and each is judged alone: to search the whole record for invalid moments
takes longer than to read it. `lakehouse.spark.part.json_written` has what from_json reads in another way than the
rule.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, cast

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructField, StructType, TimestampType

from lakehouse.plan.expression.schema import Column as PlanColumn
from lakehouse.plan.names.field import in_backticks
from lakehouse.spark.expression.moment_text import NO_DATE, NO_MOMENT, parse_moment
from lakehouse.spark.expression.years import has_any_time, has_time, is_outside_years
from lakehouse.spark.part import json_written
from lakehouse.spark.part.json_any_case import has_odd_names, has_signs, json_any_case, quick_or_careful
from lakehouse.spark.part.record_part import Part, python_decoder

# Python's json, and so the model, refuses these, too.
OPTIONS = {
    "allowSingleQuotes": "false",
    "allowComments": "false",
    # Without this a date "1" would be a day of 1970.
    "enableDateTimeParsingFallback": "false",
}

# In a text: see `_no_moment`. Spark leaves out blanks, control characters and a sign before a time.
MAYBE_NO_MOMENT = (
    r'[0-9]{14}|9[0-9]{12}|"[^"0-9A-Za-z]*(T[0-9]|[0-9]{1,2}:)|[0-9.] *(?:[ABCEIJMNPSV][A-Z]{2} *"|SystemV)|\\'
)
NUMBER = r"^-?[0-9.eE+-]*$"


@dataclass(frozen=True)
class JsonPart(Part):
    """A key or a value that is a JSON object."""

    _is_any_case: ClassVar[bool] = False  # whether names may be in any case

    @classmethod
    def can_read(cls, name: str, columns: tuple[PlanColumn, ...]) -> bool:
        return name != "key" or len(columns) > 1  # a key of one column may stand without an object

    @property
    def read(self) -> Column:
        struct_fields = [
            StructField(field.name, StringType() if field.name in self._moment_types else field.dataType)
            for field in self.type
        ]
        json_fields = [
            StructField(
                field.name, read_field.dataType if isinstance(read_field.dataType, StringType) else field.dataType
            )
            for read_field, field in zip(struct_fields, self._topic_fields, strict=True)
        ]
        corrupt_field = StructField(self._corrupt_name, StringType())

        def from_json(text: Column) -> Column:
            struct = F.from_json(text, StructType([*json_fields, corrupt_field]), self._options)
            # The cast goes by place: a field may have a name that no column can have.
            return (
                struct
                if self._is_plain
                else struct.cast(StructType([*struct_fields, StructField("_corrupt", StringType())]))
            )

        text = self._bytes_as_text
        if self._is_flat:
            return from_json(json_written.without_large_exponents(text, self.type))
        is_own_form = self._is_in_own_form(text)
        if self._is_any_case:
            return json_any_case(text, self.columns, from_json, python_decoder(self), is_own_form)
        return quick_or_careful(text, text, self.columns, from_json, python_decoder(self), is_own_form)

    @property
    def is_missing(self) -> Column:
        """True for absent bytes and for the literal null."""
        is_null_word = ~self._bytes_as_text.endswith("}") & (self._trimmed_text == "null")
        return super().is_missing | F.coalesce(is_null_word, F.lit(False))

    @property
    def is_broken(self) -> Column:
        # Most texts end like an object: then Spark need not trim them.
        is_open = ~self._bytes_as_text.endswith("}") & ~self._trimmed_text.endswith("}")
        return ~F.is_valid_utf8(self._bytes_as_text) | is_open

    @property
    def separate_columns(self) -> tuple[dict[str, Column], ...]:
        """The moments that were read as text, the texts as the record writes them, and maps with each key once.

        A moment that looks like a number is read once more, as epoch seconds if it was not in quotes. A text of which
        from_json may have changed the numbers is read once more, too.
        """
        columns_by_name = {}
        for moment, moment_type in self._moment_types.items():
            text_value = self.struct[moment]
            # Most moments have a colon, and are no number: that is the cheaper test.
            looks_like_number = ~text_value.contains(":") & text_value.rlike(NUMBER)
            field_name = self._field(moment)
            moment_struct = StructType(
                [StructField(field_name, moment_type), StructField(self._corrupt_name, StringType())]
            )
            read_again = F.from_json(F.when(looks_like_number, self.text), moment_struct, self._options)
            # If a field occurs twice and its last value does not fit, Spark keeps the first one.
            epoch_seconds = F.when(read_again[self._corrupt_name].isNull(), read_again[field_name])
            moment_value = parse_moment(text_value, moment_type.simpleString())
            is_quoted = json_written.is_in_quotes(F.when(looks_like_number, self.text), field_name)
            columns_by_name[self._column_name(moment)] = F.when(
                looks_like_number & ~is_quoted, epoch_seconds
            ).otherwise(moment_value)
        for name in self._text_names:
            field_name = self._field(name)
            text_value, text_struct = self.struct[name], StructType([StructField(field_name, StringType())])
            may_differ = json_written.is_changed(self.text, text_value, self.type)
            text_again = F.from_json(
                F.when(may_differ, json_written.mark_numbers(self.text)), text_struct, self._options
            )[field_name]
            columns_by_name[self._column_name(name)] = F.when(
                may_differ, json_written.unmark_numbers(text_again)
            ).otherwise(text_value)
        for name in self._map_names:
            columns_by_name[self._column_name(name)] = json_written.keep_last_entries(
                self.struct[name], self.type[name].dataType
            )
        return (columns_by_name,) if columns_by_name else ()

    @property
    def is_unfit(self) -> Column:
        is_unfit = super().is_unfit | self.struct.isNull() | self.struct["_corrupt"].isNotNull()
        other_fields = StructType([field for field in self.type if field.name not in self._moment_types])
        if has_time(other_fields):
            # The rule itself has judged what from_json did not read.
            quick_text = F.when(~self._is_in_own_form(self.text), self.text)
            is_unfit = (
                is_unfit | is_outside_years(self.struct, other_fields) | self._no_moment(quick_text, other_fields)
            )
        for moment, moment_type in self._moment_types.items():
            moment_value, moment_text = self.column(moment), self.struct[moment]
            is_other = moment_text.rlike(NO_MOMENT if isinstance(moment_type, TimestampType) else NO_DATE)
            is_moment = moment_value.isNotNull() & ~is_other & ~is_outside_years(moment_value, moment_type)
            is_unfit = is_unfit | (moment_text.isNotNull() & ~is_moment)
        return is_unfit

    def column(self, name: str) -> Column:
        return (
            F.col(self._column_name(name))
            if name in self._moment_types or name in self._text_names or name in self._map_names
            else super().column(name)
        )

    def _is_in_own_form(self, text: Column) -> Column:
        """Return whether Python must read a text; never null."""
        has_own_form, is_odd = json_written.is_in_own_form(text, self._topic_fields), has_odd_names(text, self.columns)
        return has_own_form if is_odd is None else has_own_form | F.coalesce(is_odd, F.lit(False))

    def _no_moment(self, text: Column, kind: StructType) -> Column:
        """Return whether a text has a value for a timestamp that Spark reads wrongly, and that the Python rule refuses.

        Spark reads a time without a date as a time of the current day. Epoch seconds that are too large (meant in a
        smaller unit) overflow, and may give any time. A text that may have either is read again, its times as text.
        """
        json_fields = StructType(
            [
                field
                for field, struct_field in zip(self._topic_fields, self.type, strict=True)
                if struct_field in kind.fields
            ]
        )
        suspicious_text = F.when(text.rlike(MAYBE_NO_MOMENT), text)
        struct = F.from_json(suspicious_text, _times_as_text(json_fields), self._options).cast(_times_as_text(kind))
        return has_any_time(
            struct, kind, lambda time, time_type: time.rlike(NO_MOMENT) & F.lit(isinstance(time_type, TimestampType))
        )

    def _field(self, name: str) -> str:
        """Return the name of a column's field."""
        return self._topic_fields.names[self.type.names.index(name)]

    @cached_property
    def _topic_fields(self) -> StructType:
        """The columns' fields in the topic."""
        topic_columns = (column.in_topic for column in self.columns)
        ddl = ", ".join(f"{in_backticks(column.name)} {column.type}" for column in topic_columns)
        return cast(StructType, StructType.fromDDL(ddl))

    @property
    def _is_plain(self) -> bool:
        """Whether all columns have their fields' names."""
        return not any(column.is_renamed for column in self.columns)

    @property
    def _corrupt_name(self) -> str:
        """The field in which from_json puts a text that does not fit; no other field has its name."""
        return "_corrupt" if self._is_plain else "_corrupt" + "_" * max(map(len, self._topic_fields.names))

    @property
    def _options(self) -> dict[str, str]:
        return {**OPTIONS, "columnNameOfCorruptRecord": self._corrupt_name}

    @cached_property
    def _is_flat(self) -> bool:
        """Whether Spark reads all records; else Python reads those with values that from_json reads wrongly."""
        return not self._is_any_case and json_written.is_flat(self.type) and not has_signs(self.columns)

    @cached_property
    def _moment_types(self) -> dict[str, DataType]:
        """The timestamps and dates that are read as text."""
        return {field.name: field.dataType for field in self.type if self._is_flat and has_time(field.dataType)}

    @cached_property
    def _text_names(self) -> list[str]:
        """The texts that may have to be read once more."""
        return [field.name for field in self.type if self._is_flat and isinstance(field.dataType, StringType)]

    @cached_property
    def _map_names(self) -> list[str]:
        """The columns with maps, in which from_json may put a key twice."""
        return [field.name for field in self.type if json_written.has_map(field.dataType)]

    def _column_name(self, name: str) -> str:
        return f"_{self.name}_read_{name}"

    @property
    def _bytes_as_text(self) -> Column:
        """The bytes as text, over bronze's rows."""
        return self.bytes.cast("string")

    @property
    def _trimmed_text(self) -> Column:
        return F.trim(F.translate(self._bytes_as_text, "\t\r\n", "   "))


@dataclass(frozen=True)
class JsonAnyCasePart(JsonPart):
    """The same as SQL reads it: names in any case, numbers in quotes."""

    _is_any_case: ClassVar[bool] = True


def _times_as_text(kind: DataType) -> Any:
    match kind:
        case StructType():
            return StructType([StructField(field.name, _times_as_text(field.dataType)) for field in kind])
        case ArrayType():
            return ArrayType(_times_as_text(kind.elementType))
        case MapType():
            return MapType(kind.keyType, _times_as_text(kind.valueType))
    return StringType() if has_time(kind) else kind
