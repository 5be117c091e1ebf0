"""A key or a value in Avro on Spark: the fast form of `lakehouse.formats.codec.avro_codec`. A test compares both.

from_avro reads each record by its writer's schema. It takes bytes that end too early, or too late, for a row of nulls
or for a row; so each gets a number behind it that only this process knows, as a last field: the row fits if it comes
out. Python reads the types that from_avro does not read exactly.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from functools import cached_property

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro

from lakehouse.formats.avro.avro_writer import write_long
from lakehouse.formats.avro.read_types import MARK, ReadTypes, read_types
from lakehouse.formats.codec.registered import LENGTH_MAX, PREFIX_LENGTH, with_prefix
from lakehouse.formats.values.unfit import Unfit
from lakehouse.plan.expression.schema import Column as PlanColumn
from lakehouse.plan.names.record_format import parse_format
from lakehouse.plan.refused.unfit_schema import UnfitSchema
from lakehouse.spark.expression.avro_values import AvroValue, avro_value, does_not_fit
from lakehouse.spark.part.record_part import Part, python_decoder

_MARK = secrets.randbits(62)
# Dates before 1582 are those of the calendar of today, whatever the session's setting for files says.
_OPTIONS = {"mode": "PERMISSIVE", "datetimeRebaseMode": "CORRECTED"}


@dataclass(frozen=True)
class AvroPart(Part):
    """A part in Avro with a registry's schemas. Records that the same reader's schema reads are one column."""

    @cached_property
    def _ids_by_reader(self) -> dict[str, dict[str, list[int]]]:
        """The ids by the writer's schema, by the reader's."""
        ids: dict[str, dict[str, list[int]]] = {}
        for id, types in self._types_by_id.items():
            if types is not None:
                ids.setdefault(types.reader, {}).setdefault(types.writer, []).append(id)
        return ids

    @property
    def _written_columns(self) -> tuple[PlanColumn, ...]:
        """The columns that from_avro reads, with the names and types of the topic's fields."""
        return tuple(column.in_topic for column in self.columns)

    @cached_property
    def _types_by_id(self) -> dict[int, ReadTypes | None]:
        """The schemas to read by, None for Python, by the id; without the ids whose types do not fit the columns."""
        columns = self._written_columns
        ignores_case = parse_format(self.format).traits.ignores_case
        types_by_id = {}
        for id, schema in self.schemas.items():
            try:
                types_by_id[id] = read_types(schema.avro_type, columns, ignores_case=ignores_case)
            except (Unfit, UnfitSchema):
                continue
        return types_by_id

    @property
    def bronze_columns(self) -> dict[str, Column]:
        columns = {f"_no_{self.name}": self.is_missing}
        data = F.col(self.name)
        is_read = F.octet_length(data) <= LENGTH_MAX
        marked = F.concat(F.substring(data, PREFIX_LENGTH + 1, LENGTH_MAX), F.lit(write_long(_MARK)))
        for number, (reader, ids_by_writer) in enumerate(self._ids_by_reader.items()):
            read: Column | None = None
            for writer, ids in ids_by_writer.items():
                row = from_avro(marked, writer, {**_OPTIONS, "avroSchema": reader})
                condition = self._has_id(ids) & is_read
                read = F.when(condition, row) if read is None else read.when(condition, row)
            assert read is not None
            columns[f"_read{number}_{self.name}"] = read
        if self._careful_ids:
            columns[f"_careful_{self.name}"] = F.coalesce(self._has_id(self._careful_ids), F.lit(False))
            columns[f"_row_{self.name}"] = python_decoder(self)(F.when(self._has_id(self._careful_ids), data))
        return columns

    def _has_id(self, ids: list[int]) -> Column:
        """Return whether the bytes are of one of these schemas, over bronze's rows."""
        return F.substring(self.name, 1, PREFIX_LENGTH).isin([F.lit(with_prefix(id, b"")) for id in ids])

    @property
    def _careful_ids(self) -> list[int]:
        return [id for id, types in self._types_by_id.items() if types is None]

    @property
    def read(self) -> Column:
        raise TypeError("a part in Avro has several columns: bronze_columns")

    @cached_property
    def _values_by_group(self) -> list[tuple[Column, list[AvroValue]]]:
        """The column that from_avro has read, and the values of `_written_columns`, for each reader's schema."""
        groups = []
        for number, reader in enumerate(self._ids_by_reader):
            types = next(types for types in self._types_by_id.values() if types is not None and types.reader == reader)
            raw = F.col(f"_read{number}_{self.name}")
            values = [
                avro_value(raw[f"c{place}"], avro_type, column.type)
                for place, (avro_type, column) in enumerate(zip(types.columns, self._written_columns, strict=True))
            ]
            groups.append((raw, values))
        return groups

    @property
    def separate_columns(self) -> tuple[dict[str, Column], ...]:
        """Whether the bytes do not fit: then no column has what from_avro made of them, such as half a text."""
        is_unfit = F.when(self._is_careful, self._careful_row["_unfit"].isNotNull())
        for raw, values in self._values_by_group:
            has_mark = F.coalesce(raw[MARK] == F.lit(_MARK), F.lit(False))
            is_unfit = is_unfit.when(raw.isNotNull(), ~has_mark | self._does_not_fit(values))
        return ({f"_unfit_{self.name}": is_unfit.otherwise(F.lit(True))},)

    def _does_not_fit(self, values: list[AvroValue]) -> Column:
        """Return whether the values of `_written_columns` do not fit."""
        return does_not_fit(values)

    @property
    def _is_careful(self) -> Column:
        return F.col(f"_careful_{self.name}") if self._careful_ids else F.lit(False)

    @property
    def _careful_row(self) -> Column:
        """The row that Python has read."""
        if self._careful_ids:
            return F.col(f"_row_{self.name}")
        nulls = [F.lit(None).cast(column.type).alias(column.name) for column in self.columns]
        return F.struct(*nulls, F.lit(None).cast("string").alias("_unfit"))

    @property
    def is_unfit(self) -> Column:
        return F.col(f"_unfit_{self.name}")

    @property
    def is_null(self) -> Column:
        """Whether the part is null, or its writer's schema has a null in place of the whole."""
        return super().is_null | (self._is_careful & self._careful_row.isNull())

    def column(self, name: str) -> Column:
        place, column = next((place, item) for place, item in enumerate(self.columns) if item.name == name)
        values = [values[place].value.cast(column.type) for _, values in self._values_by_group]
        return F.when(~self.is_unfit, F.coalesce(*values, self._careful_row[name]))
