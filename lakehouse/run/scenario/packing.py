"""Packs many small applications into one lake, each under its own names, so that one run takes in a tick of them all.

On Spark a run costs seconds however small it is, and so does each of its ticks; packed applications share this cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from lakehouse.model.event import LateRecord
from lakehouse.model.model import Result
from lakehouse.plan.app import App
from lakehouse.plan.origin import Source
from lakehouse.plan.stream import Stream
from lakehouse.plan.table import Sink, Table
from lakehouse.semantics.changelog import Change
from lakehouse.semantics.record import Record


class Trial(NamedTuple):
    """An application and its input records."""

    app: App
    records: list[Record]


def pack(trials: Sequence[Trial]) -> Trial:
    """Return one application and one history that hold those of all trials. `unpack` separates their results."""
    tables: list[Table] = []
    sinks: list[Sink] = []
    sources: list[Source] = []
    history: list[Record] = []
    for trial_number, trial in enumerate(trials):
        app = _prefix_app(trial.app.with_upstream, _trial_prefix(trial_number))
        tables += app.tables
        sinks += app.sinks
        sources += app.sources
        history += [
            replace(
                record,
                topic=_trial_prefix(trial_number) + record.topic,
                topic_id=_trial_prefix(trial_number) + record.topic_id,
            )
            for record in trial.records
        ]
    return Trial(App(tuple(tables), tuple(sinks), tuple(sources)), history)


def unpack(result: Result, trials: Sequence[Trial]) -> list[Result]:
    """Return each trial's result from the run of a pack, under the trial's own names."""
    return [_own_result(result, _trial_prefix(number), part.records) for number, part in enumerate(trials)]


def _trial_prefix(number: int) -> str:
    return f"s{number}_"


def _prefix_app(app: App, prefix: str) -> App:
    def source(item: Source) -> Source:
        return replace(item, name=prefix + item.name, topic=prefix + item.topic)

    def stream(item: Stream) -> Stream:
        if isinstance(item.source, Source):
            return replace(item, source=source(item.source))
        parts, tables = map(stream, item.source.parts), map(table, item.source.tables)
        return replace(item, source=item.source.over([*parts], [*tables]))

    def table(item: Table) -> Table:
        return replace(item, name=prefix + item.name, stream=stream(item.stream))

    def sink(item: Sink) -> Sink:
        node = table(item.source) if isinstance(item.source, Table) else stream(item.source)
        return replace(item, topic=prefix + item.topic, source=node)

    return App(tuple(map(table, app.tables)), tuple(map(sink, app.sinks)), tuple(map(source, app.sources)))


def _own_result(result: Result, prefix: str, records: Sequence[Record]) -> Result:
    def under_own_names(values: dict[str, Any]) -> dict[str, Any]:
        return {name.removeprefix(prefix): value for name, value in values.items() if name.startswith(prefix)}

    def change(item: Change) -> Change:
        return replace(item, position=item.position._replace(topic=item.position.topic.removeprefix(prefix)))

    def late(item: LateRecord) -> LateRecord:
        identity = item.identity._replace(topic_id=item.identity.topic_id.removeprefix(prefix))
        return replace(
            item, identity=identity, position=item.position._replace(topic=item.position.topic.removeprefix(prefix))
        )

    original = {record.identity: record for record in records}

    def pack_bad(record: Record, reason: str) -> tuple[Record, str]:
        return original[record.identity._replace(topic_id=record.topic_id.removeprefix(prefix))], reason

    return Result(
        tables=under_own_names(result.tables),
        changelogs={name: list(map(change, items)) for name, items in under_own_names(result.changelogs).items()},
        topics={name: list(map(change, items)) for name, items in under_own_names(result.topics).items()},
        quarantine={
            name: [pack_bad(*pair) for pair in pairs] for name, pairs in under_own_names(result.quarantine).items()
        },
        null_keys=under_own_names(result.null_keys),
        late={name: list(map(late, items)) for name, items in under_own_names(result.late).items()},
    )
