"""JSON behind a registry's prefix on Spark: the fast form of `lakehouse.formats.codec.json_registered`.

The bytes after the prefix are read like JSON without a prefix. A property test compares both.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F

from lakehouse.formats.codec.json_registered import check_registered_json
from lakehouse.formats.codec.registered import ID_MAX, PREFIX_LENGTH, WriterSchemas, with_prefix
from lakehouse.formats.values.unfit import Unfit
from lakehouse.plan.names.record_format import parse_format
from lakehouse.semantics.blanks import JSON_BLANKS
from lakehouse.spark.expression.arrow_functions import over_arrow
from lakehouse.spark.part.json_key_part import JsonKeyPart
from lakehouse.spark.part.json_part import JsonAnyCasePart, JsonPart
from lakehouse.spark.part.record_part import Part

_NO_ID, _LAST_ID = with_prefix(0, b""), with_prefix(ID_MAX, b"")


class PrefixedPart(Part):
    """A part whose bytes stand behind a registry's prefix. Without a prefix they are no JSON: an empty text."""

    @property
    def bytes(self) -> Column:
        data = F.col(self.name)
        prefix = F.substring(data, 1, PREFIX_LENGTH)
        # Bytes are compared from the left, each as a number from 0 to 255.
        has_id = (F.octet_length(prefix) == PREFIX_LENGTH) & (prefix > F.lit(_NO_ID)) & (prefix <= F.lit(_LAST_ID))
        text = F.substring(data, PREFIX_LENGTH + 1, F.octet_length(data))
        return F.when(has_id, text).when(data.isNotNull(), F.lit(b""))

    @property
    def format_of_bytes(self) -> str:
        format = parse_format(self.format)
        return str(replace(format, kind=format.traits.behind_prefix, options=""))


@dataclass(frozen=True)
class PrefixedJsonPart(JsonPart, PrefixedPart):
    """A key or a value that is a JSON object behind a prefix."""


@dataclass(frozen=True)
class PrefixedJsonKeyPart(JsonKeyPart, PrefixedPart):
    """A key of one column behind a prefix: a JSON object, or the column's value alone."""


@dataclass(frozen=True)
class PrefixedJsonAnyCasePart(JsonAnyCasePart, PrefixedPart):
    """A JSON object behind a prefix, as SQL reads it."""


class ValidatedPart(PrefixedPart):
    """A part whose JSON Python also compares with the schema of its writer; Spark reads it."""

    @property
    def is_broken(self) -> Column:
        schemas = self.schemas

        def is_valid(batch: pa.Array) -> pa.Array:
            return pa.array([data is not None and _fits(data, schemas) for data in batch.to_pylist()], pa.bool_())

        return super().is_broken | ~over_arrow(is_valid, "boolean")(F.col(self.name))


def _fits(data: bytes, schemas: WriterSchemas) -> bool:
    if data[PREFIX_LENGTH:].strip(JSON_BLANKS.encode()) == b"null":  # it is no value
        return True
    try:
        check_registered_json(data, schemas)
    except Unfit:
        return False
    return True


@dataclass(frozen=True)
class ValidatedJsonPart(ValidatedPart, PrefixedJsonPart):
    """A JSON object behind a prefix that fits its writer's schema."""


@dataclass(frozen=True)
class ValidatedJsonAnyCasePart(ValidatedPart, PrefixedJsonAnyCasePart):
    """A JSON object behind a prefix, as SQL reads it, that fits its writer's schema."""


@dataclass(frozen=True)
class ValidatedJsonKeyPart(ValidatedPart, PrefixedJsonKeyPart):
    """A key of one column behind a prefix that fits its writer's schema."""
