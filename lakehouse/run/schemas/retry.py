"""Asks the registry again for schemas that it did not have when their ids were met.

Records with such an id are bad. Once its schema is known, later records of it are read, and a backfill of a table
judges the earlier ones again.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakehouse.lake.layout import Layout
from lakehouse.lake.record.writer_schemas import LakeSchemas
from lakehouse.plan.app import App
from lakehouse.run.start.registry import SchemaLookUp
from lakehouse.settings.config import Settings


@dataclass(frozen=True, slots=True)
class RetriedPart:
    """A topic's "key" or "value" with ids that were unknown. learned, unknown: those known now, and the others.

    tables: those that read the topic, if an id was learned: they may have records of it to judge again.
    """

    topic: str
    part: str
    learned: tuple[int, ...]
    unknown: tuple[int, ...]
    tables: tuple[str, ...]


def retry_unknown_ids(settings: Settings, app: App) -> list[RetriedPart]:
    """Keep the schemas that the registry has now; return a line for each part of a topic with ids that were unknown.

    Nothing is kept before all were looked up: what is known no longer shows which tables have records to judge again.
    Raises RegistryUnavailable, ConfigError for a refused login, StorageError.
    """
    schemas, look_up = LakeSchemas(Layout(settings.lake.path)), SchemaLookUp(settings)
    looked_up_by_part = {
        (topic, part_name): {id: look_up(id) for id in unknown_ids}
        for topic, part_name in app.registered_parts
        if (unknown_ids := sorted(schemas.unknown_ids(topic, part_name)))
    }
    retried = []
    for (topic, part_name), looked_up in looked_up_by_part.items():
        learned = tuple(id for id, schema in looked_up.items() if schema is not None)
        if learned:
            schemas.learn(topic, {part_name: looked_up})
        tables = tuple(table.name for table in app.tables if topic in table.stream.topics) if learned else ()
        still_unknown = tuple(id for id in looked_up if id not in learned)
        retried.append(RetriedPart(topic, part_name, learned, still_unknown, tables))
    return retried
