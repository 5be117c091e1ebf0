"""ksqlDB's types, and Spark's for them.

| ksqlDB             | here, in Spark | in JSON and in delimited text                  |
|--------------------|----------------|------------------------------------------------|
| BOOLEAN            | boolean        |                                                |
| INT, INTEGER       | int            |                                                |
| BIGINT, DOUBLE     | bigint, double |                                                |
| DECIMAL(p, s)      | decimal(p, s)  |                                                |
| VARCHAR, STRING    | string         |                                                |
| BYTES              | binary         | base64                                         |
| DATE               | date           | days since 1970, a number                      |
| TIME               | int            | milliseconds since midnight, a number          |
| TIMESTAMP          | timestamp      | milliseconds since 1970, a number              |
| ARRAY, MAP, STRUCT | the same       |                                                |
"""

from __future__ import annotations

from dataclasses import dataclass

from lakehouse.plan.names.field import field_name
from lakehouse.semantics.decimal_digits import DECIMAL_DIGITS_MAX

NUMBERS = ("INTEGER", "BIGINT", "DECIMAL", "DOUBLE")  # each fits into those after it
MOMENTS = ("DATE", "TIME", "TIMESTAMP")
SPARK = {
    "BOOLEAN": "boolean", "INTEGER": "int", "BIGINT": "bigint", "DOUBLE": "double", "STRING": "string",
    "BYTES": "binary", "DATE": "date", "TIME": "int", "TIMESTAMP": "timestamp", "NULL": "string",
}  # fmt: skip
OTHER_NAMES = {"INT": "INTEGER", "VARCHAR": "STRING", "DEC": "DECIMAL"}
_QUOTED_FIELDS = ("not", "select")  # the words that a type's text can have in backticks only
# The types of values in topics, in JSON and in delimited text, where they differ.
ON_THE_WAY = {"DATE": "int", "TIMESTAMP": "bigint"}


@dataclass(frozen=True, slots=True)
class Kind:
    """A type: its name, its digits or the types inside it, and the names of a struct's fields."""

    name: str
    inner: tuple[Kind, ...] = ()
    digits: tuple[int, int] = (0, 0)
    names: tuple[str, ...] = ()

    @property
    def spark(self) -> str:
        """The type in Spark SQL."""
        return self._text(SPARK, lambda inner_kind: inner_kind.spark)

    @property
    def wire_type(self) -> str:
        """The type in Spark SQL of values in topics: a moment is a number there."""
        return self._text({**SPARK, **ON_THE_WAY}, lambda inner_kind: inner_kind.wire_type)

    def _text(self, spark_names: dict[str, str], type_text: object) -> str:
        inner_types = [type_text(inner_kind) for inner_kind in self.inner]  # type: ignore[operator]
        match self.name:
            case "DECIMAL":
                return f"decimal({self.digits[0]}, {self.digits[1]})"
            case "ARRAY" | "MAP":
                return f"{self.name.lower()}<{', '.join(inner_types)}>"
            case "STRUCT":
                names = (f"`{name}`" if name.lower() in _QUOTED_FIELDS else name for name in self.names)
                return f"struct<{', '.join(f'{n}: {t}' for n, t in zip(names, inner_types, strict=True))}>"
        return spark_names[self.name]

    def __str__(self) -> str:
        match self.name:
            case "STRING":
                return "VARCHAR(STRING)"
            case "DECIMAL":
                return f"DECIMAL({self.digits[0]}, {self.digits[1]})"
            case "ARRAY" | "MAP":
                return f"{self.name}<{', '.join(map(str, self.inner))}>"
            case "STRUCT":
                field_titles = map(field_name, self.names)
                return f"STRUCT<{', '.join(f'{n} {t}' for n, t in zip(field_titles, self.inner, strict=True))}>"
        return self.name

    @property
    def size(self) -> int:
        """The number of types that it consists of, itself included."""
        return 1 + sum(inner_kind.size for inner_kind in self.inner)

    @property
    def is_number(self) -> bool:
        return self.name in NUMBERS

    @property
    def is_whole(self) -> bool:
        return self.name in ("INTEGER", "BIGINT")

    @property
    def is_null(self) -> bool:
        return self.name == "NULL"

    @property
    def has_null(self) -> bool:
        """True if it is NULL's type, or contains it, so that a column can't have it."""
        return self.is_null or any(inner_kind.has_null for inner_kind in self.inner)


BOOLEAN, INTEGER, BIGINT, DOUBLE, STRING, BYTES, DATE, TIME, TIMESTAMP, NULL = map(
    Kind, ("BOOLEAN", "INTEGER", "BIGINT", "DOUBLE", "STRING", "BYTES", "DATE", "TIME", "TIMESTAMP", "NULL")
)


def decimal_of(precision: int, scale: int) -> Kind:
    """Return DECIMAL(precision, scale), cut to Spark's limits."""
    return Kind("DECIMAL", digits=(min(precision, DECIMAL_DIGITS_MAX), min(scale, DECIMAL_DIGITS_MAX)))


def array_of(element_kind: Kind) -> Kind:
    """Return ARRAY<element>."""
    return Kind("ARRAY", (element_kind,))


def map_of(key_kind: Kind, value_kind: Kind) -> Kind:
    """Return MAP<key, value>."""
    return Kind("MAP", (key_kind, value_kind))


def struct_of(members: dict[str, Kind]) -> Kind:
    """Return a STRUCT with these fields."""
    return Kind("STRUCT", tuple(members.values()), names=tuple(members))


def as_decimal(number_kind: Kind) -> Kind:
    """Return the DECIMAL that a whole number becomes in arithmetic with a DECIMAL."""
    return number_kind if number_kind.name == "DECIMAL" else decimal_of(10 if number_kind.name == "INTEGER" else 19, 0)


def common_kind(kinds: list[Kind]) -> Kind | None:
    """Return the common type of values of these types; None if there is none."""
    distinct_kinds = list(dict.fromkeys(kind for kind in kinds if not kind.is_null))
    if len(distinct_kinds) <= 1:
        return distinct_kinds[0] if distinct_kinds else NULL
    if all(kind.is_number for kind in distinct_kinds):
        widest = max(distinct_kinds, key=lambda kind: NUMBERS.index(kind.name))
        if widest.name != "DECIMAL":
            return widest
        digit_pairs = [as_decimal(kind).digits for kind in distinct_kinds]
        scale = max(scale_digits for _, scale_digits in digit_pairs)
        return decimal_of(
            max(precision_digits - scale_digits for precision_digits, scale_digits in digit_pairs) + scale, scale
        )
    if {kind.name for kind in distinct_kinds} == {"ARRAY"} and (
        element_kind := common_kind([kind.inner[0] for kind in distinct_kinds])
    ) is not None:
        return array_of(element_kind)
    return None
