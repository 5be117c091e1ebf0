"""Checks that columns can be written: in Avro and Protobuf their names and types, in JSON the keys of maps, too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlglot import exp

from lakehouse.errors import PlanError
from lakehouse.plan.names.field import field_name, type_with_field_names
from lakehouse.plan.names.format_traits import FormatTraits
from lakehouse.plan.names.schema_options import AVRO_NAME

_TYPES = (
    "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal", "string", "binary", "date",
    "timestamp", "struct", "array", "map",
)  # fmt: skip
_LISTS = ("array", "map")


def check_writable(traits: FormatTraits, named_types: Iterable[tuple[str, str]], subject: str) -> None:
    """Raise PlanError for a column that a format's schemas can't have.

    named_types: names and types of columns; "" for a type that only Spark can tell, which is not checked. Names that
    SQL has derived from others are written as those.
    """
    columns = list(named_types)
    check_map_keys(traits, columns, subject)
    _check_json_names(traits, [field_name(name) for name, _ in columns], subject)
    _check_entry_names(traits, {field_name(name): type_text for name, type_text in columns}, subject)
    for name, type_text in columns:
        _check_name(traits, field_name(name), f"{subject}: column {field_name(name)!r}")
        if type_text:
            column_type = type_with_field_names(_parse_type(type_text))
            _check_type(traits, column_type, f"{subject}: column {field_name(name)!r}")


def check_map_keys(traits: FormatTraits, named_types: Iterable[tuple[str, str]], subject: str) -> None:
    """Raise PlanError for a map, in a column too, whose keys are no texts: see `check_writable`."""
    for name, type_text in named_types:
        for part in _parse_type(type_text).find_all(exp.DataType) if type_text else ():
            if _type_name(part) == "map" and (key_type := _type_name(part.expressions[0])) != "string":
                raise unfit_map_keys(traits, key_type, f"{subject}: column {field_name(name)!r}")


def unfit_map_keys(traits: FormatTraits, key_type: str, subject: str) -> PlanError:
    """Return the error for a map that is to be written with keys of this type."""
    return PlanError(
        f"{subject}: the keys of a map in {traits.language or 'JSON'} are texts, found {key_type}. Cast them: "
        "transform_keys(m, (k, v) -> cast(k AS string))."
    )


def map_entry_name(name: str) -> str:
    """Return the name of the message that Protobuf makes for the entries of a map, beside the map's own field."""
    return "".join(part[:1].upper() + part[1:] for part in name.split("_")) + "Entry"


def _check_name(traits: FormatTraits, name: str, subject: str) -> None:
    if not AVRO_NAME.fullmatch(name):
        raise PlanError(
            f"{subject}: a name in {traits.language} is of letters, digits and underscores, and begins with no digit. "
            "Give it another name, or write the topic in another format: JSON."
        )


def _check_json_names(traits: FormatTraits, names: list[str], subject: str) -> None:
    """Check the names of a struct's fields, or of columns."""
    names_by_json_name: dict[str, str] = {}
    for name in names if traits.has_json_names else ():
        first_part, *parts = name.split("_")
        json_name = first_part + "".join(part[:1].upper() + part[1:] for part in parts)
        if (other_name := names_by_json_name.setdefault(json_name, name)) != name:
            raise PlanError(
                f"{subject}: {other_name!r} and {name!r} have the same name in {traits.language}'s JSON, "
                f"{json_name!r}, so that nobody can read the schema. Give one of them another name, or write the topic "
                "in another format: JSON."
            )


def _check_entry_names(traits: FormatTraits, types_by_name: Mapping[str, str], subject: str) -> None:
    """Check the names that maps take beside the fields of a struct, or beside columns."""
    owners = {name: name for name in types_by_name}
    for name, type_text in types_by_name.items() if traits.has_json_names else ():
        if not type_text or _type_name(_parse_type(type_text)) != "map":
            continue
        entry_name = map_entry_name(name)
        if (other_name := owners.setdefault(entry_name, name)) != name:
            raise PlanError(
                f"{subject}: {traits.language} names the entries of the map {name!r} {entry_name!r}, which "
                f"{other_name!r} has taken, so that nobody can read the schema. Give one of them another name, or "
                "write the topic in another format: JSON."
            )


def _check_type(traits: FormatTraits, column_type: exp.DataType, subject: str) -> None:
    for part in column_type.find_all(exp.DataType):
        type_name = _type_name(part)
        if type_name not in _TYPES:
            raise PlanError(
                f"{subject}: {traits.language} has no type for {type_name}. Cast it, or write the topic in JSON."
            )
        item = part.expressions[-1] if type_name in _LISTS else None
        if traits.has_flat_items and item is not None and _type_name(item) in _LISTS:
            raise PlanError(
                f"{subject}: {traits.language} has no {_type_name(item)} in {'an' if type_name[0] == 'a' else 'a'} "
                f"{type_name}. Put it into a struct: struct<items: ...>; or write the topic in JSON."
            )
    for struct in column_type.find_all(exp.DataType):
        members = [member for member in struct.expressions if isinstance(member, exp.ColumnDef)]
        _check_json_names(traits, [member.name for member in members], subject)
        _check_entry_names(traits, {member.name: member.args["kind"].sql("spark") for member in members}, subject)
    for member in column_type.find_all(exp.ColumnDef):
        _check_name(traits, member.name, f"{subject}: field {member.name!r}")


def _parse_type(type_text: str) -> exp.DataType:
    return exp.DataType.build(type_text, dialect="spark")


def _type_name(part: exp.Expression) -> str:
    return part.sql("spark").lower().split("<")[0].split("(")[0]
