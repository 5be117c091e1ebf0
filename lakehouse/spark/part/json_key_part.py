"""A JSON key of one column on Spark: an object with a field of that name, or the value alone.

The fast form of `lakehouse.formats.values.json_key` for a column that is no struct, array or map. A property test
compares both.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

from lakehouse.plan.expression.schema import NESTED_TYPES, base_type
from lakehouse.plan.expression.schema import Column as PlanColumn
from lakehouse.spark.part.json_part import JsonPart

# A text in quotes, without its escapes, or a word: one JSON value that can't add another field to an object.
ONE_VALUE = r'^[ \t\r\n]*(?:"[^"]*"|[^\s"{}\[\],:\\]+)[ \t\r\n]*$'


@dataclass(frozen=True)
class JsonKeyPart(JsonPart):
    """A key of one column: a JSON object, or the column's value alone, which gets an object around it."""

    @classmethod
    def can_read(cls, name: str, columns: tuple[PlanColumn, ...]) -> bool:
        return name == "key" and len(columns) == 1 and base_type(columns[0].type) not in NESTED_TYPES

    @property
    def bytes(self) -> Column:
        text = super().bytes.cast("string")
        plain_text = F.replace(F.replace(text, F.lit("\\\\"), F.lit("")), F.lit('\\"'), F.lit(""))
        object_start = f"{{{json.dumps(self.columns[0].in_topic.name, ensure_ascii=False)}:"
        object_bytes = F.concat(F.lit(object_start), text, F.lit("}")).cast("binary")
        # Most keys are objects: then Spark evaluates nothing else.
        return (
            F.when(text.endswith("}"), super().bytes)
            .when(plain_text.rlike(ONE_VALUE), object_bytes)
            .otherwise(super().bytes)
        )
