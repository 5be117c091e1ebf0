"""An Avro schema as JSON: all of it that says how bytes are read."""

from __future__ import annotations

from typing import Any

from lakehouse.plan.avro.avro_schema import ISO_DATE, ISO_TIMESTAMP, AvroType

_CONNECT_NAMES = {ISO_TIMESTAMP: "io.debezium.time.ZonedTimestamp", ISO_DATE: "io.debezium.time.IsoDate"}


def write_avro(avro_type: AvroType) -> Any:
    """Return a type as the parsed JSON of a schema.

    A named type is defined where it comes first. A field whose type begins with null has null for its default.
    """
    return _Writer().write(avro_type)


class _Writer:
    def __init__(self) -> None:
        self._known_names: set[str] = set()

    def write(self, avro_type: AvroType, within: str = "") -> Any:
        """Return a type as JSON. within: the namespace of the record around it."""
        logical_part: dict[str, Any] = {"logicalType": avro_type.logical} if avro_type.logical else {}
        if avro_type.logical in _CONNECT_NAMES:
            logical_part = {"connect.name": _CONNECT_NAMES[avro_type.logical]}
        if avro_type.logical == "decimal":
            logical_part |= {"precision": avro_type.precision, "scale": avro_type.scale}
        match avro_type.kind:
            case "union":
                return [self.write(branch, within) for branch in avro_type.parts]
            case "array":
                return {"type": "array", "items": self.write(avro_type.parts[0], within)}
            case "map":
                return {"type": "map", "values": self.write(avro_type.parts[0], within)}
            case "record" | "enum" | "fixed":
                return self._write_named(avro_type, logical_part, within)
        return {"type": avro_type.kind, **logical_part} if logical_part else avro_type.kind

    def _write_named(self, avro_type: AvroType, logical_part: dict[str, Any], within: str) -> Any:
        if avro_type.name in self._known_names:
            return avro_type.name
        self._known_names.add(avro_type.name)
        namespace, _, own_name = avro_type.name.rpartition(".")
        head = {"type": avro_type.kind, "name": own_name} | ({"namespace": namespace} if namespace or within else {})
        match avro_type.kind:
            case "enum":
                return head | {"symbols": list(avro_type.symbols)}
            case "fixed":
                return head | {"size": avro_type.size} | logical_part
        fields = zip(avro_type.fields, avro_type.parts, strict=True)
        return head | {"fields": [self._write_field(name, part, namespace) for name, part in fields]}

    def _write_field(self, name: str, part: AvroType, within: str) -> dict[str, Any]:
        is_null_first = part.kind == "union" and part.parts[0].kind == "null"
        return {"name": name, "type": self.write(part, within)} | ({"default": None} if is_null_first else {})
