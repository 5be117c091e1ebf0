"""A lake that a test describes: its commits, bronze and interventions. No files, no Spark."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from lakehouse.lake.commit_log import CommitLog
from lakehouse.lake.commit_metadata import (
    BronzeTick,
    CommitContent,
    EventTimes,
    RecordCounts,
    TopicState,
    UnchangedRows,
)
from lakehouse.lake.layout import Layout
from lakehouse.lake.moment.lake_facts import TopicEnds

from ..written_commits import batch, commit_text

MadeCommit = tuple[str, int, CommitContent | None]  # Delta's operation, the tick, lakehouse's content
CREATED: MadeCommit = ("CREATE TABLE", 0, None)
OPTIMIZED: MadeCommit = ("OPTIMIZE", 0, None)
EPOCH: MadeCommit = ("WRITE", 0, UnchangedRows(operation="open epoch"))


def took(
    tick: int, after: int, first: int | None = None, through: int | None = None, operation: str | None = None
) -> MadeCommit:
    times = EventTimes(first, through, through)
    return ("MERGE", tick, batch(from_tick=after, counts=RecordCounts(1), times=times, operation=operation))


@dataclass
class Opened:
    """A table: its commits, a second apart; `gone` of them are no longer in the log."""

    name: str
    commits: list[MadeCommit]
    done: int
    gone: int = 0
    settings: dict[str, str] = field(default_factory=dict)

    @property
    def log(self) -> CommitLog:
        return CommitLog(self._read, len(self.commits) - 1, self.name)

    def _read(self, version: int) -> Iterator[str]:
        if version < self.gone:
            raise FileNotFoundError
        operation, tick, content = self.commits[version]
        text = commit_text(self.name, tick, content) if content else None
        info = {"operation": operation, "inCommitTimestamp": 1000 * version, "userMetadata": text}
        yield json.dumps({"commitInfo": info}, separators=(",", ":"))

    def properties(self) -> Mapping[str, str]:
        return self.settings

    def tick(self, name: str) -> int:
        return self.done

    def oldest_readable(self) -> int:
        return self.gone


class Written:
    """A lake: the offsets that each tick brought, the interventions, and the table v."""

    layout = Layout("lake")

    def __init__(
        self,
        ticks: list[dict[str, int]],
        v: Opened,
        decided: Collection[int] = (),
        ids: Mapping[int, str] | None = None,
        gone: int = 0,
        of: str = "v",
        above: Opened | None = None,
    ) -> None:
        """ticks: the end of each by "topic/partition"; ids: of topic t, by tick; of: the table of the interventions.

        above: a table that v reads.
        """
        self._ticks, self._decided, self._of = ticks, decided, of
        stood: dict[str, TopicState] = {}
        commits: list[MadeCommit] = []
        for tick, ends in enumerate(ticks, 1):
            of = (ids or {}).get(tick)
            stood = dict(stood)
            if of is not None:
                stood["t"] = TopicState(of)
            for place, end in ends.items():
                topic, partition = place.split("/")
                state = stood.get(topic, TopicState(f"id-{topic}"))
                stood[topic] = replace(state, next={**state.next, int(partition): end})
            commits.append(("WRITE", tick, BronzeTick(topics=stood, run="run")))
        self._tables = {
            "lake/bronze/records": Opened("ingest", commits, len(ticks), gone),
            "lake/silver/v": v,
            **({} if above is None else {f"lake/silver/{above.name}": above}),
        }

    def open_table(self, path: str) -> Opened | None:
        return self._tables.get(path)

    def has_records(self, topics: Collection[str], after: int, to: int) -> bool:
        return any(place.split("/")[0] in topics for ends in self._ticks[after:to] for place in ends)

    def topic_ends(self, topics: Iterable[str], to: int) -> dict[str, TopicEnds]:
        result: dict[str, dict[int, int]] = {}
        for ends in self._ticks[:to]:
            for place, end in ends.items():
                topic, partition = place.split("/")
                result.setdefault(topic, {})[int(partition)] = end
        return {topic: TopicEnds(f"id-{topic}", result[topic]) for topic in topics if topic in result}

    def has_interventions(self, table: str, after: int, to: int) -> bool:
        return table == self._of and any(after < at <= to for at in self._decided)
