"""By which schemas the records of a producer are written: a file's, or the registry's newest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lakehouse.errors import ConfigError, NotFound, reason_of_error
from lakehouse.formats.avro.avro_json import text_writer
from lakehouse.formats.registered import with_prefix
from lakehouse.plan.avro.avro_schema import REGISTRY_KIND, AvroType, UnfitSchema, WriterSchema
from lakehouse.registry.client import Registry
from lakehouse.run.schemas.newest import newest_schema, subject_of_schema, topic_subject
from lakehouse.settings.sections import RegistrySection


@dataclass(frozen=True, slots=True)
class ProducedSchema:
    """The schema of a producer's keys or values: its subject and its id in the registry, and itself."""

    subject: str
    id: int
    avro_type: AvroType

    def writer(self) -> Callable[[str], bytes]:
        """Return the function that writes a JSON text in this schema; it raises Unfit for one that does not fit."""
        write = text_writer(self.avro_type)
        return lambda text: with_prefix(self.id, write(text))


def newest_for(registry: Registry, settings: RegistrySection, topic: str, part_name: str) -> ProducedSchema | None:
    """Return the registry's newest schema of a topic's "key" or "value"; None if there is none.

    Raises ConfigError if no record can be written by it, or if the topic alone does not tell its subject.
    """
    subject = topic_subject(settings, topic, part_name)
    if (newest := newest_schema(registry, subject)) is None:
        return None
    try:
        return ProducedSchema(subject, newest.id, newest.schema.avro_type)
    except UnfitSchema as error:
        raise ConfigError(
            f"{subject}, version {newest.version}: {error}. No record can be written by it here."
        ) from error


def schema_in_file(
    registry: Registry, settings: RegistrySection, topic: str, part_name: str, file: Path
) -> ProducedSchema:
    """Return the schema in a file, registered if the settings allow that, else as the registry has it already.

    Raises ConfigError for a file without a schema of Avro, NotFound if it may not be registered and is unknown, and
    SchemaRefused if the registry does not take it.
    """
    try:
        schema = WriterSchema(REGISTRY_KIND, file.read_text(encoding="utf-8"))
        avro_type = schema.avro_type
    except (UnfitSchema, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: {error}. Expected a schema of Avro, in JSON.") from error
    except OSError as error:
        raise ConfigError(f"{file}: {reason_of_error(error)}. Expected a file with a schema of Avro.") from error
    subject = subject_of_schema(settings, topic, part_name, avro_type)
    if settings.auto_register:
        return ProducedSchema(subject, registry.register(subject, schema.text, schema.kind), avro_type)
    if (id := registry.lookup(subject, schema.text, schema.kind)) is None:
        raise NotFound(
            f"The schema registry at {registry.url} does not have the schema of {file} under {subject}, and "
            "registry.auto_register is false. Register it there first."
        )
    return ProducedSchema(subject, id, avro_type)
