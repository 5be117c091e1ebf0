"""The numbers of the fields under which columns are written: a field keeps its number as long as it has its name.

They stand in a format's options, so that whoever writes by it needs no schema: "city:1,home.zip:3,#:2,#:old". A path
that ends in "#" is of what nobody may use again in that message: a number, a range ("20-30"), or a name. Where the
numbers of a message are 1, 2, 3 and so on, and nothing is reserved, nothing stands there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lakehouse.errors import PlanError
from lakehouse.plan.expression.schema import base_type, field_types, item_type
from lakehouse.plan.protobuf.proto_schema import MessageType, ProtoSchema

RESERVED = "#"
_NUMBER_MAX = (1 << 29) - 1
_OWN_NUMBERS = (19_000, 19_999)  # for Protobuf itself


@dataclass(frozen=True, slots=True)
class ProtoNumbers:
    """Numbers by the fields' paths, and what is reserved by the messages' ("" is the row's own; others end in ".")."""

    by_path: Mapping[str, int]
    reserved: Mapping[str, tuple[str, ...]]

    def number_of(self, path: str, place: int) -> int:
        """Return the number of a field, which is the one at this place of its message."""
        return self.by_path.get(path, place + 1)


def parse_numbers(text: str) -> ProtoNumbers:
    """Return the numbers in a format's options."""
    by_path: dict[str, int] = {}
    reserved: dict[str, tuple[str, ...]] = {}
    for pair in text.split(",") if text else ():
        path, _, value = pair.rpartition(":")
        if path.endswith(RESERVED):
            path = path.removesuffix(RESERVED)
            reserved[path] = (*reserved.get(path, ()), value)
        else:
            by_path[path] = int(value)
    return ProtoNumbers(by_path, reserved)


def numbers_after(latest: ProtoSchema, types_by_name: Mapping[str, str]) -> str:
    """Return the numbers for the fields of columns, as options have them, where a schema comes before.

    A field of the same name keeps its number, a new field gets an unused number, and the numbers and names of removed
    fields are reserved. Raises PlanError if no number is left.
    """
    return ",".join(_pairs(latest, latest.message(), types_by_name, "")) if latest.tops else ""


def _pairs(schema: ProtoSchema, latest: MessageType, types_by_name: Mapping[str, str], path: str) -> Iterator[str]:
    gone = [field for field in latest.fields if field.name not in types_by_name]
    ranges = [*latest.reserved_numbers, *((field.number, field.number) for field in gone)]
    names = [*latest.reserved_names, *(field.name for field in gone)]
    used = [field.number for field in latest.fields]
    numbers: dict[str, int] = {}
    for name in types_by_name:
        field = latest.field(name)
        numbers[name] = field.number if field is not None else _next_number(used, ranges)
        used.append(numbers[name])
    reserved = [f"{first}-{last}" if last > first else str(first) for first, last in sorted(set(ranges))]
    reserved += sorted({name for name in names if name not in types_by_name})
    if reserved or list(numbers.values()) != list(range(1, len(numbers) + 1)):
        yield from (f"{path}{name}:{number}" for name, number in numbers.items())
        yield from (f"{path}{RESERVED}:{item}" for item in reserved)
    for name, declared_type in types_by_name.items():
        field, members = latest.field(name), struct_members(declared_type)
        if members is None or field is None or field.kind != "message":
            continue
        entry = schema.map_entry(field)
        value = field if entry is None else entry.fields[1]
        if value.kind == "message":
            yield from _pairs(schema, schema.message_of(value), members, f"{path}{name}.")


def struct_members(declared_type: str) -> dict[str, str] | None:
    """Return the fields of a struct, or of those in an array or a map; None if there is none."""
    match base_type(declared_type):
        case "struct":
            return field_types(declared_type)
        case "array" | "map":
            return struct_members(item_type(declared_type))
    return None


def _next_number(used: list[int], ranges: list[tuple[int, int]]) -> int:
    number = max(used, default=0) + 1
    while last_numbers := [last for first, last in (*ranges, _OWN_NUMBERS) if first <= number <= last]:
        number = max(last_numbers) + 1
    if number > _NUMBER_MAX:
        raise PlanError(
            f"the subject's newest schema has a field with the number {_NUMBER_MAX}: no number is left for a new field."
            " Write another topic."
        )
    return number
