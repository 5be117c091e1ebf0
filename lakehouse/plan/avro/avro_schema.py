"""An Avro schema, parsed. Source: https://avro.apache.org/docs/1.12.0/specification/.

Only what says how bytes are read is kept: no defaults, aliases or docs, for a record is read with its writer's schema.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from lakehouse.plan.refused.unfit_schema import RecursiveSchema, UnfitSchema

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
# The logical types that mean something here, by the types that they stand for; all others are ignored, as Avro asks.
LOGICAL_TYPES = {
    "date": ("int",),
    "time-millis": ("int",),
    "time-micros": ("long",),
    "timestamp-millis": ("long",),
    "timestamp-micros": ("long",),
    "timestamp-nanos": ("long",),
    "local-timestamp-millis": ("long",),
    "local-timestamp-micros": ("long",),
    "local-timestamp-nanos": ("long",),
    "decimal": ("bytes", "fixed"),
    "uuid": ("string", "fixed"),
}
# Debezium's types that Avro has no logical type for: (the type, the name here) by "connect.name".
ISO_TIMESTAMP, ISO_DATE = "iso-timestamp", "iso-date"
CONNECT_TYPES = {
    "io.debezium.time.Date": ("int", "date"),
    "io.debezium.time.Time": ("int", "time-millis"),
    "io.debezium.time.MicroTime": ("long", "time-micros"),
    "io.debezium.time.Timestamp": ("long", "timestamp-millis"),
    "io.debezium.time.MicroTimestamp": ("long", "timestamp-micros"),
    "io.debezium.time.NanoTimestamp": ("long", "timestamp-nanos"),
    "io.debezium.time.ZonedTimestamp": ("string", ISO_TIMESTAMP),
    "io.debezium.time.IsoTimestamp": ("string", ISO_TIMESTAMP),
    "io.debezium.time.IsoDate": ("string", ISO_DATE),
}
REGISTRY_KIND = "AVRO"  # as registries call schemas of Avro
DEPTH_MAX, TYPES_MAX = 64, 10_000


@dataclass(frozen=True, slots=True)
class AvroType:
    """A type. kind: a primitive, or "record", "enum", "array", "map", "fixed", "union".

    name: the full name of a record, an enum or a fixed. logical: of `LOGICAL_TYPES` or `CONNECT_TYPES`, or empty.
    precision, scale: of a decimal. size: of a fixed, in bytes. symbols: of an enum. fields: the names of a record's
    fields. parts: the types of its fields, of an array's items, of a map's values, or the branches of a union.
    """

    kind: str
    name: str = ""
    logical: str = ""
    precision: int = 0
    scale: int = 0
    size: int = 0
    symbols: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    parts: tuple[AvroType, ...] = ()

    @property
    def branches(self) -> tuple[AvroType, ...]:
        """The types that a value can have beside null: those of a union, or the type itself."""
        branches = self.parts if self.kind == "union" else (self,)
        return tuple(branch for branch in branches if branch.kind != "null")

    @property
    def may_be_null(self) -> bool:
        """Whether a value can be null."""
        return len(self.branches) < (len(self.parts) if self.kind == "union" else 1)

    @property
    def has_no_bytes(self) -> bool:
        """Whether all its values are written with no byte at all, so that bytes do not limit how many there can be."""
        if self.kind == "record":
            return all(part.has_no_bytes for part in self.parts)
        return self.kind == "null" or (self.kind == "fixed" and self.size == 0)

    def field(self, name: str) -> AvroType | None:
        """Return the type of a record's field; None if it has none of that name."""
        return self.parts[self.fields.index(name)] if name in self.fields else None

    def __str__(self) -> str:
        if self.logical == "decimal":
            return f"decimal({self.precision}, {self.scale})"
        if self.logical:
            return f"{self.kind} ({self.logical})"
        match self.kind:
            case "union":
                return f"union of {', '.join(map(str, self.parts))}"
            case "array" | "map":
                return f"{self.kind} of {self.parts[0]}"
            case "record" | "enum" | "fixed":
                return f"{self.kind} {self.name}"
        return self.kind


@lru_cache(maxsize=1024)
def parse_avro(text: str, references: tuple[str, ...] = ()) -> AvroType:
    """Return the type of a schema's text. references: the texts of schemas whose names it uses, first those without.

    Raises UnfitSchema.
    """
    parser = _Parser()
    try:
        for reference in references:
            parser.parse(json.loads(reference), "", 0)
        return parser.parse(json.loads(text), "", 0)
    except RecursionError as error:
        raise UnfitSchema("nested too deeply") from error
    except ValueError as error:
        if isinstance(error, UnfitSchema):
            raise
        raise UnfitSchema(f"no JSON: {error}") from error


class _Parser:
    """The names that were defined so far, across references. None stands for one whose definition is not complete.

    Types are counted as often as they are used: a name that is used twice in a name that is used twice, 60 times over,
    is a short text.
    """

    def __init__(self) -> None:
        self._types: dict[str, AvroType | None] = {}
        self._counts: dict[str, int] = {}
        self._count = 0

    def parse(self, node: Any, namespace: str, depth: int) -> AvroType:
        self._count_types(1)
        if depth > DEPTH_MAX:
            raise UnfitSchema(f"nested more than {DEPTH_MAX} deep")
        match node:
            case str():
                return self._by_name(node, namespace)
            case list():
                return _union(tuple(self.parse(branch, namespace, depth + 1) for branch in node))
            case Mapping():
                return self._definition(node, namespace, depth)
        raise UnfitSchema(f"expected a type, found {json.dumps(node)[:80]}")

    def _by_name(self, name: str, namespace: str) -> AvroType:
        if name in PRIMITIVES:
            return AvroType(name)
        full_name = _full_name(name, namespace)
        if full_name not in self._types and name in self._types:
            full_name = name  # of no namespace: Avro in Java refers to it so inside of one
        if full_name not in self._types:
            raise UnfitSchema(f"the type {full_name!r} is not defined")
        if (known_type := self._types[full_name]) is None:
            raise RecursiveSchema(f"{full_name!r} is a part of itself, which no table's type can be")
        self._count_types(self._counts[full_name])
        return known_type

    def _count_types(self, count: int) -> None:
        self._count += count
        if self._count > TYPES_MAX:
            raise UnfitSchema(f"it has more than {TYPES_MAX} types in it")

    def _definition(self, node: Mapping[str, Any], namespace: str, depth: int) -> AvroType:
        kind = node.get("type")
        if not isinstance(kind, str):
            return self.parse(kind, namespace, depth + 1)
        match kind:
            case "array" | "map":
                part = self.parse(node.get("items" if kind == "array" else "values"), namespace, depth + 1)
                if kind == "array" and part.has_no_bytes:
                    raise UnfitSchema(f"an array of {part}: its items have no bytes, so that 2 bytes can be billions")
                return AvroType(kind, parts=(part,))
            case "record" | "error" | "enum" | "fixed":
                return self._named(node, "record" if kind == "error" else kind, namespace, depth)
        return _with_logical(self._by_name(kind, namespace), node)

    def _named(self, node: Mapping[str, Any], kind: str, namespace: str, depth: int) -> AvroType:
        name = node.get("name")
        if not isinstance(name, str) or not name:
            raise UnfitSchema(f"a {kind} without a name")
        own_namespace = node.get("namespace", namespace)
        full_name = _full_name(name, own_namespace if isinstance(own_namespace, str) else namespace)
        _check_utf8([full_name, *_own_names(node)])
        if full_name in self._types:
            raise UnfitSchema(f"{full_name!r} is defined twice")
        self._types[full_name] = None
        count_before = self._count
        if kind == "record":
            named_type = self._record(node, full_name, depth)
        elif kind == "enum":
            symbols = node.get("symbols")
            if not isinstance(symbols, list) or not all(isinstance(symbol, str) for symbol in symbols):
                raise UnfitSchema(f"enum {full_name}: expected a list of symbols")
            named_type = AvroType(kind, full_name, symbols=tuple(symbols))
        else:
            size = node.get("size")
            if not isinstance(size, int) or isinstance(size, bool) or size < 0:
                raise UnfitSchema(f"fixed {full_name}: expected a size")
            named_type = _with_logical(AvroType(kind, full_name, size=size), node)
        self._types[full_name] = named_type
        self._counts[full_name] = self._count - count_before
        return named_type

    def _record(self, node: Mapping[str, Any], full_name: str, depth: int) -> AvroType:
        fields = node.get("fields")
        if not isinstance(fields, list) or not all(
            isinstance(field, Mapping) and isinstance(field.get("name"), str) for field in fields
        ):
            raise UnfitSchema(f"record {full_name}: expected a list of fields, each with a name")
        names = tuple(field["name"] for field in fields)
        if len(set(names)) < len(names):
            raise UnfitSchema(f"record {full_name}: a field is defined twice")
        parts = tuple(self.parse(field.get("type"), full_name.rpartition(".")[0], depth + 1) for field in fields)
        return AvroType("record", full_name, fields=names, parts=parts)


def _own_names(node: Mapping[str, Any]) -> list[str]:
    """Return the names of a record's fields, and the symbols of an enum."""
    symbols, fields = node.get("symbols"), node.get("fields")
    names = [field.get("name") for field in fields if isinstance(field, Mapping)] if isinstance(fields, list) else []
    return [name for name in [*names, *(symbols if isinstance(symbols, list) else [])] if isinstance(name, str)]


def _check_utf8(names: list[str]) -> None:
    """Raise UnfitSchema for a name that nobody can write: an escape in JSON may be half of a surrogate pair."""
    for name in names:
        try:
            name.encode()
        except UnicodeEncodeError as error:
            raise UnfitSchema(f"{name!r} is no name: it has half of a surrogate pair") from error


def _full_name(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _union(branches: tuple[AvroType, ...]) -> AvroType:
    if not branches or any(branch.kind == "union" for branch in branches):
        raise UnfitSchema("a union has branches, and none of them is a union")
    return AvroType("union", parts=branches)


def _with_logical(plain_type: AvroType, node: Mapping[str, Any]) -> AvroType:
    """Return a type with its logical type; without it where it is unknown or impossible, as Avro's own readers do."""
    logical = node.get("logicalType")
    kind, connect_logical = CONNECT_TYPES.get(str(node.get("connect.name")), ("", ""))
    if kind == plain_type.kind:
        return replace(plain_type, logical=connect_logical)
    if not isinstance(logical, str) or plain_type.kind not in LOGICAL_TYPES.get(logical, ()):
        return plain_type
    if logical != "decimal":
        return replace(plain_type, logical=logical)
    precision, scale = node.get("precision"), node.get("scale", 0)
    if type(precision) is not int or type(scale) is not int or not 0 <= scale <= precision or precision < 1:
        return plain_type
    return replace(plain_type, logical=logical, precision=precision, scale=scale)
