"""The schemas by which an application writes: each is registered, or looked up, before its first record."""

from __future__ import annotations

import re
from dataclasses import replace

from lakehouse.errors import ConfigError, SchemaRefused
from lakehouse.formats.avro.changes import changes_of_meaning
from lakehouse.formats.decode import options_after, written_schemas
from lakehouse.formats.values.json_validation import JSON_KIND
from lakehouse.plan.avro.avro_schema import REGISTRY_KIND
from lakehouse.plan.expression.schema import Column
from lakehouse.plan.names.record_format import parse_format
from lakehouse.plan.names.schema_options import DEFAULT_NAME, SchemaOptions, parse_schema_options
from lakehouse.plan.refused.unfit_schema import UnfitSchema
from lakehouse.plan.registered.writer_schema import WriterSchema
from lakehouse.registry.client import Registry
from lakehouse.run.schemas.newest_schemas import (
    is_named_by_topic,
    newest_schema,
    schema_name,
    subject_of_schema,
    topic_subject,
)
from lakehouse.settings.config import RegistrySection


def with_registered_id(
    registry: Registry, section: RegistrySection, topic: str, part_name: str, format: str, columns: tuple[Column, ...]
) -> str:
    """Return a registered format with the id under which columns are written to a topic's "key" or "value".

    The schema is registered, or only looked up if the settings say so. Raises SchemaRefused, with both schemas, for one
    by which readers could not read the earlier records; ConfigError for one that is not there; RegistryUnavailable.
    """
    if is_named_by_topic(section):
        subject = topic_subject(section, topic, part_name)
    else:
        schema = schema_to_write(topic, part_name, format, columns)
        subject = subject_of_schema(section, topic, part_name, schema)
    latest = _latest_schema(registry, subject)
    written_format = format_to_write(topic, part_name, format, columns, latest)
    schema = _own_schema_of(written_format, part_name, columns)
    id = registry.lookup(subject, schema.text, schema.kind)
    if id is None and section.auto_register:
        id = _register_schema(registry, subject, schema, latest)
    if id is None:
        raise ConfigError(
            f"topic {topic!r}: the registry does not have this schema of its {part_name}, and [registry] auto_register "
            f"is false. Register it under the subject {subject}: {schema.text}"
        )
    return _with_schema_options(
        written_format, replace(parse_schema_options(parse_format(written_format).options), id=id)
    )


def schema_to_write(
    topic: str, part_name: str, format: str, columns: tuple[Column, ...], latest: WriterSchema | None = None
) -> WriterSchema:
    """Return the schema in which a format writes columns to a topic's "key" or "value", see `format_to_write`."""
    return _own_schema_of(format_to_write(topic, part_name, format, columns, latest), part_name, columns)


def format_to_write(
    topic: str, part_name: str, format: str, columns: tuple[Column, ...], latest: WriterSchema | None = None
) -> str:
    """Return a registered format with all that says how columns are written to a topic's "key" or "value".

    A record, a message, or the title of a JSON Schema, has the name that the format says; else that of the subject's
    latest schema, for a record of another name could not follow it; else one made of the topic's.
    """
    options = parse_schema_options(parse_format(format).options)
    if options.name == DEFAULT_NAME:
        options = replace(options, name=_name_in(latest) or _record_name(topic, part_name))
    named_format = _with_schema_options(format, options)
    return (
        named_format
        if latest is None
        else _with_schema_options(named_format, options_after(named_format, columns, latest))
    )


def _with_schema_options(format: str, options: SchemaOptions) -> str:
    return str(replace(parse_format(format), options=str(options)))


def _own_schema_of(format: str, part_name: str, columns: tuple[Column, ...]) -> WriterSchema:
    (schema,) = written_schemas(format, columns, is_key=part_name == "key").values()
    return schema


def refusals(registry: Registry, subject: str, schema: WriterSchema, latest: WriterSchema | None) -> list[str]:
    """Return why a schema can't be the next one of a subject; empty if it can. latest: the subject's newest one.

    Raises as `Registry.check_compatible` does.
    """
    if latest is None or not latest.kind == schema.kind == REGISTRY_KIND:
        return registry.check_compatible(subject, schema.text, schema.kind)
    try:
        changes = list(changes_of_meaning(latest.avro_type, schema.avro_type))
    except UnfitSchema:
        changes = []  # such as a type in itself: nothing of it can be compared here
    if changes:
        advice = "who reads the earlier records by the new schema gets other values, though the registry would take it"
        return [f"{'; '.join(changes)}: {advice}. Give the column another name, or write another topic."]
    return registry.check_compatible(subject, schema.text, schema.kind)


def _latest_schema(registry: Registry, subject: str) -> WriterSchema | None:
    newest = newest_schema(registry, subject)
    return None if newest is None else newest.schema


def _register_schema(registry: Registry, subject: str, schema: WriterSchema, latest: WriterSchema | None) -> int:
    """Register a new schema of a subject; return its id. Raises SchemaRefused, with both schemas."""
    both_schemas = f"\n  registered: {'none' if latest is None else latest.text}\n  new:        {schema.text}"
    if reasons := refusals(registry, subject, schema, latest):
        raise SchemaRefused(f"subject {subject}: {' '.join(reasons)}{both_schemas}")
    try:
        return registry.register(subject, schema.text, schema.kind)
    except SchemaRefused as error:
        raise SchemaRefused(f"{error}{both_schemas}") from error


def _name_in(schema: WriterSchema | None) -> str:
    """Return the name of a schema's record or message, or its title; empty if it has none, or can't be read here."""
    if schema is None:
        return ""
    try:
        return schema_name(schema) if schema.kind == JSON_KIND else schema.record_name
    except UnfitSchema:
        return ""


def _record_name(topic: str, part_name: str) -> str:
    """Return the full name of the record in which a topic's keys or values are written, if none is declared."""
    name = re.sub(r"[^A-Za-z0-9_]", "_", topic)
    return f"lakehouse.{'_' if name[0].isdigit() else ''}{name}_{part_name}"
