"""The schemas by which a topic's records were written: kept in the lake, so that a rebuild needs no registry.

    schemas/<topic>.json   {"value": {"tick": 7, "schemas": {"12": {"kind": "AVRO", "text": "...", "references": []}}}}

`tick`: the last one in whose records every id of this part was looked up. An id whose schema the registry did not have
is null, and stays so until somebody asks the registry again: a record is bad or not, however often a table is built.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from lakehouse.errors import StorageError
from lakehouse.formats.codec.registered import NO_SCHEMAS, WriterSchemas
from lakehouse.formats.decode import decode_record
from lakehouse.lake.control import note
from lakehouse.lake.control.writer_leases import schemas_lease
from lakehouse.lake.layout import Layout
from lakehouse.model.model import BadRecord, DecodedRecord
from lakehouse.plan.origin import Source
from lakehouse.plan.registered.writer_schema import WriterSchema
from lakehouse.semantics.commit_number import NO_TICK
from lakehouse.semantics.record import Record

PARTS = ("key", "value")
Entries = dict[str, Any]
LookedUp = Mapping[str, Mapping[int, WriterSchema | None]]
PATIENCE_SECONDS = 60.0  # another process writes a small file


def record_decoder(layout: Layout) -> Callable[[Source, Record], DecodedRecord | BadRecord]:
    """Return the function that decodes a lake's records for the model."""
    return partial(decode_record, find_schemas=LakeSchemas(layout).find)


class LakeSchemas:
    """The schemas of a lake's topics, read from their files when they are first asked for, and by `reload`."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._by_topic: dict[str, _TopicSchemas] = {}

    def find(self, topic: str, part_name: str) -> WriterSchemas:
        """Return the known schemas of a topic's "key" or "value", by their ids. Raises StorageError."""
        return self._topic(topic).known[part_name]

    def unknown_ids(self, topic: str, part_name: str) -> frozenset[int]:
        """Return the ids that the registry did not know."""
        return self._topic(topic).unknown[part_name]

    def ids(self, topic: str, part_name: str) -> frozenset[int]:
        """Return the ids that were looked up, whether the registry knew them or not."""
        return self.unknown_ids(topic, part_name) | self.find(topic, part_name).keys()

    def tick(self, topic: str, part_names: Iterable[str]) -> int:
        """Return the last tick in whose records all ids of these parts were looked up."""
        return min(self._topic(topic).ticks[part_name] for part_name in part_names)

    def reaches(self, topic: str, part_name: str, tick: int) -> bool:
        """Say whether all ids of a part up to a tick were looked up; another process may have done so meanwhile."""
        if self.tick(topic, [part_name]) < tick:
            self.reload(topic)
        return self.tick(topic, [part_name]) >= tick

    def reload(self, topic: str) -> None:
        """Read a topic's schemas again: another process may have kept more."""
        self._by_topic.pop(topic, None)

    def keep(self, topic: str, looked_up: LookedUp, tick: int) -> None:
        """Keep the schemas of parts, or null for ids that the registry does not have.

        tick: up to it all ids of these parts were looked up. Schemas that are kept already stay. Raises StorageError,
        and LeaseHeld while another process writes.
        """
        self._write(topic, looked_up, tick, lambda entries, kept_entries: entries | kept_entries)

    def learn(self, topic: str, looked_up: LookedUp) -> None:
        """Keep the schemas of ids that the registry did not have before. Raises as `keep` does."""
        known_schemas = {
            part_name: {id: s for id, s in schemas.items() if s} for part_name, schemas in looked_up.items()
        }
        self._write(topic, known_schemas, NO_TICK, lambda entries, kept_entries: kept_entries | entries)

    def _write(self, topic: str, looked_up: LookedUp, tick: int, merge: Callable[[Entries, Entries], Entries]) -> None:
        path = self._layout.schemas(topic)
        if not note.are_kept(path):
            raise StorageError(
                f"{path}: the schemas of registered formats are kept on a disk or in S3, and not in this store. Put "
                "the lake there, or use another format."
            )
        with schemas_lease(self._layout, topic).acquire_within(PATIENCE_SECONDS):
            content = note.read(path) or {}
            for part_name, schemas in looked_up.items():
                stored_schemas = content.get(part_name, {})
                entries = merge(
                    {str(id): _entry(schema) for id, schema in schemas.items()}, stored_schemas.get("schemas", {})
                )
                content[part_name] = {"tick": max(tick, stored_schemas.get("tick", NO_TICK)), "schemas": entries}
            note.write(path, content)
        self._by_topic[topic] = _TopicSchemas(content, self._by_topic.get(topic))

    def _topic(self, topic: str) -> _TopicSchemas:
        if topic not in self._by_topic:
            self._by_topic[topic] = _TopicSchemas(note.read(self._layout.schemas(topic)) or {})
        return self._by_topic[topic]


class _TopicSchemas:
    """A file's content, parsed. earlier: what was known before; equal schemas stay the same objects."""

    def __init__(self, content: Mapping[str, Any], earlier: _TopicSchemas | None = None) -> None:
        self.ticks: dict[str, int] = {}
        self.known: dict[str, WriterSchemas] = {}
        self.unknown: dict[str, frozenset[int]] = {}
        for part_name in PARTS:
            entries = content.get(part_name, {}).get("schemas", {})
            self.ticks[part_name] = content.get(part_name, {}).get("tick", NO_TICK)
            schemas = {int(id): _schema(entry) for id, entry in entries.items() if entry is not None}
            known_earlier = earlier.known[part_name] if earlier is not None else NO_SCHEMAS
            self.known[part_name] = known_earlier if dict(known_earlier) == schemas else WriterSchemas(schemas)
            self.unknown[part_name] = frozenset(int(id) for id, entry in entries.items() if entry is None)


def _entry(schema: WriterSchema | None) -> dict[str, Any] | None:
    if schema is None:
        return None
    references, names = list(schema.references), list(schema.names)
    return {"kind": schema.kind, "text": schema.text, "references": references} | ({"names": names} if names else {})


def _schema(entry: Mapping[str, Any]) -> WriterSchema:
    return WriterSchema(entry["kind"], entry["text"], tuple(entry["references"]), tuple(entry.get("names", ())))
