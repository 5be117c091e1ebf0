"""The traits of each kind of format that a declaration must know: its names, and the columns that it can hold.

A kind has one line in `TRAITS`. How its bytes are read and written is in its codec:
`lakehouse.formats.codec.codec_choice`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

JSON, KAFKA, ABSENT, DEBEZIUM, DEBEZIUM_AVRO = "json", "kafka", "none", "debezium", "debezium_avro"
DELIMITED = "delimited"


@dataclass(frozen=True, slots=True)
class FormatTraits:
    """The traits of a kind of format. name: of the kind, the first part of a format's name.

    aliases: other names for it in a declaration. is_declared: whether a declaration can name it; SQL derives the others
    from those. is_absent: it stands for bytes that nobody reads. is_json: its bytes are JSON text. has_field_names: the
    bytes name the fields, at least those of a struct; else fields are found by their places. is_single: it holds one
    column, whose value stands alone. has_separator, has_options: a separator, or options after a "?", may end its name.
    is_registered: its bytes have the id of their writer's schema in a registry. reads_by_schema: nobody can read them
    without that schema. has_own_schema: nobody can read them without a schema that stands in its options, or is made of
    the columns in their order. language: that of these schemas. has_flat_items: the items of an array and the values of
    a map are no arrays and no maps when it is written. has_json_names: fields have names in JSON, too, without
    underscores, and no two of a struct have the same. behind_prefix: the kind of the bytes behind that id, where they
    can be read alone. ignores_case: fields are found in any case, though the bytes are no JSON. has_moments: it has
    types of its own for dates and timestamps, which SQL writes as numbers elsewhere. has_one_spelling: equal values
    have equal bytes, but for the two zeros of a double. is_change_log: a value is a change of a database's table.
    only_types: the types of columns that it can hold; empty for all but refused_types. any_case: the kind as SQL reads
    it, names in any case; bare: the kind of one value without an object around it; empty if there is none, for SQL uses
    the kind itself. written_as: of a kind that others write and that is only read here, the kind in which SQL writes
    what it makes of such records. validated: the kind that also compares each value with its writer's schema; empty if
    there is none.
    """

    name: str
    aliases: tuple[str, ...] = ()
    is_declared: bool = False
    is_absent: bool = False
    is_json: bool = False
    has_field_names: bool = False
    is_single: bool = False
    has_separator: bool = False
    has_options: bool = False
    is_registered: bool = False
    reads_by_schema: bool = False
    has_own_schema: bool = False
    language: str = ""
    has_flat_items: bool = False
    has_json_names: bool = False
    behind_prefix: str = ""
    ignores_case: bool = False
    has_moments: bool = False
    has_one_spelling: bool = False
    is_change_log: bool = False
    only_types: tuple[str, ...] = ()
    refused_types: tuple[str, ...] = ()
    any_case: str = ""
    bare: str = ""
    written_as: str = ""
    validated: str = ""

    @property
    def is_by_name(self) -> bool:
        """Whether fields are found by their names, so that those that nothing reads make no difference."""
        return self.has_field_names and not self.is_single and not self.has_own_schema

    @property
    def needs_schema(self) -> bool:
        """Whether nobody can read the bytes without a schema, wherever that is from."""
        return self.reads_by_schema or self.has_own_schema

    @property
    def is_bare(self) -> bool:
        """Whether it is one value that could have an object around it."""
        return self.has_field_names and self.is_single

    @property
    def schema_kind(self) -> str:
        """The kind of the schemas whose columns it can take, as registries call it; empty if there are none."""
        return self.language.upper()

    @property
    def validates(self) -> bool:
        """Whether values are compared with the schemas of their writers, though they can be read without."""
        return self.is_json and self.reads_by_schema

    @property
    def wraps(self) -> bool:
        """Whether SQL may say that a single value has an object around it, or none."""
        return bool(self.bare)

    def holds(self, types: Sequence[str]) -> bool:
        """Say whether it can hold columns of these types, each as its first word: "decimal", "struct"."""
        return (len(types) == 1 or not self.is_single) and all(map(self.holds_type, types))

    def holds_type(self, type_name: str) -> bool:
        """Say whether it can hold a column of this type."""
        return type_name not in self.refused_types and (not self.only_types or type_name in self.only_types)


TRAITS = {
    traits.name: traits
    for traits in (
        FormatTraits(
            JSON, is_declared=True, is_json=True, has_field_names=True, any_case="json_any_case", bare="json_bare"
        ),
        FormatTraits("json_any_case", is_json=True, has_field_names=True),
        FormatTraits("json_bare", is_json=True, has_field_names=True, is_single=True),
        FormatTraits(
            DELIMITED, ("csv",), is_declared=True, has_separator=True, refused_types=("struct", "array", "map")
        ),
        FormatTraits(
            KAFKA, ("primitive",), is_declared=True, is_single=True, has_one_spelling=True,
            only_types=("string", "int", "bigint", "double", "binary"),
        ),
        FormatTraits(
            DEBEZIUM, is_json=True, has_field_names=True, has_options=True, has_moments=True, is_change_log=True,
            written_as=JSON,
        ),
        FormatTraits(
            DEBEZIUM_AVRO, has_field_names=True, has_options=True, is_registered=True, reads_by_schema=True,
            language="Avro", ignores_case=True, has_moments=True, is_change_log=True, written_as="avro",
        ),
        FormatTraits(
            "avro", is_declared=True, has_field_names=True, has_options=True, is_registered=True, reads_by_schema=True,
            language="Avro", has_moments=True, any_case="avro_any_case", bare="avro_bare",
        ),
        FormatTraits(
            "avro_any_case", has_field_names=True, has_options=True, is_registered=True, reads_by_schema=True,
            language="Avro", ignores_case=True, has_moments=True,
        ),
        FormatTraits(
            "avro_bare", has_field_names=True, is_single=True, has_options=True, is_registered=True,
            reads_by_schema=True, language="Avro", ignores_case=True, has_moments=True,
        ),
        FormatTraits(
            "json_sr", is_declared=True, is_json=True, has_field_names=True, has_options=True, is_registered=True,
            behind_prefix=JSON, any_case="json_sr_any_case", bare="json_sr_bare", validated="json_sr_valid",
        ),
        FormatTraits(
            "json_sr_valid", is_json=True, has_field_names=True, has_options=True, is_registered=True,
            reads_by_schema=True, behind_prefix=JSON,
        ),
        FormatTraits(
            "json_sr_any_case", is_json=True, has_field_names=True, has_options=True, is_registered=True,
            behind_prefix="json_any_case", validated="json_sr_any_case_valid",
        ),
        FormatTraits(
            "json_sr_any_case_valid", is_json=True, has_field_names=True, has_options=True, is_registered=True,
            reads_by_schema=True, behind_prefix="json_any_case",
        ),
        FormatTraits(
            "json_sr_bare", is_json=True, has_field_names=True, is_single=True, has_options=True, is_registered=True,
            behind_prefix="json_bare", validated="json_sr_bare_valid",
        ),
        FormatTraits(
            "json_sr_bare_valid", is_json=True, has_field_names=True, is_single=True, has_options=True,
            is_registered=True, reads_by_schema=True, behind_prefix="json_bare",
        ),
        FormatTraits(
            "connect_json", is_declared=True, is_json=True, has_field_names=True, has_moments=True, written_as=JSON
        ),
        FormatTraits(
            "protobuf", is_declared=True, has_field_names=True, has_options=True, is_registered=True,
            reads_by_schema=True, language="Protobuf", has_flat_items=True, has_json_names=True, has_moments=True,
            any_case="protobuf_any_case",
        ),
        FormatTraits(
            "protobuf_any_case", has_field_names=True, has_options=True, is_registered=True, reads_by_schema=True,
            language="Protobuf", has_flat_items=True, has_json_names=True, ignores_case=True, has_moments=True,
        ),
        FormatTraits(
            "protobuf_nosr", is_declared=True, has_field_names=True, has_options=True, has_own_schema=True,
            language="Protobuf", has_flat_items=True, has_json_names=True, has_moments=True,
            any_case="protobuf_nosr_any_case",
        ),
        FormatTraits(
            "protobuf_nosr_any_case", has_field_names=True, has_options=True, has_own_schema=True,
            language="Protobuf", has_flat_items=True, has_json_names=True, ignores_case=True, has_moments=True,
        ),
        FormatTraits(ABSENT, is_absent=True),
    )
}  # fmt: skip
VALUE_FORMATS = tuple(traits.name for traits in TRAITS.values() if traits.is_declared)
KEY_FORMATS = (KAFKA, *(name for name in VALUE_FORMATS if name != KAFKA))  # the usual one first
FORMAT_ALIASES = {alias: traits.name for traits in TRAITS.values() for alias in traits.aliases}


def traits_of(kind: str) -> FormatTraits:
    """Return what is true of a kind. Of an unknown one nothing is: a later lakehouse may have written the lake."""
    return TRAITS.get(kind) or FormatTraits(kind)
