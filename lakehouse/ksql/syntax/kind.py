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

NUMBERS = ("INTEGER", "BIGINT", "DECIMAL", "DOUBLE")  # each fits into those after it
MOMENTS = ("DATE", "TIME", "TIMESTAMP")
SPARK = {
    "BOOLEAN": "boolean", "INTEGER": "int", "BIGINT": "bigint", "DOUBLE": "double", "STRING": "string",
    "BYTES": "binary", "DATE": "date", "TIME": "int", "TIMESTAMP": "timestamp", "NULL": "string",
}  # fmt: skip
OTHER_NAMES = {"INT": "INTEGER", "VARCHAR": "STRING", "DEC": "DECIMAL"}
# What a value of the type is on the way in and out, in JSON and in delimited text.
ON_THE_WAY = {"DATE": "int", "TIMESTAMP": "bigint"}
DIGITS_MAX = 38


@dataclass(frozen=True, slots=True)
class Kind:
    """A type: its name; its digits, or the types inside it; the names of a struct's fields."""

    name: str
    inner: tuple[Kind, ...] = ()
    digits: tuple[int, int] = (0, 0)
    names: tuple[str, ...] = ()

    @property
    def spark(self) -> str:
        """The type in Spark SQL."""
        return self._text(SPARK, lambda of: of.spark)

    @property
    def on_the_way(self) -> str:
        """The type in Spark SQL of what is read and written: a moment is a number there."""
        return self._text({**SPARK, **ON_THE_WAY}, lambda of: of.on_the_way)

    def _text(self, names: dict[str, str], text: object) -> str:
        inner = [text(of) for of in self.inner]  # type: ignore[operator]
        match self.name:
            case "DECIMAL":
                return f"decimal({self.digits[0]}, {self.digits[1]})"
            case "ARRAY" | "MAP":
                return f"{self.name.lower()}<{', '.join(inner)}>"
            case "STRUCT":
                return f"struct<{', '.join(f'{n}: {t}' for n, t in zip(self.names, inner, strict=True))}>"
        return names[self.name]

    def __str__(self) -> str:
        match self.name:
            case "STRING":
                return "VARCHAR(STRING)"
            case "DECIMAL":
                return f"DECIMAL({self.digits[0]}, {self.digits[1]})"
            case "ARRAY" | "MAP":
                return f"{self.name}<{', '.join(map(str, self.inner))}>"
            case "STRUCT":
                names = map(field_name, self.names)
                return f"STRUCT<{', '.join(f'{n} {t}' for n, t in zip(names, self.inner, strict=True))}>"
        return self.name

    @property
    def size(self) -> int:
        """How many types it is made of, with itself."""
        return 1 + sum(one.size for one in self.inner)

    @property
    def is_number(self) -> bool:
        return self.name in NUMBERS

    @property
    def is_whole(self) -> bool:
        return self.name in ("INTEGER", "BIGINT")

    @property
    def is_null(self) -> bool:
        return self.name == "NULL"


BOOLEAN, INTEGER, BIGINT, DOUBLE, STRING, BYTES, DATE, TIME, TIMESTAMP, NULL = map(
    Kind, ("BOOLEAN", "INTEGER", "BIGINT", "DOUBLE", "STRING", "BYTES", "DATE", "TIME", "TIMESTAMP", "NULL")
)


def decimal(precision: int, scale: int) -> Kind:
    """Return DECIMAL(precision, scale), cut to what fits."""
    return Kind("DECIMAL", digits=(min(precision, DIGITS_MAX), min(scale, DIGITS_MAX)))


def array(of: Kind) -> Kind:
    """Return ARRAY<of>."""
    return Kind("ARRAY", (of,))


def map_of(key: Kind, value: Kind) -> Kind:
    """Return MAP<key, value>."""
    return Kind("MAP", (key, value))


def struct(members: dict[str, Kind]) -> Kind:
    """Return a STRUCT with these fields."""
    return Kind("STRUCT", tuple(members.values()), names=tuple(members))


def as_decimal(of: Kind) -> Kind:
    """Return the DECIMAL that a whole number is in arithmetic with one."""
    return of if of.name == "DECIMAL" else decimal(10 if of.name == "INTEGER" else 19, 0)


def common(kinds: list[Kind]) -> Kind | None:
    """Return the type that values of all these have together; None if there is none."""
    known = list(dict.fromkeys(of for of in kinds if not of.is_null))
    if len(known) <= 1:
        return known[0] if known else NULL
    if all(of.is_number for of in known):
        widest = max(known, key=lambda of: NUMBERS.index(of.name))
        if widest.name != "DECIMAL":
            return widest
        parts = [as_decimal(of).digits for of in known]
        scale = max(s for _, s in parts)
        return decimal(max(p - s for p, s in parts) + scale, scale)
    if {of.name for of in known} == {"ARRAY"} and (inner := common([of.inner[0] for of in known])) is not None:
        return array(inner)
    return None
