"""Writes the registry's newest schemas into the files that are pinned beside an application.

A file has the schema's own text, in Avro indented. One in Avro that refers to other schemas is written with all of them
in it, without its docs, defaults and aliases, which say nothing of how bytes are read. In Protobuf the files that it
imports are written, too.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from lakehouse.durable import write_durably
from lakehouse.errors import NotFound, PlanError
from lakehouse.lake.record.writer_schemas import PARTS
from lakehouse.plan.avro.schema_json import write_avro
from lakehouse.plan.avro.schema_text import column_types
from lakehouse.plan.protobuf.proto_schema import PROTOBUF_KIND
from lakehouse.plan.refused.unfit_schema import UnfitSchema
from lakehouse.plan.registered.pinned import imported_folder, pinned_file, pinned_id_file, read_schema_file
from lakehouse.plan.registered.writer_schema import WriterSchema
from lakehouse.registry.client import Registry
from lakehouse.run.schemas.newest_schemas import newest_schema, part_subject, topic_subject
from lakehouse.run.start.registry import writer_schema
from lakehouse.semantics.surrogates import SURROGATE, replace_surrogates
from lakehouse.settings.sections import RegistrySection

PullState = Literal["new", "unchanged", "changed", "refused"]
TopicPart = tuple[str, str]  # a topic, and "key" or "value"


@dataclass(frozen=True, slots=True)
class PulledSchema:
    """A pinned file after a pull. version: of the subject; None for the schema of an id. differences: of the columns,
    from the file before.

    reason: why the schema can't be read here, so that the file was left as it was ("refused"). notes: what the schema
    says of records by other schemas, and has no effect here.
    """

    file: Path
    subject: str
    version: int | None
    state: PullState
    differences: tuple[str, ...] = ()
    reason: str = ""
    notes: tuple[str, ...] = ()


def parts_of_topics(topics: Iterable[str]) -> list[TopicPart]:
    """Return the keys and values of topics whose formats are not known."""
    return [(topic, part_name) for topic in topics for part_name in PARTS]


def pull_schemas(
    registry: Registry,
    settings: RegistrySection,
    folder: Path,
    parts: Iterable[TopicPart],
    named: Mapping[str, str] | None = None,
) -> list[PulledSchema]:
    """Write the newest schema of each part that has one; return what became of each file.

    folder: that of the application's file. named: the subjects of "key" and "value", if they are known. Raises
    NotFound for a topic without any schema, ConfigError if nothing tells its subjects, RegistryUnavailable.
    """
    pulled_by_topic: dict[str, list[PulledSchema]] = {}
    subjects_by_topic: dict[str, list[str]] = {}
    for topic, part_name in parts:
        subject = (named or {}).get(part_name) or part_subject(settings, folder, topic, part_name)
        pulled, subjects = pulled_by_topic.setdefault(topic, []), subjects_by_topic.setdefault(topic, [])
        if subject is None:
            continue
        subjects.append(subject)
        if (newest := newest_schema(registry, subject)) is not None:
            file = pinned_file(folder, topic, part_name, newest.schema.kind)
            pulled.append(_pull_file(file, subject, newest.version, newest.schema))
    for topic, pulled in pulled_by_topic.items():
        if not subjects_by_topic[topic]:
            topic_subject(settings, topic, "value")  # raises the error that says so
        if not pulled:
            subject_names = " or ".join(subjects_by_topic[topic])
            raise NotFound(
                f"topic {topic!r}: the schema registry at {registry.url} has no schema {subject_names}. Its producer "
                "registers one with the first record; check the topic's name and registry.url."
            )
    return [schema for pulled in pulled_by_topic.values() for schema in pulled]


def pull_ids(registry: Registry, folder: Path, ids: Iterable[int]) -> list[PulledSchema]:
    """Write the schemas with these ids; return what became of each file.

    folder: that of the application's file. Raises NotFound for an id that the registry does not have,
    RegistryUnavailable.
    """
    pulled = []
    for id in dict.fromkeys(ids):
        if (registered := registry.schema_by_id(id)) is None:
            raise NotFound(f"The schema registry at {registry.url} has no schema with the id {id}.")
        file = pinned_id_file(folder, id, registered.kind)
        pulled.append(_pull_file(file, f"schema {id}", None, writer_schema(registered)))
    return pulled


def _pull_file(file: Path, subject: str, version: int | None, schema: WriterSchema) -> PulledSchema:
    before = pinned_columns(file)
    try:
        texts = _schema_texts(file, schema)
        new_columns = pinned_column_types(schema, subject)
    except (UnfitSchema, PlanError) as error:
        return PulledSchema(file, subject, version, "refused", reason=str(error))
    if before is not None and all(path.is_file() and path.read_bytes() == texts[path].encode() for path in texts):
        return PulledSchema(file, subject, version, "unchanged")
    for path, text in texts.items():
        write_durably(path, text)
    notes = () if schema.kind == PROTOBUF_KIND else tuple(_list_notes(json.loads(schema.text)))
    if before is None:
        return PulledSchema(file, subject, version, "new", notes=notes)
    differences = tuple(column_differences(before, new_columns))
    return PulledSchema(file, subject, version, "changed", differences, notes=notes)


def _list_notes(content: Any, path: str = "") -> Iterator[str]:
    """Yield what a type's schema says of records that were written by other schemas, for the fields of its records."""
    match content:
        case list():
            for branch in content:
                yield from _list_notes(branch, path)
        case {"type": "array", "items": inner} | {"type": "map", "values": inner} | {"type": dict() | list() as inner}:
            yield from _list_notes(inner, path)
        case {"type": "record" | "error", "fields": fields}:
            for field in fields:
                name, aliases = f"{path}{field['name']}", field.get("aliases")
                if isinstance(aliases, list) and aliases:
                    yield f"a record in which {name} is still {' or '.join(map(str, aliases))} has a null there"
                if field.get("default") is not None:
                    yield f"a record without {name} has a null there, and not {json.dumps(field['default'])}"
                yield from _list_notes(field["type"], f"{name}.")


def pinned_columns(file: Path) -> dict[str, str] | None:
    """Return the types of a pinned file's columns by name; None without a file, and none of one that can't be read."""
    if not file.is_file():
        return None
    try:
        return column_types(read_schema_file(file).row_type, file.name)
    except (UnfitSchema, PlanError, UnicodeDecodeError):
        return {}


def pinned_column_types(schema: WriterSchema, subject: str) -> dict[str, str]:
    """Return the types of a schema's columns by name. Raises UnfitSchema, and PlanError for one without a column."""
    return column_types(schema.row_type, subject)


def column_differences(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Return the columns that differ, each in words: added, removed, or of another type."""
    return [
        *(f"added {_describe_column(name, type_text)}" for name, type_text in after.items() if name not in before),
        *(f"removed {_describe_column(name, type_text)}" for name, type_text in before.items() if name not in after),
        *(
            f"{name or 'the value'} is {after[name]} now, was {type_text}"
            for name, type_text in before.items()
            if after.get(name, type_text) != type_text
        ),
    ]


def _describe_column(name: str, type_text: str) -> str:
    return f"{name} {type_text}" if name else f"one {type_text} alone"


def _schema_texts(file: Path, schema: WriterSchema) -> dict[Path, str]:
    """Return the texts of a schema's file, and of those that it imports. Raises UnfitSchema."""
    if schema.kind == PROTOBUF_KIND:
        names = schema.proto_schema.imported
        imported = {name: text for name, text in zip(schema.names, schema.references, strict=True) if name in names}
        folder = imported_folder(file)
        return {
            file: _line_ended(schema.text),
            **{folder / name: replace_surrogates(imported[name]) for name in imported},
        }
    avro_type = schema.avro_type
    content: Any = write_avro(avro_type) if schema.references else json.loads(schema.text)
    text = json.dumps(content, indent=2, ensure_ascii=False)
    # Half of a surrogate pair stands in a file as it stands in the registry: as an escape.
    return {file: (json.dumps(content, indent=2) if SURROGATE.search(text) else text) + "\n"}


def _line_ended(text: str) -> str:
    text = replace_surrogates(text)
    return text if text.endswith("\n") else f"{text}\n"
