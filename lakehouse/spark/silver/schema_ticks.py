"""How far the schemas of the writers are known, of topics in registered formats.

A table takes in a tick when the lake has the schema of every id in it. New ids are looked up in the registry, once.
While it can't be reached, the tables of these topics wait, and bronze goes on: it is no fault of a record.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lakehouse.errors import RegistryUnavailable
from lakehouse.lake.record.writer_schemas import PARTS
from lakehouse.plan.alert import FunctionSink
from lakehouse.plan.app import App, input_stream
from lakehouse.plan.origin import Source
from lakehouse.plan.registered.writer_schema import WriterSchema
from lakehouse.plan.table import Sink, Table
from lakehouse.spark.bronze.schema_ids import read_schema_ids
from lakehouse.spark.open_lake import OpenLake

RETRY_SECONDS = 2.0
RETRY_SHARE = 4  # times as long as the last try took: a slow one holds up the tables that do not need it
PATIENCE_SECONDS = 60.0  # of those who can't wait for good: a registry may be started anew
# A follower of a registry may lag behind the one where a producer has registered its schema.
UNKNOWN_SECONDS = 20.0
# A topic has some schemas. More ids, in one read or in all, are bytes of something else, and nobody is asked for them.
IDS_MAX, UNKNOWN_MAX = 1_000, 10_000


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
        self._sources = [source for source in app.sources if source.is_registered]
        self._own_topics = app.own_topics
        self._parts = app.registered_parts
        self._reasons: dict[str, str] = {}  # by topic
        self._first_asked: dict[tuple[str, str, int], float] = {}  # unknown ids, by the clock of time.monotonic
        self._next_try = 0.0

    def refresh(self, tick: int) -> bool:
        """Look up the ids of all records up to a tick; return whether the schemas of more records are known now."""
        ticks_before = [self._tick(*part) for part in self._parts]
        behind = [part for part in self._parts if not self._lake.schemas.reaches(*part, tick)]
        if behind and (began := time.monotonic()) >= self._next_try:
            self._reasons.clear()
            for part in behind:
                self._take_in(*part, tick)
            if self._reasons:
                now = time.monotonic()
                self._next_try = now + max(RETRY_SECONDS, RETRY_SHARE * (now - began))
        return ticks_before != [self._tick(*part) for part in self._parts]

    def tick_limit(self, declaration: Table | Sink | FunctionSink, tick: int) -> int:
        """Return the last tick, up to this one, whose schemas are known in all topics behind a declaration."""
        return self.tick_limit_of(input_stream(declaration).sources, tick) if self._sources else tick

    def tick_limit_of(self, sources: Iterable[Source], tick: int) -> int:
        """Return the last tick, up to this one, whose schemas are known in the topics of these sources."""
        return min([tick, *(self._tick_of(source) for source in sources if source.is_registered)])

    def find_waiting(self, tick: int) -> list[SchemaWaiting]:
        """Return what can't have this tick yet, for each stream whose schemas are not known."""
        return [
            SchemaWaiting(item.topic, self._tick_of(item), self._reasons.get(item.topic, ""), self._readers(item))
            for item in self._sources
            if self._tick_of(item) < tick
        ]

    def check_known(self, tick: int) -> None:
        """Raise RegistryUnavailable if the schemas of a topic are not known up to a tick."""
        for waiting in self.find_waiting(tick):
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

    def _tick(self, topic: str, part_name: str) -> int:
        return self._lake.schemas.tick(topic, [part_name])

    def _tick_of(self, source: Source) -> int:
        return self._lake.schemas.tick(source.topic, source.registered_parts)

    def _take_in(self, topic: str, part_name: str, tick: int) -> None:
        """Look up the new ids of a topic's part up to a tick, and keep their schemas; note why it can't be done now."""
        schemas, after_tick = self._lake.schemas, self._tick(topic, part_name)
        kept_ids, unknown_ids = schemas.ids(topic, part_name), schemas.unknown_ids(topic, part_name)
        limit, own_table = IDS_MAX + len(kept_ids), topic in self._own_topics
        ids = read_schema_ids(self._lake, topic, part_name, after_tick, tick, own_table=own_table, limit=limit)
        looked_up: dict[int, WriterSchema | None] = {}
        is_complete = True
        for id in [id for id in ids if id not in kept_ids][:IDS_MAX]:
            try:
                schema = self._lake.writer_schema(id)
            except RegistryUnavailable as error:
                self._reasons[topic] = str(error)
                is_complete = False
                break
            if schema is not None:
                looked_up[id] = schema
            elif not self._is_settled(topic, part_name, id, looked_up):
                is_complete = False
            elif len(unknown_ids) < UNKNOWN_MAX:
                looked_up[id] = None
        schemas.keep(topic, {part_name: looked_up}, tick if is_complete else after_tick)

    def _is_settled(self, topic: str, part_name: str, id: int, looked_up: Mapping[int, WriterSchema | None]) -> bool:
        """Say whether an id that the registry does not have is a record's fault; else note that it is waited for.

        looked_up: the schemas of other ids, as of just now.
        """
        first_asked = self._first_asked.setdefault((topic, part_name, id), time.monotonic())
        has_others = any(self._lake.schemas.find(topic, part) for part in PARTS) or any(looked_up.values())
        if has_others and time.monotonic() - first_asked >= UNKNOWN_SECONDS:
            return True
        doubt = " yet." if has_others else ", nor has it any other of this topic: is it the right one?"
        self._reasons[topic] = f"The registry has no schema {id}{doubt}"
        return False
