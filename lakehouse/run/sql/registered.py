"""INSERT INTO and PRINT of topics in a format with a schema registry: both ask the registry."""

from __future__ import annotations

from dataclasses import replace

from lakehouse.errors import ConfigError, SqlError
from lakehouse.formats.codec.registered import PREFIX_LENGTH, with_prefix
from lakehouse.ksql.catalog import Entry
from lakehouse.ksql.property import traits_of_sql
from lakehouse.ksql.script import Script
from lakehouse.ksql.sinks import check_names, written_formats
from lakehouse.lake.record.writer_schemas import PARTS
from lakehouse.plan.names.record_format import parse_format
from lakehouse.plan.names.schema_options import parse_schema_options
from lakehouse.plan.origin import Source
from lakehouse.registry.client import Registry
from lakehouse.registry.opening import open_registry
from lakehouse.run.schemas.part_text import part_text, text_format
from lakehouse.run.schemas.topic_formats import source_formats, topic_formats
from lakehouse.run.schemas.written_schemas import with_registered_id
from lakehouse.run.start.registry import SchemaLookUp
from lakehouse.settings.config import Settings


def written_source(source: Source, target: Entry, position: int) -> Source:
    """Return the source of a stream or table with the options by which its records are written. Raises SqlError."""
    if not any(parse_format(name).traits.is_registered for name in (source.key_format, source.value_format)):
        return source
    check_names(target, position)
    key_format, value_format = (parse_format(name).options for name in written_formats(target))
    return replace(
        source,
        key_format=_with_options(source.key_format, key_format),
        value_format=_with_options(source.value_format, value_format),
    )


def _with_options(format_name: str, options: str) -> str:
    format = parse_format(format_name)
    return str(replace(format, options=options)) if format.traits.is_registered else format_name


def with_registered_ids(
    parts: tuple[bytes | None, bytes | None], source: Source, settings: Settings, position: int
) -> tuple[bytes | None, bytes | None]:
    """Return a key and a value with the ids of their schemas, which are registered if settings allow it.

    Raises SqlError for a schema that is neither registered nor may be; RegistryUnavailable, SchemaRefused.
    """
    formats = (source.key_format, source.value_format)
    needing_id = [
        data is not None and parse_format(format).traits.is_registered
        for data, format in zip(parts, formats, strict=True)
    ]
    if not any(needing_id):
        return parts
    registry = open_registry(settings.registry)
    try:
        key, value = (
            _with_id(data, source, part_name, registry, settings, position) if needs_id and data is not None else data
            for data, part_name, needs_id in zip(parts, PARTS, needing_id, strict=True)
        )
    finally:
        registry.close()
    return key, value


def _with_id(
    data: bytes, source: Source, part_name: str, registry: Registry, settings: Settings, position: int
) -> bytes:
    format, columns = source.format_and_columns(part_name)
    try:
        registered_format = with_registered_id(
            registry, settings.registry, source.topic, part_name, format, tuple(column.in_topic for column in columns)
        )
    except ConfigError as error:
        raise SqlError(str(error), position) from error
    id = parse_schema_options(parse_format(registered_format).options).id
    assert id is not None
    return with_prefix(id, data[PREFIX_LENGTH:])


class TopicPrinter:
    """Shows keys and values of a topic as JSON where a stream or table declares them in a format with schemas.

    Those in Avro and Protobuf are read by their writers' schemas alone, and without a registry by that of the
    declaration; those in JSON are shown without their prefix. Other parts, and those that can't be read, stay bytes.
    """

    def __init__(self, topic: str, script: Script, settings: Settings) -> None:
        self._formats = _declared_formats(topic, script)
        self._look_up = SchemaLookUp(settings)

    def __call__(self, key: bytes | None, value: bytes | None) -> tuple[object, ...]:
        """Return a record's key and value as they are shown. Raises RegistryUnavailable."""
        return tuple(
            self._text_by_schema(data, format) if format and data is not None else data
            for data, format in zip((key, value), self._formats, strict=True)
        )

    def _text_by_schema(self, data: bytes, format: str) -> object:
        text = part_text(format, data, self._look_up)
        return data if text.reason else text.text


def _declared_formats(topic: str, script: Script) -> tuple[str, ...]:
    """Return the formats of a topic's keys and values that have schemas, for `part_text`; "" for others."""
    entry = next((entry for entry in script.catalog.entries.values() if entry.topic == topic), None)
    if entry is None:
        return "", ""
    traits = [traits_of_sql(format) for format in entry.formats]
    if not any(kind.has_own_schema for kind in traits):
        return tuple(text_format(kind, ()) if kind.is_registered else "" for kind in traits)
    formats = topic_formats(script.app(), topic) if entry.query else source_formats(source_of(entry))
    return tuple(
        format if kind.is_registered or kind.has_own_schema else ""
        for kind, format in zip(traits, (formats.key, formats.value), strict=True)
    )


def source_of(entry: Entry) -> Source:
    """Return the source of a stream or a table that reads a topic."""
    source = entry.relation.stream.source
    assert isinstance(source, Source)
    return source
