"""The registry of the settings: looks up the schemas of what is read, and registers those of what is written."""

from __future__ import annotations

import re
from dataclasses import replace

from lakehouse.errors import ConfigError, RegistryUnavailable, SchemaRefused
from lakehouse.formats.avro.changes import changes_of_meaning
from lakehouse.formats.decode import written_schemas
from lakehouse.plan.avro.avro_schema import UnfitSchema, WriterSchema
from lakehouse.plan.names.avro_options import DEFAULT_NAME, parse_avro_options
from lakehouse.plan.names.record_format import parse_format
from lakehouse.plan.schema import Column
from lakehouse.registry.client import Registry
from lakehouse.registry.opening import open_registry
from lakehouse.registry.schemas import RegisteredSchema
from lakehouse.settings.config import RegistrySection, Settings


class SchemaLookUp:
    """A function of a schema's id, see `LookUp` in `lakehouse.spark.open_lake`.

    Calling it raises RegistryUnavailable, and ConfigError for a refused login or a missing extra.
    """

    def __init__(self, settings: Settings) -> None:
        self._section = settings.registry
        self._registry: Registry | None = None

    def __call__(self, id: int) -> WriterSchema | None:
        try:
            if self._registry is None:
                self._registry = open_registry(self._section)
            registered = self._registry.schema_by_id(id)
        except RegistryUnavailable:
            self._registry = None  # the embedded one may come back at another port
            raise
        return None if registered is None else _writer_schema(registered)


def with_registered_id(
    registry: Registry, section: RegistrySection, topic: str, part_name: str, format: str, columns: tuple[Column, ...]
) -> str:
    """Return a registered format with the id under which columns are written to a topic's "key" or "value".

    The schema is registered, or only looked up if the settings say so. Raises SchemaRefused, with both schemas, for one
    that the topic's readers could not read; ConfigError for one that is not there; RegistryUnavailable.
    """
    own_format = parse_format(format)
    options = parse_avro_options(own_format.options)
    if options.name == DEFAULT_NAME:
        options = replace(options, name=_record_name(topic, part_name))
    named_format = str(replace(own_format, options=str(options)))
    (schema,) = written_schemas(named_format, columns, is_key=part_name == "key").values()
    avro_type = schema.avro_type
    subject = subject_of(section.subject_strategy, topic, part_name, avro_type.name or avro_type.kind)
    id = registry.lookup(subject, schema.text, schema.kind)
    if id is None and section.auto_register:
        id = _register(registry, subject, schema)
    if id is None:
        raise ConfigError(
            f"topic {topic!r}: the registry does not have this schema of its {part_name}, and [registry] auto_register "
            f"is false. Register it under the subject {subject}: {schema.text}"
        )
    return str(replace(own_format, options=str(replace(options, id=id))))


def _register(registry: Registry, subject: str, schema: WriterSchema) -> int:
    """Register a new schema of a subject; return its id. Raises SchemaRefused, with both schemas."""
    latest = registry.latest(subject)
    both_schemas = f"\n  registered: {'none' if latest is None else latest[1].text}\n  new:        {schema.text}"
    if latest is not None and latest[1].kind == schema.kind:
        try:
            changes = list(changes_of_meaning(_writer_schema(latest[1]).avro_type, schema.avro_type))
        except UnfitSchema:
            changes = []  # such as a type in itself: nothing of it can be compared here
        if changes:
            raise SchemaRefused(
                f"subject {subject}: {'; '.join(changes)}: the registry would take it, but who reads the earlier "
                f"records by the new schema gets other values. Give the column another name, or write another topic."
                f"{both_schemas}"
            )
    try:
        return registry.register(subject, schema.text, schema.kind)
    except SchemaRefused as error:
        raise SchemaRefused(f"{error}{both_schemas}") from error


def _writer_schema(registered: RegisteredSchema) -> WriterSchema:
    references = tuple(reference.text for reference in registered.dependencies())
    return WriterSchema(registered.kind, registered.text, references)


def subject_of(strategy: str, topic: str, part_name: str, record_name: str) -> str:
    """Return the subject of a schema, as Confluent's naming strategies have it."""
    match strategy:
        case "record":
            return record_name
        case "topic_record":
            return f"{topic}-{record_name}"
    return f"{topic}-{part_name}"


def _record_name(topic: str, part_name: str) -> str:
    """Return the full name of the record in which a topic's keys or values are written, if none is declared."""
    name = re.sub(r"[^A-Za-z0-9_]", "_", topic)
    return f"lakehouse.{'_' if name[0].isdigit() else ''}{name}_{part_name}"
