"""A key or a value of a database's change log in JSON on Spark: the fast form of `lakehouse.formats.codec.debezium`.

from_json reads a record, each column in the type in which Debezium writes it. Where it can't read a record, or may
read it in another way than the rule, Python reads it by the rule: every bad record, a record with a schema around it,
with a name in two cases, or with a value that was not sent. A property test compares both.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import cached_property, reduce
from operator import add, or_
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import TimestampType

from lakehouse.formats.codec.debezium import (
    COMMITTED,
    ROW_AFTER,
    meta_units,
    placeholder_texts,
    split_columns,
    without_marks,
)
from lakehouse.formats.values.text_value import precision_and_scale
from lakehouse.plan.names.debezium_options import UNSENT_COLUMN, DebeziumOptions, parse_options
from lakehouse.plan.names.record_format import parse_format
from lakehouse.plan.schema import Column as PlanColumn
from lakehouse.plan.schema import base_type
from lakehouse.semantics.time.years import FIRST_MS, LAST_MS
from lakehouse.spark.expression.years import in_range, null_outside_years
from lakehouse.spark.part.json_any_case import AFTER, BEFORE, MAYBE_ESCAPED, name_pattern
from lakehouse.spark.part.json_part import OPTIONS
from lakehouse.spark.part.json_written import LOOSE
from lakehouse.spark.part.record_part import PythonPart, python_decoder, python_delete_times

Path = tuple[str, ...]

# A bigint's bounds, in whole microseconds.
_FIRST_NANO, _LAST_NANO = -(2**63) // 1000 * 1000 + 1000, 2**63 - 1
_MOMENT = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,6})?(Z|[+-][0-9]{2}:[0-9]{2})$"
_COMMITTED_PATH = tuple(COMMITTED.name.split("."))
_DAY_MS = 86_400_000
_DIGITS_OF_DOUBLE = 15
_OPERATION, _AFTER_PATH, _DELETED, _FLAT_OPERATION = ("op",), ("after",), ("__deleted",), ("__op",)


@dataclass(frozen=True)
class _QuickValue:
    """How from_json reads a field: as which type, and the column's value; null where only the rule can say it."""

    type: str
    value: Callable[[Column], Column] = lambda read: read


@dataclass(frozen=True)
class DebeziumPart(PythonPart):
    """A change event or its key. Columns that from_json does not read exactly are left to Python, for all records."""

    @cached_property
    def _options(self) -> DebeziumOptions:
        return parse_options(parse_format(self.format).options)

    @cached_property
    def _row_path(self) -> Path:
        """The path of the row in a record."""
        return () if self.name == "key" or self._options.flattened else _AFTER_PATH

    @cached_property
    def _quick_values(self) -> dict[PlanColumn, tuple[list[Path], _QuickValue]] | None:
        """The paths that each column's field may have, and how it is read; None if Python has to read all records."""
        columns = without_marks(self.columns)
        in_topic = tuple(column.in_topic for column in columns)
        if self._options.documents or any(map(MAYBE_ESCAPED.search, (column.name for column in in_topic))):
            return None
        row_columns, meta_columns = split_columns(in_topic, self._options.meta)
        meta_options = DebeziumOptions(times=tuple(meta_units(meta_columns).items()))
        if len({column.name.lower() for column in row_columns}) < len(row_columns):
            return None
        quick_values = {}
        for column, topic_column in zip(columns, in_topic, strict=True):
            if topic_column in row_columns:
                paths = [(*self._row_path, spelling) for spelling in _spellings(topic_column.name)]
                quick_value = _quick_value(topic_column, self._options)
            else:
                paths = [tuple(topic_column.name.split("."))]
                quick_value = _quick_value(topic_column, meta_options)
            if quick_value is None:
                return None
            quick_values[column] = paths, quick_value
        return quick_values

    @cached_property
    def _types_by_path(self) -> dict[Path, str] | None:
        """The types as which from_json reads fields, with those that say what a record is; None as above."""
        if self._quick_values is None:
            return None
        fields = [(path, quick_value.type) for paths, quick_value in self._quick_values.values() for path in paths]
        if self.name == "value":
            own_paths = (_DELETED, _FLAT_OPERATION) if self._options.flattened else (_OPERATION,)
            fields += [(path, "string") for path in own_paths]
        types_by_path = dict(fields)
        is_ambiguous = any(types_by_path[path] != type for path, type in fields)
        is_nested = any(path[:length] in types_by_path for path in types_by_path for length in range(1, len(path)))
        return None if is_ambiguous or is_nested else types_by_path

    @cached_property
    def _tree(self) -> _Tree:
        return _Tree(f"_quick_{self.name}", self._types_by_path or {})

    @property
    def bronze_columns(self) -> dict[str, Column]:
        if self._types_by_path is None:
            return super().bronze_columns
        text = F.col(self.name).cast("string")
        return {
            f"_quick_{self.name}": self._tree.read(text),
            f"_odd_{self.name}": ~F.is_valid_utf8(text) | text.contains("\\u") | ~self._is_whole(text),
            f"_no_{self.name}": self.missing,
            f"_raw_{self.name}": self.bytes,
        }

    def _is_whole(self, text: Column) -> Column:
        """Return whether a text has the form of the records that from_json can read; others may be such, too."""
        if self.name == "key":
            return text.rlike(r"^\{[^{}]*\}$") & ~text.contains('"payload"')
        if self._options.flattened:
            may_be_envelope = text.contains('"op"') & text.contains('"source"')
            return text.endswith("}") & ~text.contains('"payload"') & ~may_be_envelope
        return text.endswith("}")

    @property
    def separate_columns(self) -> tuple[dict[str, Column], ...]:
        """The columns' values as from_json read them; whether Python has to read a record; the row."""
        if self._types_by_path is None or self._quick_values is None:
            return ()
        values_by_name = {
            self._value_name(column): quick_value.value(self._read_value(paths))
            for column, (paths, quick_value) in self._quick_values.items()
        }
        values_by_name[f"_names_{self.name}"] = self._names_in_doubt
        fields = {column.name: F.col(self._value_name(column)) for column in self._quick_values}
        # Only a record that Python reads lacks a value that was to be sent.
        fields |= {name: F.array() for name in (UNSENT_COLUMN,) if name in self.type.names}
        row = F.struct(
            *[fields[column.name].cast(column.type).alias(column.name) for column in self.columns],
            F.lit(None).cast("string").alias("_unfit"),
        )
        is_slow, raw_bytes = F.col(f"_slow_{self.name}"), F.col(f"_raw_{self.name}")
        careful_row = python_decoder(self)(F.when(is_slow, raw_bytes))
        is_row = raw_bytes.isNotNull() & ~self._is_delete
        rows = {f"_read_{self.name}": F.when(is_slow, careful_row).otherwise(F.when(is_row, row))}
        if self._has_delete_times:
            quick_time = F.when(self._is_delete, self._tree.value(_COMMITTED_PATH))
            careful_time = python_delete_times(self)(F.when(is_slow, raw_bytes))
            rows[f"_deleted_{self.name}"] = F.when(is_slow, careful_time).otherwise(
                F.when(in_range(quick_time), quick_time)
            )
        return values_by_name, {f"_slow_{self.name}": self._is_slow}, rows

    @property
    def _has_delete_times(self) -> bool:
        return (self._types_by_path or {}).get(_COMMITTED_PATH) == COMMITTED.type

    @property
    def deleted_ms(self) -> Column:
        return F.col(f"_deleted_{self.name}") if self._has_delete_times else super().deleted_ms

    def _read_value(self, paths: list[Path]) -> Column:
        """Return what from_json read of a field, whichever of the paths it has."""
        return F.coalesce(*map(self._tree.value, paths))

    def _value_name(self, column: PlanColumn) -> str:
        return f"_{self.name}_value_{column.name}"

    @property
    def _is_delete(self) -> Column:
        if self.name == "key":
            return F.lit(False)
        if not self._options.flattened:
            return self._tree.value(_OPERATION) == "d"
        is_deleted = (self._tree.value(_DELETED) == "true") | (self._tree.value(_FLAT_OPERATION) == "d")
        return F.coalesce(is_deleted, F.lit(False))

    @property
    def _is_slow(self) -> Column:
        """Whether Python has to read a record; never null."""
        is_odd = F.col(f"_odd_{self.name}") | self._tree.is_corrupt
        if self.name == "value" and self._options.flattened:
            operation = self._tree.value(_FLAT_OPERATION)
            is_odd |= ~(operation.isin(*ROW_AFTER, "d") | (operation.isNull() & ~self.text.contains('"__op"')))
        elif self.name == "value":
            is_odd |= ~self._tree.value(_OPERATION).isin(*ROW_AFTER, "d")
        is_slow = F.coalesce(is_odd, F.lit(True)) | (~self._is_delete & self._is_odd_row)
        return F.col(f"_raw_{self.name}").isNotNull() & F.coalesce(is_slow, F.lit(True))

    @property
    def _is_odd_row(self) -> Column:
        """Whether a row may have other values than those that from_json read."""
        assert self._quick_values is not None
        is_odd, names = F.lit(False), F.col(f"_names_{self.name}")
        for column, (paths, _) in self._quick_values.items():
            is_odd |= F.col(self._value_name(column)).isNull() & self._read_value(paths).isNotNull()
        # A name in another case counts where there is no other spelling of it; the rule knows where it stands.
        for spellings in self._spellings_by_column:
            is_there = [F.array_contains(names, spelling).cast("int") for spelling in spellings]
            is_odd |= F.coalesce(reduce(add, is_there) > 1, F.lit(False))
        is_odd |= F.coalesce(F.array_contains(names, ""), F.lit(False))
        return is_odd | self._tree.value(self._row_path).isNull() if self._row_path else is_odd

    @property
    def _spellings_by_column(self) -> list[list[str]]:
        """The names that the row's fields may have."""
        all_paths = [paths for paths, _ in (self._quick_values or {}).values()]
        return [[path[-1] for path in paths] for paths in all_paths if paths[0][:-1] == self._row_path]

    @property
    def _names_in_doubt(self) -> Column:
        """The names in a record that may be the fields', "" for one in an unknown spelling; null if none is needed."""
        may_be_spelled = [self._tree.value((*self._row_path, names[0])).isNull() for names in self._spellings_by_column]
        spellings = "|".join(name_pattern(name) for names in self._spellings_by_column for name in names)
        names = F.regexp_extract_all(self.text, F.lit(f"{BEFORE}(?:({spellings})|(?i:{spellings})){AFTER}"), F.lit(1))
        return F.when(reduce(or_, may_be_spelled), names)


def _spellings(name: str) -> list[str]:
    """Return a name as it is declared, and as databases write it."""
    return list(dict.fromkeys((name, name.lower(), name.upper())))


class _Tree:
    """The fields of a record, read by from_json. They are found by their places, whatever their names."""

    def __init__(self, column_name: str, types_by_path: dict[Path, str]) -> None:
        self._column = F.col(column_name)
        self._nodes: dict[str, Any] = {}
        for path, type in types_by_path.items():
            nodes = self._nodes
            for name in path[:-1]:
                nodes = nodes.setdefault(name, {})
            nodes[path[-1]] = type

    def read(self, text: Column) -> Column:
        """Return the struct of a text's fields, from which the others take values."""
        corrupt_name = "_corrupt" + "_" * max(map(len, self._nodes))
        json_type = f"struct<{_ddl(self._nodes)}, `{corrupt_name}`: string>"
        json_struct = F.from_json(text, json_type, {**OPTIONS, "columnNameOfCorruptRecord": corrupt_name})
        return json_struct.cast(f"struct<{_ddl(_numbered(self._nodes))}, corrupt: string>")

    @property
    def is_corrupt(self) -> Column:
        """Whether a text is no record with fields of these types."""
        return self._column.isNull() | self._column["corrupt"].isNotNull()

    def value(self, path: Path) -> Column:
        """Return the value of a field, or the struct of those below it."""
        column, nodes = self._column, self._nodes
        for name in path:
            column, nodes = column[f"f{list(nodes).index(name)}"], nodes[name]
        return column


def _numbered(nodes: dict[str, Any]) -> dict[str, Any]:
    return {f"f{n}": _numbered(node) if isinstance(node, dict) else node for n, node in enumerate(nodes.values())}


def _ddl(nodes: dict[str, Any]) -> str:
    """Return fields as SQL text."""
    types = ((name, f"struct<{_ddl(node)}>" if isinstance(node, dict) else node) for name, node in nodes.items())
    return ", ".join(f"`{name.replace('`', '``')}`: {type}" for name, type in types)


def _quick_value(column: PlanColumn, options: DebeziumOptions) -> _QuickValue | None:
    """Return how from_json reads a column of the row; None if it can't read it exactly."""
    texts = placeholder_texts(options.unavailable)
    match base_type(column.type):
        case "int" | "bigint" | "boolean" | "float" | "double":
            return _QuickValue(column.type)
        case "string":
            return _QuickValue("string", lambda read: F.when(~(read.rlike(LOOSE) | read.isin(*texts)), read))
        case "binary":
            return _QuickValue("binary", lambda read: F.when(~read.isin(*_decoded(texts)), read))
        case "decimal":
            return _quick_decimal(column, options)
        case "timestamp":
            return _quick_timestamp(dict(options.times).get(column.name, ""))
        case "date" if dict(options.times).get(column.name, "days") == "days":
            first_day, last_day = FIRST_MS // _DAY_MS, LAST_MS // _DAY_MS
            return _QuickValue(
                "int", lambda read: F.date_add(F.lit(date(1970, 1, 1)), _between(read, first_day, last_day))
            )
    return None


def _decoded(texts: Iterable[str]) -> Iterator[Column]:
    """Yield the bytes that the placeholder's texts would be."""
    for text in texts:
        with suppress(binascii.Error):
            yield F.lit(base64.b64decode(text, validate=True))


def _quick_decimal(column: PlanColumn, options: DebeziumOptions) -> _QuickValue | None:
    _, scale = precision_and_scale(column.type)
    if options.decimals == "precise" and scale <= _DIGITS_OF_DOUBLE:
        placeholders = list(_decoded(placeholder_texts(options.unavailable)))

        def decimal_of_bytes(data: Column) -> Column:
            # Eight bytes with the number's sign: a base below 0 means a signed number of 64 bits.
            digits = F.hex(data)
            sign_digit = F.when(F.substring(digits, 1, 1) >= "8", F.lit("F")).otherwise(F.lit("0"))
            is_short = F.octet_length(data).between(1, 8) & ~data.isin(*placeholders)
            unscaled = F.conv(F.when(is_short, F.lpad(digits, 16, sign_digit)), 16, -10).try_cast("decimal(19, 0)")
            return (unscaled * F.lit(Decimal(1).scaleb(-scale))).try_cast(column.type)

        return _QuickValue("binary", decimal_of_bytes)
    if options.decimals == "string":
        # from_json reads a number without quotes as a double, and writes that as text: its digits may be others.
        fraction = f"([.][0-9]{{1,{scale}}})?" if scale else ""
        is_short = f"^-?(?:[0-9]+|(?=.{{1,{_DIGITS_OF_DOUBLE}}}$)[0-9]+{fraction})$"
        return _QuickValue("string", lambda read: F.when(read.rlike(is_short), read).try_cast(column.type))
    return None


def _quick_timestamp(unit: str) -> _QuickValue | None:
    if unit == "":
        return _QuickValue("string", _timestamp_of_text)
    match unit:
        case "millis":
            return _QuickValue("bigint", lambda read: F.timestamp_millis(_between(read, FIRST_MS, LAST_MS)))
        case "micros":
            first, last = FIRST_MS * 1000, LAST_MS * 1000 + 999
            return _QuickValue("bigint", lambda read: F.timestamp_micros(_between(read, first, last)))
        case "nanos":
            return _QuickValue("bigint", lambda read: _timestamp_of_nanos(_between(read, _FIRST_NANO, _LAST_NANO)))
    return None


def _timestamp_of_text(text: Column) -> Column:
    return null_outside_years(F.when(text.rlike(_MOMENT), text).try_cast("timestamp"), TimestampType())


def _between(number: Column, first: int, last: int) -> Column:
    """Return a number within bounds; else null."""
    return F.when(number.between(first, last), number)


def _timestamp_of_nanos(nanos: Column) -> Column:
    return F.timestamp_micros(F.call_function("div", nanos - F.pmod(nanos, F.lit(1000)), F.lit(1000)))
