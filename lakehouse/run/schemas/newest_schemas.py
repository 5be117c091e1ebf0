"""The newest schema that the registry has for a topic's keys or values, and the subject that it stands under."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from lakehouse.errors import ConfigError
from lakehouse.formats.values.json_schema import title_of
from lakehouse.formats.values.json_validation import JSON_KIND
from lakehouse.plan.avro.avro_schema import REGISTRY_KIND
from lakehouse.plan.protobuf.proto_schema import PROTOBUF_KIND
from lakehouse.plan.refused.unfit_schema import UnfitSchema
from lakehouse.plan.registered.pinned import SUFFIXES, pinned_file, read_schema_file
from lakehouse.plan.registered.writer_schema import WriterSchema
from lakehouse.registry.client import Registry
from lakehouse.run.start.registry import writer_schema
from lakehouse.settings.sections import RegistrySection

_BY_TOPIC = "topic"


@dataclass(frozen=True, slots=True)
class NewestSchema:
    """The newest schema of a subject: its version there, its id, and the schema."""

    subject: str
    version: int
    id: int
    schema: WriterSchema


def is_named_by_topic(settings: RegistrySection) -> bool:
    """Say whether a topic's name tells the subjects of its schemas."""
    return settings.subject_strategy == _BY_TOPIC


def topic_subject(settings: RegistrySection, topic: str, part_name: str) -> str:
    """Return the subject of a topic's "key" or "value". Raises ConfigError if the topic alone does not tell it."""
    if not is_named_by_topic(settings):
        raise ConfigError(
            f"registry.subject_strategy is {settings.subject_strategy!r}: subjects are named by records, so the topic "
            f"{topic!r} does not tell which schema is the newest of its {part_name}s. Expected {_BY_TOPIC!r}, a "
            "file with the schema, or the subject itself: `lakehouse schema pull --subject`."
        )
    return f"{topic}-{part_name}"


def part_subject(settings: RegistrySection, folder: Path, topic: str, part_name: str) -> str | None:
    """Return the subject of a topic's "key" or "value"; None if neither the topic nor a pinned file tells it.

    folder: that of the application's file.
    """
    if is_named_by_topic(settings):
        return topic_subject(settings, topic, part_name)
    for kind in SUFFIXES:
        with suppress(OSError, UnicodeDecodeError, UnfitSchema):
            schema = read_schema_file(pinned_file(folder, topic, part_name, kind))
            return subject_of_schema(settings, topic, part_name, schema)
    return None


def subject_of_schema(settings: RegistrySection, topic: str, part_name: str, schema: WriterSchema) -> str:
    """Return the subject of a schema, as Confluent's producers with this strategy name it.

    In Avro a type without a name has that of its kind, "long". Raises ConfigError for a JSON Schema without a title
    where the strategy needs it, UnfitSchema for a text that is no schema.
    """
    if is_named_by_topic(settings):
        return topic_subject(settings, topic, part_name)
    if not (name := schema_name(schema) or (schema.avro_type.kind if schema.kind == REGISTRY_KIND else "")):
        raise ConfigError(
            f"registry.subject_strategy is {settings.subject_strategy!r}: found a schema of the {part_name} of topic "
            f"{topic!r} without a title; expected one."
        )
    return name if settings.subject_strategy == "record" else f"{topic}-{name}"


def schema_name(schema: WriterSchema) -> str:
    """Return the name of a schema's type or message, or its title; empty if it has none. Raises UnfitSchema."""
    if schema.kind == JSON_KIND:
        return title_of(schema.text)
    return schema.record_name if schema.kind == PROTOBUF_KIND else schema.avro_type.name


def newest_schema(registry: Registry, subject: str) -> NewestSchema | None:
    """Return the newest schema of a subject; None if it has none. Raises RegistryUnavailable."""
    if (answer := registry.latest(subject)) is None:
        return None
    version, registered = answer
    return NewestSchema(subject, version, registered.id, writer_schema(registered))
