"""Calls the functions of an application with its streams' records: in order, each once.

After each call a note in the lake, under the function's name, says how far the function has come. So if a process is
killed in a call, or between a call and its note, the next process calls with that record again: the record's id is the
same. A note holds the ticks that are under way, since the records derived from them do not change:

    {"lake": bronze's id, "after": 4, "to": 9, "told": 2, "at": the position of the last record}
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, replace
from typing import Any

from lakehouse.errors import ConfigError, Fenced, JobFailed, StorageError
from lakehouse.lake.control import note as notes
from lakehouse.lake.control.writer_leases import function_lease
from lakehouse.lake.layout import Layout
from lakehouse.lake.store import is_remote
from lakehouse.plan.alert import FunctionSink, StreamRecord
from lakehouse.plan.app import App
from lakehouse.semantics.commit_number import NO_TICK
from lakehouse.semantics.epoch_time import to_datetime
from lakehouse.semantics.position import Position
from lakehouse.spark import driver_rows
from lakehouse.spark.bronze import bronze
from lakehouse.spark.changelog.stream_feed import stream_events
from lakehouse.spark.open_lake import OpenLake
from lakehouse.spark.transaction import table_id


def check_functions(layout: Layout, app: App) -> None:
    """Raise ConfigError for functions over a lake that can't keep notes of their progress."""
    if app.functions and not notes.are_kept(layout.root):
        raise ConfigError(
            f"function {app.functions[0].name!r}: the lake {layout.root} is neither in a local folder nor on s3a://, "
            "where progress could be noted after each call. Publish to a topic instead: .to_topic(...)."
        )


@dataclass(frozen=True, slots=True)
class Note:
    """The progress of a function: all ticks up to `after`, and the first `told` records of the ticks up to `to`.

    at: the position of the last of these records.
    """

    lake: str
    after: int = NO_TICK
    to: int = NO_TICK
    told: int = 0
    at: str = ""


class FunctionCalls:
    """Calls the functions of an application. A context manager: it holds their leases, so no other job calls them."""

    def __init__(self, lake: OpenLake, app: App) -> None:
        self._lake = lake.own_session() if app.functions else lake
        self._app = app
        self._stack = ExitStack()
        self._functions: list[_Function] = []

    def __enter__(self) -> FunctionCalls:
        with ExitStack() as stack:
            if self._app.functions:
                bronze.create_tables(self._lake, self._app.own_topics)
            for sink in self._app.functions:
                stack.enter_context(function_lease(self._lake.layout, sink.name))
                self._functions.append(_Function(self._lake, sink))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def call_functions(self, tick: int, limit: Callable[[FunctionSink, int], int]) -> Iterator[tuple[str, int]]:
        """Call every function with the records up to a tick; yield names and counts.

        limit: gives the last tick, up to this one, that all tables behind a function have taken in. Raises JobFailed
        for a function that raises; the note has the records before that one.
        """
        for function in self._functions:
            if function.is_behind(last_tick := limit(function.sink, tick)):
                yield function.name, function.call_up_to(last_tick)


class _Function:
    def __init__(self, lake: OpenLake, sink: FunctionSink) -> None:
        self._lake, self.sink, self.name = lake, sink, sink.name
        self._path = lake.layout.function_progress(sink.name)
        fresh_note = Note(table_id(lake.spark, lake.layout.records))
        stored_note = notes.read(self._path)
        self._note = (
            Note(**stored_note) if stored_note is not None and stored_note["lake"] == fresh_note.lake else fresh_note
        )

    def is_behind(self, tick: int) -> bool:
        """Say whether there are ticks to call with. Those under way wait until a tick is there for all of them."""
        return tick > self._note.after and (not self._note.told or tick >= self._note.to)

    def call_up_to(self, tick: int) -> int:
        """Call with the records of the ticks under way, then with those up to `tick`; return how many."""
        under_way = [self._note.to] if self._note.told else []
        return sum(self._call_for_ticks(last_tick) for last_tick in dict.fromkeys([*under_way, tick]))

    def _call_for_ticks(self, last_tick: int) -> int:
        note_before, record_number = self._note, 0
        with closing(
            driver_rows.stream_rows(stream_events(self._lake, self.sink.source, note_before.after, last_tick))
        ) as stream_rows:
            for record_number, row in enumerate(stream_rows, 1):
                if record_number < note_before.told:
                    continue
                record = as_record(self.sink, row)
                if record_number > note_before.told:
                    self._check_owner()
                    self._call(record)
                    self._keep(replace(note_before, to=last_tick, told=record_number, at=record.position.text))
                elif record.position.text != note_before.at:
                    raise self._other_declaration_error()
        if record_number < note_before.told:
            raise self._other_declaration_error()
        self._check_owner()
        self._keep(Note(note_before.lake, last_tick, last_tick))
        return record_number - note_before.told

    def _check_owner(self) -> None:
        """Raise Fenced if another process has written the note: on a store a lease ends while a process is paused."""
        if not is_remote(self._path):
            return  # the lock on a file is held
        stored_note = notes.read(self._path)
        if stored_note is not None and stored_note["lake"] == self._note.lake and Note(**stored_note) != self._note:
            raise Fenced(
                f"function {self.name!r} is called by another process now: its note {self._path} has changed. This "
                "one was paused, or could not reach the store, for longer than its lease; it stops."
            )

    def _call(self, record: StreamRecord) -> None:
        try:
            self.sink.function(record)
        except Exception as error:
            raise JobFailed(
                f"function {self.name!r} failed on record {record.id}: {type(error).__name__}: {error}. The tables are "
                "kept. Mend the function and run again: it goes on with this record."
            ) from error

    def _keep(self, note: Note) -> None:
        self._note = note
        notes.write(self._path, asdict(note))

    def _other_declaration_error(self) -> StorageError:
        return StorageError(
            f"function {self.name!r} was told {self._note.told} records of the ticks {self._note.after + 1} to "
            f"{self._note.to}, of a declaration other than this one. Run the earlier declaration once, until it has "
            "caught up; or give the function another name: it is then told everything from the beginning."
        )


def as_record(sink: FunctionSink, row: dict[str, Any]) -> StreamRecord:
    """Return a derived row (see `stream_events`) as the record that a function gets."""
    key = None if row["_null_key"] else {name: row[name] for name in sink.source.key}
    value = {column.name: row[column.name] for column in sink.source.columns if column.name not in sink.source.key}
    position = Position.from_fields(row["_position"])
    event_time = to_datetime(row["_event_time_ms"])
    return StreamRecord(key, None if row["_tombstone"] else value, event_time, position, f"{sink.name}/{position.text}")
