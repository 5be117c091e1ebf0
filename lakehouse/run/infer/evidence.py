"""The values of a sample, counted by kind for each field of JSON, and the type that fits them.

A type is proposed if at least `MOSTLY` of a field's values fit it; the others would go to the quarantine. Without such
a type the column is a string, which takes any JSON as text.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from lakehouse.formats.decode import decode_columns
from lakehouse.formats.values.json_text import JsonNumber, Members, write_parsed
from lakehouse.formats.values.unfit import Unfit, clip_text
from lakehouse.plan.expression.schema import Column
from lakehouse.semantics.surrogates import replace_surrogates

MOSTLY = 0.95
DEPTH_MAX = 12  # what lies deeper stays text
FIELDS_MAX = 200  # an object with more names is a map
SCALE_MAX = 4  # numbers with more digits after the point are measured, not counted: doubles
DIGITS_MAX = 18
PRECISION_MAX = 38
BIGINT_MAX = 2**63
# A number of milliseconds since 1970, in the years 2000 to 2100.
MILLIS = range(946_684_800_000, 4_102_444_800_000)
_NUMBER = re.compile(r"-?([0-9]+)(?:\.([0-9]+))?([eE].*)?")
_LIKE_TIME = re.compile(r"\s*[+-]?[0-9]{4,6}-[0-9]{1,2}.*|\s*[0-9]{8}[Tt].*", re.DOTALL)
_DATE = re.compile(r"\s*[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}\s*")
_TIME_COLUMN = (Column("v", "timestamp"),)


@dataclass(frozen=True, slots=True)
class FieldType:
    """The proposed type of a field: a type of Spark SQL, with the names of the topic's fields.

    name: "bigint", "struct", "array", "map". members: of a struct, by the topic's names. inner: of an array's items or
    a map's values.
    """

    name: str
    members: tuple[tuple[str, FieldType], ...] = ()
    inner: FieldType | None = None

    @property
    def text(self) -> str:
        """The type as people read it."""
        if self.members:
            return f"struct<{', '.join(f'{name}: {member.text}' for name, member in self.members)}>"
        if self.inner is None:
            return self.name
        return f"{'array<' if self.name == 'array' else 'map<string, '}{self.inner.text}>"


@dataclass(slots=True)
class Evidence:
    """The counts of the values of one field. kinds: null, boolean, number, text, object, array."""

    kinds: Counter[str] = field(default_factory=Counter)
    fractions: int = 0
    inexact: int = 0  # with an exponent, or NaN
    beyond_bigint: int = 0
    millis: int = 0
    digits_before: int = 1
    digits_after: int = 0
    dates: int = 0
    times: int = 0
    fields: dict[str, Evidence] = field(default_factory=dict)
    items: Evidence | None = None
    examples: dict[str, str] = field(default_factory=dict)  # the first value of each kind, and of times

    @property
    def values(self) -> int:
        """The number of values that are not null."""
        return self.kinds.total() - self.kinds["null"]

    def add(self, value: Any, depth: int = 0) -> None:
        """Take in a value of parsed JSON."""
        kind = _kind_of(value, depth)
        self.kinds[kind] += 1
        self._keep_example(kind, value)
        match kind:
            case "number":
                self._add_number(str(value))
            case "object":
                for name, member in dict(value).items():
                    if name in self.fields or (len(self.fields) <= FIELDS_MAX and _can_be_written(name)):
                        self.fields.setdefault(name, Evidence()).add(member, depth + 1)
            case "array":
                self.items = self.items or Evidence()
                for item in value:
                    self.items.add(item, depth + 1)
            case "text" if isinstance(value, str) and _LIKE_TIME.fullmatch(value) and _is_time(value):
                self._keep_example("time", value)
                self.dates += bool(_DATE.fullmatch(value))
                self.times += not _DATE.fullmatch(value)

    def _keep_example(self, kind: str, value: Any) -> None:
        if kind not in self.examples:
            self.examples[kind] = replace_surrogates(clip_text(value if type(value) is str else write_parsed(value)))

    @property
    def example(self) -> str:
        """The first value of the kind that most values have; a time where most are times."""
        kind = "time" if self.type().name in ("date", "timestamp") else self._most_common_kind()[0]
        return self.examples.get(kind, "")

    def _add_number(self, text: str) -> None:
        parts = _NUMBER.fullmatch(text)
        if parts is None or parts[3]:
            self.inexact += 1
            return
        before, after = parts[1], parts[2] or ""
        self.digits_before = max(self.digits_before, len(before))
        self.digits_after = max(self.digits_after, len(after))
        self.fractions += bool(after)
        if not after:
            self.beyond_bigint += len(before) > DIGITS_MAX and abs(int(text)) >= BIGINT_MAX
            self.millis += len(before) <= DIGITS_MAX and int(text) in MILLIS

    def type(self) -> FieldType:
        """Return the type that fits most values."""
        kind, count = self._most_common_kind()
        if not count or count < MOSTLY * self.values:
            return FieldType("string")
        match kind:
            case "boolean":
                return FieldType("boolean")
            case "number":
                return FieldType(self._number_type())
            case "object":
                return self._object_type()
            case "array":
                item_type = FieldType("string") if self.items is None else self.items.type()
                return FieldType("array", inner=item_type)
        if self.dates + self.times < MOSTLY * count:
            return FieldType("string")
        return FieldType("timestamp" if self.times else "date")  # as a date, a timestamp would lose its time

    def _most_common_kind(self) -> tuple[str, int]:
        kinds = [(kind, count) for kind, count in self.kinds.most_common() if kind != "null"]
        return kinds[0] if kinds else ("", 0)

    def _number_type(self) -> str:
        digits = self.digits_before + self.digits_after
        is_exact = self.kinds["number"] - self.inexact >= MOSTLY * self.kinds["number"]
        if not is_exact or self.digits_after > SCALE_MAX or (self.fractions and digits > PRECISION_MAX):
            return "double"
        if self.fractions:
            return f"decimal({min(max(10, digits + 2), PRECISION_MAX)}, {self.digits_after})"
        return "decimal(38, 0)" if self.beyond_bigint else "bigint"

    def _object_type(self) -> FieldType:
        objects = self.kinds["object"]
        # Names that come and go are keys of a map: none is in half of the objects.
        is_map = len(self.fields) > FIELDS_MAX or (
            len(self.fields) > 8 and all(member.kinds.total() < objects / 2 for member in self.fields.values())
        )
        if not is_map and self.fields:
            return FieldType("struct", tuple((name, member.type()) for name, member in self.fields.items()))
        value_types = {member.type() for member in self.fields.values()}
        return FieldType("map", inner=value_types.pop() if len(value_types) == 1 else FieldType("string"))

    def text(self, type: FieldType, records: int) -> str:
        """Return the counts that speak for a type, for people. records: how many records could have the field."""
        parts = [f"in {self.kinds.total():,} of {records:,}"] if self.kinds.total() != records else []
        kinds = [f"{count:,} {_count_text(kind, count)}" for kind, count in self.kinds.most_common()]
        parts.append(", ".join(kinds))
        if self.dates or self.times:
            parts.append(f"{self.dates + self.times:,} of {self.kinds['text']:,} texts are ISO times")
        if self.kinds["number"] and type.name.startswith("decimal"):
            parts.append(f"up to {self.digits_before} digits before the point and {self.digits_after} after it")
        if self.millis and self.millis >= MOSTLY * self.values:
            parts.append("as milliseconds since 1970 they lie between 2000 and 2100")
        return "; ".join(parts)


def _kind_of(value: Any, depth: int) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case JsonNumber() | float():
            return "number"
        case Members() if depth < DEPTH_MAX:
            return "object"
        case list() if depth < DEPTH_MAX:
            return "array"
    return "text"


def _can_be_written(name: str) -> bool:
    """Say whether a declaration can have a name: half of a surrogate pair has no bytes."""
    return name.isascii() or not any("\ud800" <= character <= "\udfff" for character in name)


def _count_text(kind: str, count: int) -> str:
    return kind if count == 1 or kind == "null" else f"{kind}s"


def _is_time(text: str) -> bool:
    """Say whether lakehouse reads a text as a timestamp."""
    data = write_parsed(Members([("v", text)])).encode(errors="replace")
    try:
        return decode_columns("json", _TIME_COLUMN, data) is not None
    except Unfit:
        return False
