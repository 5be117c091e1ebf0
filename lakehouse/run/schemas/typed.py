"""The schemas by which a key or a value that somebody types is written, such as for a fix."""

from __future__ import annotations

from lakehouse.formats.codec.registered import FindSchemas, WriterSchemas
from lakehouse.formats.decode import part_in_topic
from lakehouse.plan.origin import Source
from lakehouse.registry.opening import open_registry
from lakehouse.run.schemas.newest_schemas import newest_schema, topic_subject
from lakehouse.settings.config import Settings


def typed_schemas(settings: Settings, source: Source, find_stored: FindSchemas) -> FindSchemas:
    """Return the function that finds them, by topic and part. find_stored: finds those that the lake keeps.

    A lake keeps no schemas of a format that is read without them: then it is the registry's newest, and the function
    raises RegistryUnavailable, and ConfigError if the topic does not tell its subject.
    """

    def find(topic: str, part_name: str) -> WriterSchemas:
        traits = part_in_topic(source, part_name)[0].format.traits
        if not traits.is_registered or traits.reads_by_schema:
            return find_stored(topic, part_name)
        registry = open_registry(settings.registry)
        try:
            newest = newest_schema(registry, topic_subject(settings.registry, topic, part_name))
        finally:
            registry.close()
        return WriterSchemas({} if newest is None else {newest.id: newest.schema})

    return find
