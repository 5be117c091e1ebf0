"""What an erasure is about, and the texts that mean it: as they were written, and as lakehouse writes such values.

A key is erased by its value: 04711 is the number 4711. So it is recognized, and searched for, by the text of its value,
too; in a column of another type that names it, by that column's.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Self, TypeAlias

from lakehouse.errors import ConfigError
from lakehouse.formats.key_text import parse_key, write_key
from lakehouse.plan.app import App
from lakehouse.plan.expression.schema import NESTED_TYPES, Column, base_type, field_types, find_field
from lakehouse.plan.origin import Source

# "column type" of each column of a stream's key, by its name, and of a column that names records, by "stream.column".
SubjectTypes: TypeAlias = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class ErasureSubject:
    """The records to erase: those with a key of a stream, those that name such a key, and single ones.

    keys: the text of a key, by the name of its stream. named_by: "stream.column", columns that hold one of the keys, or
    "stream.column=text", those that hold a text. places: further records, {topic: {partition: (first, last)}}.
    """

    keys: Mapping[str, str]
    named_by: tuple[str, ...] = ()
    places: Mapping[str, Mapping[int, tuple[int, int]]] = field(default_factory=dict)

    @property
    def texts(self) -> set[str]:
        """The keys, and the texts that columns hold."""
        return {*self.keys.values(), *(text for _, text in self.named_texts)}

    @property
    def named_texts(self) -> list[tuple[str, str]]:
        """The columns that may name the records, as "stream.column", each with a text."""
        paths = [path.partition("=") for path in self.named_by]
        return [
            (path, text)
            for path, separator, named_text in paths
            for text in ([named_text] if separator else self.keys.values())
        ]

    def in_normal_form(self, types: SubjectTypes) -> Self:
        """Return it with each key, and each text of a column, as lakehouse writes its value."""
        named_by = []
        for item in self.named_by:
            path, separator, text = item.partition("=")
            named_by.append(f"{path}={_normal_text(text, types.get(path))}" if separator else path)
        keys = {stream: _normal_text(text, types.get(stream)) for stream, text in self.keys.items()}
        return replace(self, keys=keys, named_by=tuple(named_by))

    def hash(self, salt: str, types: SubjectTypes) -> str:
        """Return a hash by which the same subject is recognized, however its keys are written."""
        normal = self.in_normal_form(types)
        subject_text = json.dumps([salt, normal.keys, sorted(normal.named_by), normal.places], sort_keys=True)
        return hashlib.sha256(subject_text.encode()).hexdigest()

    def named_values(self, types: SubjectTypes) -> list[tuple[str, str]]:
        """Return the columns that may name the records, each with a text as it was given, or in its normal form."""
        further = [
            (path, text)
            for path, text in self.in_normal_form(types).named_texts
            if _fits(text, types.get(path))  # the normal form of a key may be none of another type
        ]
        return list(dict.fromkeys([*self.named_texts, *further]))

    def searched_texts(self, types: SubjectTypes) -> set[str]:
        """Return all texts that mean the subject somewhere in the lake."""
        of_columns = {_normal_text(text, types.get(path)) for path, text in self.named_values(types)}
        return self.texts | self.in_normal_form(types).texts | of_columns

    def can_be_searched(self, types: SubjectTypes) -> bool:
        """Say whether one of its texts stands in the lake as a whole: the parts of a key lie apart.

        Bytes lie there raw, and not as their base64. A subject whose types nobody knows is taken for one that can.
        """
        key_types = [types.get(stream) for stream in self.keys]
        whole_key_types = [
            item
            for item in key_types
            if item is None or (len(item) == 1 and _base_type(item[0]) not in (*NESTED_TYPES, "binary"))
        ]
        return not self.keys or bool(whole_key_types) or any("=" in path for path in self.named_by)


def types_of_subject(app: App, subject: ErasureSubject) -> SubjectTypes:
    """Return the types of the columns that hold a subject. Raises PlanError, ConfigError for a name that is unknown."""
    types = {
        stream: tuple(f"{column.name} {column.type}" for column in app.source(stream).key) for stream in subject.keys
    }
    for item in subject.named_by:
        source, column_path = split_path(app, item)
        if (type_text := _type_at(source, column_path)) is not None:
            types[item.partition("=")[0]] = (f"{column_path.rpartition('.')[2]} {type_text}",)
    return types


def split_path(app: App, path: str) -> tuple[Source, str]:
    """Return the source and the column of "stream.column" or "stream.column=text". Raises ConfigError, PlanError."""
    stream_name, dot, column_path = path.partition("=")[0].partition(".")
    if not dot or not column_path:
        raise ConfigError(f"erase: found {path!r:.200}; expected STREAM.COLUMN, such as orders.customer_id.")
    return app.source(stream_name), column_path


def _type_at(source: Source, column_path: str) -> str | None:
    """Return the type of a column, or of a field in it; None if there is none such."""
    types = {column.name: column.type for column in (*source.key, *source.value)}
    type_text: str | None = None
    for name in column_path.split("."):
        field_name = find_field(types, name)
        if field_name is None:
            return None
        type_text = types[field_name]
        types = field_types(type_text) if base_type(type_text) == "struct" else {}
    return type_text


def _columns_of(column_texts: tuple[str, ...]) -> Iterator[Column]:
    for text in column_texts:
        name, _, type_text = text.partition(" ")
        yield Column(name, type_text)


def _base_type(column_text: str) -> str:
    return base_type(column_text.partition(" ")[2])


def _normal_text(text: str, column_texts: tuple[str, ...] | None) -> str:
    """Return the text that lakehouse writes for a key's value; the text itself if it is no such key."""
    if column_texts is None:
        return text
    try:
        return write_key(parse_key(text, _columns_of(column_texts)))
    except ConfigError:
        return text


def _fits(text: str, column_texts: tuple[str, ...] | None) -> bool:
    try:
        parse_key(text, _columns_of(column_texts or ()))
    except ConfigError:
        return False
    return True
