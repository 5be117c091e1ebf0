"""How far the schemas of the writers are known, of topics in registered formats.

A table takes in a tick when the lake has the schema of every id in it. New ids are looked up in the registry, once.
While it can't be reached, the tables of these topics wait, and bronze goes on: it is no fault of a record.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

from lakehouse.errors import RegistryUnavailable
from lakehouse.lake.record.writer_schemas import PARTS
from lakehouse.plan.alert import FunctionSink
from lakehouse.plan.app import App, input_stream
from lakehouse.plan.avro.avro_schema import WriterSchema
from lakehouse.plan.origin import Source
from lakehouse.plan.table import Sink, Table
from lakehouse.spark.bronze.schema_ids import read_schema_ids
from lakehouse.spark.open_lake import OpenLake

RETRY_SECONDS = 2.0
PATIENCE_SECONDS = 60.0  # of those who can't wait for good: a registry may be started anew
# A follower of a registry may lag behind the one where a producer has registered its schema.
UNKNOWN_SECONDS = 20.0
# A topic has some schemas. More ids in one tick are the bytes of other records, and none of them is asked for.
IDS_MAX = 1_000


@dataclass(frozen=True, slots=True)
class SchemaWaiting:
    """Declarations, by name, that wait for the schemas of a topic. tick: the last one whose schemas are known."""

    topic: str
    tick: int
    reason: str
    readers: tuple[str, ...]


class SchemaTicks:
    """The last tick of each topic whose schemas are known, as of the last `refresh`."""

    def __init__(self, lake: OpenLake, app: App) -> None:
        self._lake, self._declarations = lake, app.declarations
        sources = (source for source in app.sources if source.is_registered)
        self._sources = {source.topic: source for source in sources}
        self._reasons: dict[str, str] = {}
        self._first_asked: dict[tuple[str, int], float] = {}  # unknown ids, by the clock of time.monotonic
        self._next_try = 0.0

    def refresh(self, tick: int) -> bool:
        """Look up the ids of all records up to a tick; return whether the schemas of more records are known now."""
        ticks_before = {topic: self._lake.schemas.tick(topic) for topic in self._sources}
        behind = [source for source in self._sources.values() if not self._reaches(source.topic, tick)]
        if behind and time.monotonic() >= self._next_try:
            for source in behind:
                self._take_in(source, tick)
            if self._reasons:
                self._next_try = time.monotonic() + RETRY_SECONDS
        return any(self._lake.schemas.tick(topic) > before for topic, before in ticks_before.items())

    def limit(self, declaration: Table | Sink | FunctionSink, tick: int) -> int:
        """Return the last tick, up to this one, whose schemas are known in all topics behind a declaration."""
        return self.limit_of(input_stream(declaration).sources, tick) if self._sources else tick

    def limit_of(self, sources: Iterable[Source], tick: int) -> int:
        """Return the last tick, up to this one, whose schemas are known in the topics of these sources."""
        topics = {source.topic for source in sources if source.is_registered}
        return min([tick, *(self._lake.schemas.tick(topic) for topic in topics)])

    def waiting(self, tick: int) -> list[SchemaWaiting]:
        """Return what can't have this tick yet, for each topic whose schemas are not known."""
        return [
            SchemaWaiting(topic, self._lake.schemas.tick(topic), self._reasons.get(topic, ""), self._readers(source))
            for topic, source in self._sources.items()
            if self._lake.schemas.tick(topic) < tick
        ]

    def check(self, tick: int) -> None:
        """Raise RegistryUnavailable if the schemas of a topic are not known up to a tick."""
        for waiting in self.waiting(tick):
            raise RegistryUnavailable(
                f"topic {waiting.topic!r}: {waiting.reason} Bronze has all records; {', '.join(waiting.readers)} waits "
                f"at tick {waiting.tick} of {tick}. Run it again when the registry answers."
            )

    def _readers(self, source: Source) -> tuple[str, ...]:
        return tuple(
            item.topic if isinstance(item, Sink) else item.name
            for item in self._declarations
            if source in input_stream(item).sources
        )

    def _reaches(self, topic: str, tick: int) -> bool:
        if self._lake.schemas.tick(topic) < tick:
            self._lake.schemas.reload(topic)  # another process may have looked them up
        return self._lake.schemas.tick(topic) >= tick

    def _take_in(self, source: Source, tick: int) -> None:
        """Look up the new ids of a topic up to a tick, and keep their schemas; note why it is not possible now."""
        topic, schemas = source.topic, self._lake.schemas
        ids_by_part = read_schema_ids(self._lake, source, schemas.tick(topic), tick)
        looked_up: dict[str, dict[int, WriterSchema | None]] = {part: {} for part in PARTS}
        self._reasons.pop(topic, None)
        for part, ids in ids_by_part.items():
            known_ids = schemas.find(topic, part).keys() | schemas.unknown_ids(topic, part)
            new_ids = [id for id in ids if id not in known_ids]
            looked_up[part] = dict.fromkeys(new_ids[IDS_MAX:])
            for id in new_ids[:IDS_MAX]:
                try:
                    schema = self._look_up(id)
                except RegistryUnavailable as error:
                    self._reasons[topic] = str(error)
                    break
                if schema is not None or self._is_settled(topic, id):
                    looked_up[part][id] = schema
        is_complete = topic not in self._reasons
        schemas.keep(topic, looked_up, tick if is_complete else schemas.tick(topic))

    def _look_up(self, id: int) -> WriterSchema | None:
        if self._lake.look_up_schema is None:
            raise RegistryUnavailable(f"No registry is known that has schema {id}: see [registry] in the settings.")
        return self._lake.look_up_schema(id)

    def _is_settled(self, topic: str, id: int) -> bool:
        """Say whether an id that the registry does not have is a record's fault; else note that it is waited for."""
        first_asked = self._first_asked.setdefault((topic, id), time.monotonic())
        has_others = any(self._lake.schemas.find(topic, part) for part in PARTS)
        if has_others and time.monotonic() - first_asked >= UNKNOWN_SECONDS:
            return True
        doubt = "" if has_others else ", nor has it any other of this topic: is it the right one?"
        self._reasons[topic] = f"The registry has no schema {id}{doubt or ' yet.'}"
        return False
