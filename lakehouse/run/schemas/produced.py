"""The schemas by which the records of a producer are written: from a file, or the registry's newest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from lakehouse.errors import ConfigError, NotFound, reason_of_error
from lakehouse.formats.avro.avro_json import text_writer
from lakehouse.formats.codec.registered import with_prefix
from lakehouse.formats.protobuf.proto_indexes import FIRST_BYTES
from lakehouse.formats.protobuf.proto_json import write_json_text
from lakehouse.formats.values.json_validation import JSON_KIND, check_json, schema_problem
from lakehouse.plan.avro.avro_schema import REGISTRY_KIND
from lakehouse.plan.protobuf.proto_schema import PROTOBUF_KIND
from lakehouse.plan.refused.unfit_schema import UnfitSchema
from lakehouse.plan.registered.pinned import read_schema_file
from lakehouse.plan.registered.writer_schema import WriterSchema
from lakehouse.registry.client import Registry
from lakehouse.run.schemas.newest_schemas import newest_schema, subject_of_schema, topic_subject
from lakehouse.settings.sections import RegistrySection

LANGUAGES = {REGISTRY_KIND: "schema of Avro", JSON_KIND: "JSON Schema", PROTOBUF_KIND: ".proto file"}
_FORMS = {PROTOBUF_KIND: ""}


@dataclass(frozen=True, slots=True)
class ProducedSchema:
    """The schema of a producer's keys or values: its subject and its id in the registry, and itself."""

    subject: str
    id: int
    schema: WriterSchema

    def writer(self) -> Callable[[str], bytes]:
        """Return the function that writes a JSON text in this schema; it raises Unfit for one that does not fit."""
        if self.schema.kind == JSON_KIND:
            return self._write_json
        if self.schema.kind == PROTOBUF_KIND:
            return self._write_message
        write = text_writer(self.schema.avro_type)
        return lambda text: with_prefix(self.id, write(text))

    def _write_message(self, text: str) -> bytes:
        """Return the first message of the schema, with the place that says so."""
        schema = self.schema.proto_schema
        return with_prefix(self.id, FIRST_BYTES + write_json_text(schema, schema.message().name, text))

    def _write_json(self, text: str) -> bytes:
        data = text.encode()
        check_json(self.schema, data)
        return with_prefix(self.id, data)


def own_schema_writer(file: Path) -> Callable[[str], bytes]:
    """Return the function that writes JSON texts as the first message of a .proto file, without a registry.

    The function raises Unfit for a text that does not fit. Raises ConfigError for a file without such a schema. The
    files that it imports are in the folder of its name.
    """
    expected = f"Expected a {LANGUAGES[PROTOBUF_KIND]}"
    try:
        schema = replace(read_schema_file(file), kind=PROTOBUF_KIND).proto_schema
        message = schema.message()
    except (UnfitSchema, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: {error}. {expected}.") from error
    except OSError as error:
        raise ConfigError(f"{file}: {reason_of_error(error)}. {expected}.") from error
    return lambda text: write_json_text(schema, message.name, text)


def newest_to_write(
    registry: Registry, settings: RegistrySection, topic: str, part_name: str, kind: str
) -> ProducedSchema | None:
    """Return the registry's newest schema of a topic's "key" or "value"; None if there is none. kind: as expected.

    Raises ConfigError if it is of another kind, or no record can be written by it, or if the topic alone does not tell
    its subject.
    """
    subject = topic_subject(settings, topic, part_name)
    if (newest := newest_schema(registry, subject)) is None:
        return None
    if (problem := _describe_problem(newest.schema, kind)) is not None:
        raise ConfigError(f"{subject}, version {newest.version}: {problem}. No record can be written by it here.")
    return ProducedSchema(subject, newest.id, newest.schema)


def schema_in_file(
    registry: Registry, settings: RegistrySection, topic: str, part_name: str, file: Path, kind: str
) -> ProducedSchema:
    """Return the schema in a file, registered if the settings allow that, else as the registry has it already.

    kind: of the schema, as registries call it. Raises ConfigError for a file without such a schema, NotFound if it may
    not be registered and is unknown, and SchemaRefused if the registry does not take it.
    """
    try:
        schema = WriterSchema(kind, file.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file}: {error}. Expected a {LANGUAGES[kind]}{_FORMS.get(kind, ', in JSON')}.") from error
    except OSError as error:
        raise ConfigError(f"{file}: {reason_of_error(error)}. Expected a file with a {LANGUAGES[kind]}.") from error
    if (problem := _describe_problem(schema, kind)) is not None:
        raise ConfigError(f"{file}: {problem}. Expected a {LANGUAGES[kind]}{_FORMS.get(kind, ', in JSON')}.")
    subject = subject_of_schema(settings, topic, part_name, schema)
    if settings.auto_register:
        return ProducedSchema(subject, registry.register(subject, schema.text, schema.kind), schema)
    if (id := registry.lookup(subject, schema.text, schema.kind)) is None:
        raise NotFound(
            f"The schema registry at {registry.url} does not have the schema of {file} under {subject}, and "
            "registry.auto_register is false. Register it there first."
        )
    return ProducedSchema(subject, id, schema)


def _describe_problem(schema: WriterSchema, kind: str) -> str | None:
    """Return why no record can be written by a schema; None if it can."""
    if kind == JSON_KIND:
        return schema_problem(schema)
    try:
        _ = schema.proto_schema.message() if kind == PROTOBUF_KIND else schema.avro_type
    except UnfitSchema as error:
        return str(error)
    return None
