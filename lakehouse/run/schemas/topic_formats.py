"""The formats in which an application reads or publishes a topic, for commands that show the topic's records."""

from __future__ import annotations

from dataclasses import dataclass

from lakehouse.plan.app import App
from lakehouse.plan.expression.schema import base_type
from lakehouse.plan.names.format_traits import JSON, KAFKA, TRAITS
from lakehouse.plan.names.record_format import parse_format
from lakehouse.plan.operator import WINDOW_COLUMNS
from lakehouse.plan.origin import Source
from lakehouse.plan.table import Sink
from lakehouse.run.schemas.part_text import GUESSED, shown_format
from lakehouse.semantics.time.window import Window


@dataclass(frozen=True, slots=True)
class TopicFormats:
    """The formats of a topic's keys and values, see `lakehouse.run.schemas.part_text`. window: of its keys."""

    key: str = GUESSED
    value: str = GUESSED
    window: Window | None = None


def topic_formats(app: App, topic: str) -> TopicFormats:
    """Return the formats of a topic as the first stream declares them that reads it, or else who publishes it."""
    for source in app.sources:
        if source.topic == topic:
            return source_formats(source)
    return next((_published_formats(sink) for sink in app.sinks if sink.topic == topic), TopicFormats())


def source_formats(source: Source) -> TopicFormats:
    """Return the formats of a topic as a stream declares them that reads it."""
    key_format, value_format = parse_format(source.key_format), parse_format(source.value_format)
    return TopicFormats(
        shown_format(key_format, source.key), shown_format(value_format, source.value), key_format.window
    )


def _published_formats(sink: Sink) -> TopicFormats:
    columns_by_name = {column.name: column for column in sink.source.columns}
    key = tuple(columns_by_name[name] for name in sink.source.key)
    value = tuple(column for column in columns_by_name.values() if column not in key)
    # A key that names a window is JSON. The type of a computed column may be known to Spark alone.
    key_format = "" if set(WINDOW_COLUMNS) & {column.name for column in key} else sink.key_format
    if not key_format and not all(column.type for column in key):
        return TopicFormats(GUESSED, shown_format(parse_format(sink.format), value))
    format = parse_format(key_format or (KAFKA if TRAITS[KAFKA].holds([base_type(c.type) for c in key]) else JSON))
    return TopicFormats(shown_format(format, key), shown_format(parse_format(sink.format), value), format.window)
