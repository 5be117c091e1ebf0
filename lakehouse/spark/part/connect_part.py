"""A key or a value of Kafka Connect in JSON on Spark: the fast form of `lakehouse.formats.values.connect_value`.

from_json reads a record, each column in the type in which a converter writes it. Of a record with a schema around it,
{"schema": ..., "payload": ...}, it reads the payload alone; Python says what the schema means, once for all records of
an Arrow batch that have it. Where from_json can't read a record, or may read it in another way than the rule, Python
reads it by the rule: every bad record, one with a name in two cases, or with a value that was not sent. A property test
compares both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import or_
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import BooleanType, LongType, StructType

from lakehouse.formats.codec.debezium import meta_units, split_columns, without_marks
from lakehouse.formats.values.connect_meaning import (
    BEFORE_PAYLOAD,
    ValueMeaning,
    explained_columns,
    meaning_of_start,
)
from lakehouse.plan.expression.schema import Column as PlanColumn
from lakehouse.plan.names.debezium_options import UNSENT_COLUMN, DebeziumOptions, parse_options
from lakehouse.plan.names.record_format import parse_format
from lakehouse.spark.expression.arrow_functions import over_arrow
from lakehouse.spark.part.connect_values import QuickValue, quick_value
from lakehouse.spark.part.field_tree import FieldTree, Path
from lakehouse.spark.part.json_any_case import AFTER, BEFORE, MAYBE_ESCAPED, name_pattern
from lakehouse.spark.part.record_part import PythonPart, python_decoder

_SCHEMA_FIRST = '{"schema":'
_PAYLOAD_FIRST = "{" + BEFORE_PAYLOAD.decode()


@dataclass(frozen=True)
class ConnectPart(PythonPart):
    """A row, with a schema around it or not. Columns that from_json does not read exactly are left to Python."""

    @cached_property
    def _options(self) -> DebeziumOptions:
        return parse_options(parse_format(self.format).options)

    @cached_property
    def _row_path(self) -> Path:
        """The path of the row in a record."""
        return ()

    @property
    def _own_paths(self) -> tuple[Path, ...]:
        """The paths of the texts that say what a record is."""
        return ()

    @property
    def _is_delete(self) -> Column:
        return F.lit(False)

    @cached_property
    def _row_columns(self) -> tuple[PlanColumn, ...]:
        """The columns of the row, with their names in the topic."""
        return split_columns(tuple(column.in_topic for column in without_marks(self.columns)), self._options.meta)[0]

    @cached_property
    def _quick_values(self) -> dict[PlanColumn, tuple[list[Path], QuickValue]] | None:
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
                value = quick_value(topic_column, self._options)
            else:
                paths = [tuple(topic_column.name.split("."))]
                value = quick_value(topic_column, meta_options)
            if value is None:
                return None
            quick_values[column] = paths, value
        return quick_values

    @cached_property
    def _types_by_path(self) -> dict[Path, str] | None:
        """The types as which from_json reads fields, with those that say what a record is; None as above."""
        if self._quick_values is None:
            return None
        fields = [(path, quick.type) for paths, quick in self._quick_values.values() for path in paths]
        fields += [(path, "string") for path in self._own_paths]
        types_by_path = dict(fields)
        is_ambiguous = any(types_by_path[path] != type for path, type in fields)
        is_nested = any(path[:length] in types_by_path for path in types_by_path for length in range(1, len(path)))
        return None if is_ambiguous or is_nested else types_by_path

    @cached_property
    def _tree(self) -> FieldTree:
        return FieldTree(f"_quick_{self.name}", self._types_by_path or {})

    @property
    def bronze_columns(self) -> dict[str, Column]:
        """The length of the schema before a record, up to the member behind it; null for a record without one."""
        if self._types_by_path is None:
            return super().bronze_columns
        text = self.bytes.cast("string")
        start = F.substring_index(text, BEFORE_PAYLOAD.decode(), 1)
        return {
            f"_start_{self.name}": F.when(text.startswith(_SCHEMA_FIRST), F.octet_length(start)),
            f"_no_{self.name}": self.is_missing,
            f"_raw_{self.name}": self.bytes,
        }

    @property
    def _parts_of_record(self) -> dict[str, Column]:
        """The record without the schema around it, and what that says of its values; null for a record without one."""
        data, length = F.col(f"_raw_{self.name}"), F.col(f"_start_{self.name}")
        first = length + (len(BEFORE_PAYLOAD) + 1)
        payload = F.ltrim(F.substring(data, first, F.octet_length(data) - first).cast("string"))
        text = data.cast("string")
        return {
            f"_record_{self.name}": F.when(length.isNull(), text).otherwise(
                F.when(text.endswith("}"), payload).otherwise("")
            ),
            f"_schema_{self.name}": self._meanings(F.substring(data, F.lit(1), length)),
        }

    @property
    def _meanings(self) -> Callable[[Column], Column]:
        """A function of the starts of records, to `fits` and a field for each number of `ValueMeaning.numbers`."""
        columns, options, is_row_alone = self._row_columns, self._options, not self._row_path
        count = len(explained_columns(columns))
        expected = self._expected_meanings
        result_type = StructType().add("fits", BooleanType())
        for place in range(count):
            result_type = result_type.add(f"m{place}", LongType())
        arrow_type = to_arrow_type(result_type)

        def struct_of(meaning: ValueMeaning | None) -> dict[str, bool | int | None]:
            if meaning is None:
                return {"fits": False}
            is_expected = all(meaning.numbers[place] == number for place, number in expected.items())
            return {"fits": meaning.fits and is_expected} | {f"m{n}": item for n, item in enumerate(meaning.numbers)}

        def meanings(starts: pa.Array) -> pa.Array:
            if starts.null_count == len(starts):
                return pa.nulls(len(starts), arrow_type)
            distinct = pc.dictionary_encode(starts)
            structs = [
                struct_of(meaning_of_start(start, columns, options, is_row_alone=is_row_alone))
                for start in distinct.dictionary.to_pylist()
            ]
            return pa.array(structs, arrow_type).take(distinct.indices)

        # As if it had another result each time: else Spark joins the steps up to the next function in Python to one.
        return cast(Callable[[Column], Column], cast(Any, over_arrow(meanings, result_type)).asNondeterministic())

    @property
    def _expected_meanings(self) -> dict[int, int]:
        """The meanings that a schema must give to columns with a declared meaning, by place in `ValueMeaning`."""
        assert self._quick_values is not None
        values_by_column = {column.in_topic: quick for column, (_, quick) in self._quick_values.items()}
        expected = enumerate(values_by_column[column].expected for column in explained_columns(self._row_columns))
        return {place: number for place, number in expected if number is not None}

    @property
    def text(self) -> Column:
        """The record as text, without the schema around it."""
        return super().text if self._types_by_path is None else F.col(f"_record_{self.name}")

    def _is_whole(self, text: Column) -> Column:
        """Return whether a text has the form of the records that from_json can read; others may be such, too."""
        return text.endswith("}") & ~text.contains(BEFORE_PAYLOAD.decode()[:-1])

    @property
    def separate_columns(self) -> tuple[dict[str, Column], ...]:
        """The record; what from_json reads of it; steps to the values; whether Python has to read a record; the row."""
        if self._types_by_path is None or self._quick_values is None:
            return ()
        text, meanings = self.text, F.col(f"_schema_{self.name}")
        # The schema's start and the payload are each whole: there is no member beside them.
        members = F.json_object_keys(F.when(meanings.isNotNull(), F.concat(F.lit(_PAYLOAD_FIRST), text, F.lit("}"))))
        is_understood = F.coalesce(meanings["fits"] & (F.size(members) == 1), F.lit(False))
        read_columns = {
            f"_quick_{self.name}": self._tree.read(text),
            f"_odd_{self.name}": ~F.is_valid_utf8(text)
            | text.contains("\\u")
            | ~text.startswith("{")
            | ~self._is_whole(text)
            | (meanings.isNotNull() & ~is_understood),
        }
        *first_steps, last_step = self._steps_of_values
        last_step[f"_names_{self.name}"] = self._names_in_doubt
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
        return self._parts_of_record, read_columns, *first_steps, last_step, {f"_slow_{self.name}": self._is_slow}, rows

    @property
    def _steps_of_values(self) -> list[dict[str, Column]]:
        """The columns that lead to the values, and the values in the last step."""
        assert self._quick_values is not None
        explained, meanings = explained_columns(self._row_columns), F.col(f"_schema_{self.name}")
        count = max(len(quick.steps) for _, quick in self._quick_values.values()) + 1
        columns_by_step: list[dict[str, Column]] = [{} for _ in range(count)]
        for column, (paths, quick) in self._quick_values.items():
            is_explained = quick.is_explained and column.in_topic in explained
            meaning = meanings[f"m{explained.index(column.in_topic)}"] if is_explained else F.lit(None).cast("bigint")
            parts = [self._tree_value(paths)]
            for number, step in enumerate(quick.steps):
                columns_by_step[number][self._step_name(column, number)] = step(parts, meaning)
                parts.append(F.col(self._step_name(column, number)))
            columns_by_step[-1][self._value_name(column)] = quick.last_step(parts, meaning)
        return columns_by_step

    def _tree_value(self, paths: list[Path]) -> Column:
        """Return what from_json read of a field, whichever of the paths it has."""
        return F.coalesce(*map(self._tree.value, paths))

    def _value_name(self, column: PlanColumn) -> str:
        return f"_{self.name}_value_{column.name}"

    def _step_name(self, column: PlanColumn, number: int) -> str:
        return f"_{self.name}_step{number}_{column.name}"

    @property
    def _is_slow(self) -> Column:
        """Whether Python has to read a record; never null."""
        is_odd = F.col(f"_odd_{self.name}") | self._tree.is_corrupt | self._is_odd_record
        is_slow = F.coalesce(is_odd, F.lit(True)) | (~self._is_delete & self._is_odd_row)
        return F.col(f"_raw_{self.name}").isNotNull() & F.coalesce(is_slow, F.lit(True))

    @property
    def _is_odd_record(self) -> Column:
        """Whether a record may be another than its own paths say."""
        return F.lit(False)

    @property
    def _is_odd_row(self) -> Column:
        """Whether a row may have other values than those that from_json read."""
        assert self._quick_values is not None
        is_odd, names = F.lit(False), F.col(f"_names_{self.name}")
        for column, (paths, quick) in self._quick_values.items():
            read = F.col(self._step_name(column, 0)) if quick.is_explained else self._tree_value(paths)
            is_odd |= F.col(self._value_name(column)).isNull() & read.isNotNull()
        # A name in another case counts where there is no other spelling of it; the rule knows where it stands.
        is_twice = F.size(F.array_distinct(F.transform(names, F.lower))) < F.size(F.array_distinct(names))
        is_odd |= F.coalesce(is_twice | F.array_contains(names, ""), F.lit(False))
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
