"""The places of tables and files in the lake's folder."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

DEPLOYMENT = "deploy-"  # begins the name of a deployment's set of tables; no table has such a name
DEPLOYMENT_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")  # small, since DuckDB's schemas have no case
NEXT = "next"  # the name of a deployment without one


@dataclass(frozen=True, slots=True)
class Layout:
    """The folders of a lake. `root` is a path, or a Hadoop URI such as s3a://bucket/lake; it has no slash at its end.

    bronze/records          every record of every topic, partitioned by topic; its commits mark the ticks complete
    bronze/own/<topic>      the topics that have a physical table of their own
    bronze/gaps             offsets that Kafka lost before bronze took them in
    silver/<table>          keyed tables
    state/<table>           what a table keeps and does not show: open windows, groups left out, markers of deletes
    late/<table>            records that came too late for a table
    interventions/          interventions, and the records that they concern
    quarantine/<stream>     records that did not fit their schema
    schemas/<topic>.json    the schemas by which a topic's records were written, out of a registry
    erasures/<id>.json      records that were erased on request: what was done, and its proofs
    erasures/records        their places, and salted hashes of their bytes
    anchors/<table>         copies of a table's state at chosen ticks, kept longer than Delta keeps versions
    beside/<name>/          tables built beside the live ones, from the same bronze: silver, state, late, ...
    control/                checkpoints, leases, streams' declarations, requests, times of upkeep, publishing progress
                            (also in Kafka): may be lost; the start of a rehydrate under way; the history of drills,
                            which is nowhere else

    `beside`: the name of a set of tables built beside the live ones, which shares the lake's bronze and interventions.
    `members`: those of its tables that read each other there; each of the others reads live tables only.
    """

    root: str
    beside: str | None = None
    members: frozenset[str] = frozenset()

    @property
    def tables(self) -> str:
        """The folder of everything that is made from bronze."""
        return self.root if self.beside is None else f"{self.root}/beside/{self.beside}"

    @property
    def records(self) -> str:
        return f"{self.root}/bronze/records"

    def own_records(self, topic: str) -> str:
        return f"{self.root}/bronze/own/{topic}"

    def topic_records(self, topic: str, own_topics: Collection[str]) -> str:
        """Return the folder of the table with a topic's rows. own_topics: those with a physical table of their own."""
        return self.own_records(topic) if topic in own_topics else self.records

    @property
    def gaps(self) -> str:
        return f"{self.root}/bronze/gaps"

    def silver(self, table: str) -> str:
        return f"{self.tables}/silver/{table}"

    def state(self, table: str) -> str:
        return f"{self.tables}/state/{table}"

    def late(self, table: str) -> str:
        return f"{self.tables}/late/{table}"

    def anchors(self, table: str) -> str:
        return f"{self.tables}/anchors/{table}"

    @property
    def interventions(self) -> str:
        return f"{self.root}/interventions/log"

    @property
    def intervention_records(self) -> str:
        return f"{self.root}/interventions/records"

    def quarantine(self, stream: str) -> str:
        return f"{self.tables}/quarantine/{stream}"

    @property
    def erasures(self) -> str:
        return f"{self.root}/erasures"

    @property
    def erased_records(self) -> str:
        return f"{self.erasures}/records"

    def schemas(self, topic: str) -> str:
        return f"{self.root}/schemas/{topic}.json"

    def checkpoints(self, query: str) -> str:
        return f"{self.root}/control/checkpoints/{query}"

    @property
    def leases(self) -> str:
        return f"{self.tables}/control/leases"

    def lease(self, name: str) -> str:
        return f"{self.leases}/{name}.lock"

    def stream_declaration(self, stream: str) -> str:
        return f"{self.tables}/control/streams/{stream}.json"

    @property
    def deployment(self) -> str:
        return f"{self.tables}/control/deployment.json"

    @property
    def requests(self) -> str:
        return f"{self.root}/control/requests"

    @property
    def conditional_put(self) -> str:
        return f"{self.root}/control/conditional-put"

    @property
    def careful(self) -> str:
        return f"{self.root}/control/careful.json"

    @property
    def restoring(self) -> str:
        return f"{self.root}/control/restoring"

    def restore_mark(self, table: str) -> str:
        return f"{self.tables}/control/begun/{table}"

    @property
    def upkeep(self) -> str:
        return f"{self.root}/control/upkeep"

    @property
    def drills(self) -> str:
        return f"{self.root}/control/drills"

    @property
    def published_notes(self) -> str:
        return f"{self.root}/control/published"

    def published(self, topic: str) -> str:
        return f"{self.published_notes}/{topic}.json"

    @property
    def function_notes(self) -> str:
        return f"{self.root}/control/told"

    def function_progress(self, function: str) -> str:
        return f"{self.function_notes}/{function}.json"

    def rehydrated(self, topic: str) -> str:
        return f"{self.root}/control/rehydrated/{topic}.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyLayout(Layout):
    """The folders of a small lake with a copy of one table; what the table is made from stays in the lake `live`."""

    live: Layout
    table: str

    @property
    def records(self) -> str:
        return self.live.records

    def own_records(self, topic: str) -> str:
        return self.live.own_records(topic)

    @property
    def gaps(self) -> str:
        return self.live.gaps

    @property
    def interventions(self) -> str:
        return self.live.interventions

    @property
    def intervention_records(self) -> str:
        return self.live.intervention_records

    @property
    def erasures(self) -> str:
        return self.live.erasures

    def schemas(self, topic: str) -> str:
        return self.live.schemas(topic)

    def silver(self, table: str) -> str:
        return self._tables_of(table).silver(table)

    def state(self, table: str) -> str:
        return self._tables_of(table).state(table)

    def late(self, table: str) -> str:
        return self._tables_of(table).late(table)

    def anchors(self, table: str) -> str:
        return self._tables_of(table).anchors(table)

    def _tables_of(self, table: str) -> Layout:
        return Layout(self.root, self.beside) if table == self.table else self.live
