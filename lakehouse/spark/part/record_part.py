"""A record's key or value on Spark: how its bytes become columns, and which bytes do not fit them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import and_
from typing import cast

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from lakehouse.formats.codec.registered import NO_SCHEMAS, WriterSchemas
from lakehouse.formats.decode import deleted_ms, part_decoder, row_or_unfit
from lakehouse.plan.expression.schema import Column as PlanColumn
from lakehouse.plan.names.record_format import parse_format
from lakehouse.spark.expression.arrow_functions import over_arrow


@dataclass(frozen=True)
class Part(ABC):
    """The key or the value of a source's records.

    It is read in two steps. `read`, `is_missing` and `is_broken` read the bytes, over bronze's rows. All else is over
    the frame of `decode_records`, which has their results under the names in `bronze_columns`: Spark copies the columns
    of a frame from step to step, and the bytes are most of a record. The raw bytes stay available as `_raw_<name>`.

    name: `key` or `value`. format: see `lakehouse.formats`. columns: those that the source declares. schemas: of those
    who wrote the topic's records, for a registered format.
    """

    name: str
    format: str
    columns: tuple[PlanColumn, ...]
    schemas: WriterSchemas = NO_SCHEMAS

    @classmethod
    def can_read(cls, name: str, columns: tuple[PlanColumn, ...]) -> bool:
        """Say whether the class reads such columns of a part of this name."""
        return True

    @property
    def bronze_columns(self) -> dict[str, Column]:
        """The columns over bronze's rows that the frame keeps, by name."""
        columns_by_prefix = {"read": self.read, "no": self.is_missing, "broken": self.is_broken, "raw": self.bytes}
        return {f"_{prefix}_{self.name}": column for prefix, column in columns_by_prefix.items()}

    @property
    def bytes(self) -> Column:
        """The bytes to read, over bronze's rows."""
        return F.col(self.name)

    @property
    def format_of_bytes(self) -> str:
        """The format of these bytes, by which Python reads them."""
        return self.format

    @property
    @abstractmethod
    def read(self) -> Column:
        """The struct of the decoded columns, over bronze's rows."""

    @property
    def is_missing(self) -> Column:
        """Whether the part is null, over bronze's rows."""
        return F.col(self.name).isNull()

    @property
    def is_broken(self) -> Column:
        """Whether the bytes can't fit, as they alone show, over bronze's rows."""
        return F.lit(False)

    @property
    def separate_columns(self) -> tuple[dict[str, Column], ...]:
        """Columns by their names in the frame, which steps of their own compute, each from those before it.

        Spark would compute again for each use what one step both computes and uses.
        """
        return ()

    @property
    def is_unfit(self) -> Column:
        """Whether the bytes do not fit, if there are any, and no literal null."""
        return F.col(f"_broken_{self.name}")

    @property
    def is_null(self) -> Column:
        """Whether the part is null. A key that fits is also null if all its columns are (docs/rules.md, rule 4)."""
        if self.name != "key":
            return self._is_absent
        key_columns = self.columns[:-2] if parse_format(self.format).window is not None else self.columns
        is_empty = reduce(and_, [self.column(column.name).isNull() for column in key_columns])
        return self._is_absent | (~self.is_unfit & is_empty)

    @property
    def is_bad(self) -> Column:
        """Whether the part is not null, and does not fit."""
        return ~self._is_absent & self.is_unfit

    @property
    def _is_absent(self) -> Column:
        return F.col(f"_no_{self.name}")

    @property
    def deleted_ms(self) -> Column:
        """The time of a delete that has one of its own, in milliseconds; null for others, and for times that can't be.

        Only for a change log whose source says that it times deletes.
        """
        return python_delete_times(self)(F.when(self.is_null, F.col(f"_raw_{self.name}")))

    def column(self, name: str) -> Column:
        """Return one of the declared columns."""
        return self.struct[name]

    @property
    def struct(self) -> Column:
        return F.col(f"_read_{self.name}")

    @property
    def text(self) -> Column:
        """The bytes as text, whether they are valid text or not."""
        return F.col(f"_raw_{self.name}").cast("string")

    @cached_property
    def type(self) -> StructType:
        """The type of the struct, without the field that reports bytes that do not fit."""
        return cast(StructType, StructType.fromDDL(", ".join(f"`{c.name}` {c.type}" for c in self.columns)))


def python_delete_times(part: Part) -> Callable[[Column], Column]:
    """Return a function of a column of bytes that gives the times of deletes, by the rule: see `Part.deleted_ms`."""
    format_name, schemas = part.format, part.schemas

    def times(batch: pa.Array) -> pa.Array:
        if batch.null_count == len(batch):
            return pa.nulls(len(batch), pa.int64())
        return pa.array([deleted_ms(format_name, data, schemas) for data in batch.to_pylist()], type=pa.int64())

    return over_arrow(times, "bigint")


def python_decoder(part: Part) -> Callable[[Column], Column]:
    """Return a function that decodes a column of bytes in Python, by the rule itself, in Arrow batches.

    It gives a struct of the part's columns and `_unfit`, the reason why the bytes do not fit.
    """
    result_type = StructType(list(part.type)).add("_unfit", "string")
    arrow_type = pa.struct(list(to_arrow_schema(result_type, timezone="UTC")))
    part_name, format_name, columns, schemas = part.name, part.format_of_bytes, part.columns, part.schemas

    def decode(batch: pa.Array) -> pa.Array:
        decode_bytes = part_decoder(part_name, format_name, columns, schemas)
        return pa.array([row_or_unfit(decode_bytes, data) for data in batch.to_pylist()], type=arrow_type)

    return over_arrow(decode, result_type)


@dataclass(frozen=True)
class PythonPart(Part):
    """A part in a format for which Spark has no function: Python reads it."""

    @property
    def read(self) -> Column:
        return python_decoder(self)(F.col(self.name))

    @property
    def is_unfit(self) -> Column:
        return self.struct["_unfit"].isNotNull()

    @property
    def is_null(self) -> Column:
        """Whether the part is null, or its bytes mean a null, such as JSON's or a database's delete."""
        return super().is_null | self.struct.isNull()
