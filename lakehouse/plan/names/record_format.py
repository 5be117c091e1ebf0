"""The format of a key or a value. Its name stands in declarations, in the lake and in the headers of a changelog.

| part of the name        | what it says                                                                              |
|-------------------------|-------------------------------------------------------------------------------------------|
| json                    | an object, whose fields are found by their names; a key of one column is the value itself |
| json_any_case           | the same, as SQL reads it: names in any case                                              |
| json_bare               | one value without an object, as SQL has it                                                |
| delimited, "delimited|" | a line of CSV; after it the separator, if it is not the comma                             |
| kafka                   | one primitive, as Kafka's own serializers write it                                        |
| connect_json            | a row or a value, with or without a schema beside it, as Kafka Connect writes it in JSON  |
| debezium, "debezium?..." | a change of a database's table, as Debezium writes it in JSON; after it what is declared |
| avro, "avro?id=7"       | a record in Avro, with the id of its writer's schema; after it how to write it            |
| json_sr, "json_sr?id=7" | JSON behind the id of its writer's JSON Schema; after it how to write it                  |
| json_sr_any_case, _bare | the same, as json_any_case and json_bare                                                  |
| json_sr_valid, ..._valid | the same three, and what does not fit its writer's schema is no record                   |
| avro_any_case           | the same, as SQL reads it: names in any case                                              |
| avro_bare               | one value without a record, as SQL has it                                                 |
| protobuf, "protobuf?..." | a message of Protobuf, with the id of its writer's schema; after it how to write it      |
| protobuf_any_case       | the same, as SQL reads it: names in any case                                              |
| protobuf_nosr?..., _any_case | a message of Protobuf without an id; after it its schema                            |
| none                    | nothing: a key that is not read                                                           |
| +named                  | with the original names of fields, from which SQL has derived those of the columns        |
| +epoch                  | dates and timestamps are numbers: days, and milliseconds, since 1970                      |
| +window30000, +session  | a key with a window's bounds after its own bytes: see
`lakehouse.semantics.time.windowed_key`  |

The first part is the kind of the format: `lakehouse.plan.names.format_traits` says what is true of each.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from lakehouse.plan.names.format_traits import JSON, TRAITS, FormatTraits, traits_of
from lakehouse.semantics.time.window import Hopping, Session, Window

COMMA = ","
# Of the values and of the keys of a topic that names none; "": keys are Kafka's primitives if they can be, else JSON.
USUAL_FORMATS = (JSON, "")
_NAMED, _EPOCH, _SESSION, _WINDOW = "+named", "+epoch", "+session", "+window"
_WITH_SEPARATOR = tuple(traits.name for traits in TRAITS.values() if traits.has_separator)
_WITH_OPTIONS = tuple(traits.name for traits in TRAITS.values() if traits.has_options)


@dataclass(frozen=True, slots=True)
class RecordFormat:
    """A format, parsed. kind: one of the first names of the table. Its `str` is the name.

    separator: between the fields of a line; empty for other kinds. window: after a key; only its kind and size are
    known, so it has no overlap and no grace. options: as the kind writes them, without a plus sign; see
    `lakehouse.plan.names.debezium_options` and `schema_options`.
    """

    kind: str
    separator: str = ""
    is_named: bool = False
    has_number_moments: bool = False
    window: Window | None = None
    options: str = ""

    @property
    def traits(self) -> FormatTraits:
        """The traits of its kind."""
        return traits_of(self.kind)

    @property
    def is_json(self) -> bool:
        """Whether it is JSON text of some form."""
        return self.traits.is_json

    @property
    def is_by_name(self) -> bool:
        """Whether fields are found by their names, so that those that nothing reads make no difference."""
        return self.traits.is_by_name

    @property
    def is_converted(self) -> bool:
        """Whether a row is not written as it is: with other names, or numbers for its dates and timestamps."""
        return self.is_named or self.has_number_moments

    @property
    def is_plain(self) -> bool:
        """Whether the bytes are those of a row as it is, and nothing else."""
        return not self.is_converted and self.window is None

    @property
    def without_window(self) -> RecordFormat:
        """The format of a key's own bytes, before those of the window."""
        return replace(self, window=None)

    def __str__(self) -> str:
        name = self.kind + (self.separator if self.separator != COMMA else "")
        name += f"?{self.options}" if self.options else ""
        name += _NAMED * self.is_named + _EPOCH * self.has_number_moments
        match self.window:
            case Session():
                return name + _SESSION
            case Hopping(size=size):
                return f"{name}{_WINDOW}{size}"
        return name


@lru_cache(maxsize=1024)
def parse_format(name: str) -> RecordFormat:
    """Return the format of a name."""
    window: Window | None = None
    if name.endswith(_SESSION):
        name, window = name.removesuffix(_SESSION), Session(0, 0)
    elif _WINDOW in name:
        name, _, size_text = name.partition(_WINDOW)
        window = Hopping(int(size_text), int(size_text), 0)
    has_number_moments = name.endswith(_EPOCH)
    name = name.removesuffix(_EPOCH)
    is_named = name.endswith(_NAMED)
    kind, separator, options = name.removesuffix(_NAMED), "", ""
    for separated_kind in _WITH_SEPARATOR:
        if kind.startswith(separated_kind):
            kind, separator = separated_kind, kind.removeprefix(separated_kind) or COMMA
    if kind.partition("?")[0] in _WITH_OPTIONS:
        kind, _, options = kind.partition("?")
    return RecordFormat(kind, separator, is_named, has_number_moments, window, options)
