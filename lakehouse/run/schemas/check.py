"""Compares what an application declares and has pinned with the registry's newest schemas: nothing is written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from lakehouse.errors import PlanError
from lakehouse.formats.decode import part_in_topic
from lakehouse.plan.app import App
from lakehouse.plan.avro.schema_text import column_types
from lakehouse.plan.expression.schema import Column
from lakehouse.plan.names.record_format import parse_format
from lakehouse.plan.operator import WINDOW_COLUMNS
from lakehouse.plan.origin import Source
from lakehouse.plan.refused.unfit_schema import UnfitSchema
from lakehouse.plan.registered.pinned import SUFFIXES, pinned_file
from lakehouse.plan.table import Sink
from lakehouse.registry.client import Registry
from lakehouse.run.schemas.newest_schemas import NewestSchema, newest_schema, part_subject, subject_of_schema
from lakehouse.run.schemas.pull import column_differences, pinned_columns
from lakehouse.run.schemas.written_schemas import refusals, schema_to_write
from lakehouse.settings.sections import RegistrySection

Compared = Literal["pinned", "declared", "published"]
_NOT_REGISTERED = "the registry does not have this schema, and registry.auto_register is false: register it there first"


@dataclass(frozen=True, slots=True)
class SchemaCheck:
    """A comparison of a file, a stream's declaration or a published topic with a subject of the registry.

    subject: empty if it is unknown. version: the subject's newest; None if it has none. problems: empty if they fit.
    own, registered: the two schemas, or the columns of them, where they do not fit. note: why there is nothing to
    compare.
    """

    compared: Compared
    name: str
    subject: str
    version: int | None = None
    problems: tuple[str, ...] = ()
    own: str = ""
    registered: str = ""
    note: str = ""


def check_schemas(registry: Registry, settings: RegistrySection, app: App, folder: Path) -> list[SchemaCheck]:
    """Return all comparisons of an application. folder: that of its file, where its pinned schemas are.

    Raises RegistryUnavailable, ConfigError.
    """
    checks: list[SchemaCheck] = []
    newest_by_subject: dict[str, NewestSchema | None] = {}

    def newest_of(subject: str) -> NewestSchema | None:
        if subject not in newest_by_subject:
            newest_by_subject[subject] = newest_schema(registry, subject)
        return newest_by_subject[subject]

    for topic, part_name in app.pinned_parts:
        subject = part_subject(settings, folder, topic, part_name)
        for file in (pinned_file(folder, topic, part_name, kind) for kind in SUFFIXES):
            if subject is not None and (pinned := pinned_columns(file)) is not None:
                checks.append(_check_pinned(str(file), subject, pinned, newest_of(subject)))
    for source in app.sources:
        for part_name in source.registered_parts:
            subject = part_subject(settings, folder, source.topic, part_name)
            newest = None if subject is None else newest_of(subject)
            checks.append(_check_declared(source, part_name, subject, newest))
    for sink in app.sinks:
        for part_name, columns in _published_parts(sink):
            if untyped := [column.name for column in columns if not column.type]:
                note = f"only Spark can tell the type of {', '.join(untyped)}; a cast would tell it here"
                checks.append(SchemaCheck("published", f"topic {sink.topic}, {part_name}", "", note=note))
                continue
            format = sink.key_format if part_name == "key" else sink.format
            schema = schema_to_write(sink.topic, part_name, format, columns)
            subject = subject_of_schema(settings, sink.topic, part_name, schema)
            checks.append(_check_published(registry, settings, sink, part_name, columns, newest_of(subject), subject))
    return checks


def _check_pinned(name: str, subject: str, pinned: dict[str, str], newest: NewestSchema | None) -> SchemaCheck:
    if newest is None:
        return SchemaCheck("pinned", name, subject, problems=("the registry has no such schema",))
    try:
        newest_columns = column_types(newest.schema.row_type, subject)
    except (UnfitSchema, PlanError) as error:
        return SchemaCheck("pinned", name, subject, newest.version, (str(error),), registered=newest.schema.text)
    problems = tuple(column_differences(pinned, newest_columns))
    if not problems:
        return SchemaCheck("pinned", name, subject, newest.version)
    texts = [json.dumps(columns, ensure_ascii=False) for columns in (pinned, newest_columns)]
    return SchemaCheck("pinned", name, subject, newest.version, problems, *texts)


def _check_declared(source: Source, part_name: str, subject: str | None, newest: NewestSchema | None) -> SchemaCheck:
    name = f"stream {source.name}, {part_name}"
    if subject is None:
        note = "neither the topic nor a pinned file tells its subject, which is named by a record"
        return SchemaCheck("declared", name, "", note=note)
    if newest is None:
        return SchemaCheck("declared", name, subject, note="the registry has no such schema yet")
    codec, columns = part_in_topic(source, part_name)
    problem = codec.schema_problem(newest.schema, columns, is_key=part_name == "key")
    if problem is None:
        return SchemaCheck("declared", name, subject, newest.version)
    own = ", ".join(map(str, columns))
    return SchemaCheck("declared", name, subject, newest.version, (problem,), own, newest.schema.text)


def _published_parts(sink: Sink) -> Iterator[tuple[str, tuple[Column, ...]]]:
    """Yield the parts of a published topic that are in a registered format, with their columns."""
    columns_by_name = {column.name: column.plain for column in sink.source.columns}
    key = tuple(columns_by_name[name] for name in sink.source.key)
    # A key that names a window is JSON.
    if parse_format(sink.key_format).traits.is_registered and not set(WINDOW_COLUMNS) & {c.name for c in key}:
        yield "key", key
    if parse_format(sink.format).traits.is_registered:
        yield "value", tuple(column for column in columns_by_name.values() if column not in key)


def _check_published(
    registry: Registry,
    settings: RegistrySection,
    sink: Sink,
    part_name: str,
    columns: tuple[Column, ...],
    newest: NewestSchema | None,
    subject: str,
) -> SchemaCheck:
    """Compare what a run would write with the registry, as `with_registered_id` does: a known schema is only used."""
    name = f"topic {sink.topic}, {part_name}"
    if newest is None and settings.auto_register:
        return SchemaCheck("published", name, subject, note="the registry has no such schema yet; a run registers it")
    format = sink.key_format if part_name == "key" else sink.format
    schema = schema_to_write(sink.topic, part_name, format, columns, None if newest is None else newest.schema)
    if newest is None:
        return SchemaCheck("published", name, subject, problems=(_NOT_REGISTERED,), own=schema.text)
    if registry.lookup(subject, schema.text, schema.kind) is not None:
        return SchemaCheck("published", name, subject, newest.version)
    problems = refusals(registry, subject, schema, newest.schema)
    if not settings.auto_register:
        problems.insert(0, _NOT_REGISTERED)
    texts = (schema.text, newest.schema.text) if problems else ()
    return SchemaCheck("published", name, subject, newest.version, tuple(problems), *texts)
