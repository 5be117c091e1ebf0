"""Changes between two schemas of a subject that a registry does not see: the same bytes get another meaning.

A registry lets decimal(14, 4) follow decimal(12, 2), and a text follow a decimal, since the types below are the same. A
reader of older records by the newer schema, as Avro resolves them, then gets other numbers without an error.
"""

from __future__ import annotations

from collections.abc import Iterator

from lakehouse.plan.avro.avro_schema import AvroType


def changes_of_meaning(earlier: AvroType, later: AvroType, path: str = "") -> Iterator[str]:
    """Yield the fields, by their path, whose values mean something else in a later schema, with both types."""
    if len(earlier.branches) != 1 or len(later.branches) != 1:
        return
    (own_earlier,), (own_later,) = earlier.branches, later.branches
    if _meaning(own_earlier) != _meaning(own_later) or own_later.precision < own_earlier.precision:
        yield f"{path or 'the value'}: {own_earlier}, then {own_later}"
    elif own_earlier.kind == own_later.kind == "record":
        for name, part in zip(own_later.fields, own_later.parts, strict=True):
            if (earlier_part := own_earlier.field(name)) is not None:
                yield from changes_of_meaning(earlier_part, part, f"{path}.{name}".removeprefix("."))
    elif own_earlier.kind == own_later.kind and own_later.kind in ("array", "map"):
        yield from changes_of_meaning(own_earlier.parts[0], own_later.parts[0], path)


def _meaning(avro_type: AvroType) -> tuple[str, int]:
    return avro_type.logical, avro_type.scale
