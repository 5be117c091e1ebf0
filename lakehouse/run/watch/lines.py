"""A run as lines of a log, for a file, Docker or systemd: a time, a level, and what happened."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from lakehouse.lake.null_keys import sentence
from lakehouse.run.watch.event import JobEvent, as_event
from lakehouse.settings.config import Log

LEVELS = ("debug", "info", "warning", "error")
WARNINGS = ("function failed", "upkeep failed", "kafka away", "watch failed", "lineage failed")
PARTITIONS_SHOWN = 5


def _now() -> datetime:
    return datetime.now(UTC)


class Lines:
    """Writes what a run tells as lines. `write` gets each without its end; a line has no end of line inside."""

    def __init__(self, settings: Log, write: Callable[[str], None], now: Callable[[], datetime] = _now) -> None:
        self._least = LEVELS.index(settings.level)
        self._as_json = settings.format == "json"
        self._write, self._now = write, now
        self._waiting: int | None = None  # the last lag

    def __call__(self, event: JobEvent) -> None:
        """Write a line about an event, if its level is wanted."""
        self._line(self._level(event), text_of(event), as_event(event))

    def say(self, level: str, text: str, **details: Any) -> None:
        """Write a line about something else; details: for a program that reads JSON."""
        self._line(level, text, details)

    def done(self, last: Mapping[str, Any]) -> None:
        """Write the last line: what the run left behind. last: the "done" event."""
        of = f"{last['rows']:,} records ingested in {last['seconds']:.1f} s; bronze is at tick {last.get('tick', 0):,}"
        bad = ", ".join(f"{stream} {records:,}" for stream, records in last.get("quarantined", {}).items())
        without_key = ", ".join(f"{table} {records:,}" for table, records in last.get("null_keys", {}).items())
        said = [of, *([f"in the quarantine: {bad}"] if bad else [])]
        self._line(
            "info", f"done: {'; '.join([*said, *([f'without a key: {without_key}'] if without_key else [])])}", last
        )
        for table, records in last.get("null_keys", {}).items():
            rows = last["tables"][table].get("rows")
            if rows == 0:
                self._line("warning", sentence(table, rows, records), {"event": "warning", "table": table})

    def _level(self, event: JobEvent) -> str:
        if event.kind == "lag":
            # One line says that all is taken in; until something waits again the others are the same.
            same, self._waiting = event.records == self._waiting == 0, event.records
            return "debug" if same else "info"
        return "warning" if event.kind in WARNINGS else "info"

    def _line(self, level: str, text: str, details: Mapping[str, Any]) -> None:
        if LEVELS.index(level) < self._least:
            return
        time = self._now().isoformat(timespec="milliseconds").replace("+00:00", "Z")
        if self._as_json:
            line = {"time": time, "level": level, "message": text}
            self._write(json.dumps({**line, **details, **line}, default=str))  # an event may have a message, too
        else:
            self._write(f"{time} {level:7} " + text.replace("\r", "\\r").replace("\n", "\\n"))


def text_of(event: JobEvent) -> str:
    """Return an event in words, without its time."""
    of, records = event.details, f"{event.records:,} record{'' if event.records == 1 else 's'}"
    match event.kind:
        case "tick":
            return f"tick {event.tick:,}: {records} in bronze{_took(of)}"
        case "batch":
            return f"tables at tick {event.tick:,}: {records} taken in{_took(of)}"
        case "published":
            return f"published to {of['topic']}, up to tick {event.tick:,}: {records}{_took(of)}"
        case "told":
            return f"function {of['function']} told, up to tick {event.tick:,}: {records}{_took(of)}"
        case "lag":
            return f"lag: {records} in Kafka that bronze does not have{_partitions(of['topics'])}"
        case "kafka away":
            return f"Kafka does not answer: {of['message']}"
        case "kafka back":
            return f"Kafka answers again, after {of['away_seconds']:,.0f} s"
        case "upkeep":
            files = f"{of['files_before']:,} files are now {of['files_after']:,}"
            return f"upkeep of {of['part'].partition('-')[0]}: {files}{_took(of)}"
        case "upkeep failed":
            return f"upkeep failed, the run continues: {of['message']}"
        case "function failed":
            return (
                f"{of['function']} of table {of['table']} failed on {records}, the run continues without them; "
                f"the first, {of['first']}: {of['error']}"
            )
        case "lineage failed":
            return f"the catalog was not told, the run continues: {of['message']}"
        case "watch failed":
            return f"lag and metrics are not known, the run continues: {of['message']}"
    return f"{event.kind}: {json.dumps(as_event(event), default=str)}"


def _took(of: Mapping[str, Any]) -> str:
    return f" ({of['took']:.1f} s)" if "took" in of else ""


def _partitions(topics: Mapping[str, Mapping[str, int]]) -> str:
    """The partitions in which most records wait."""
    waiting = [(n, f"{topic}/{p}") for topic, of in topics.items() for p, n in of.items() if n]
    most = sorted(waiting, key=lambda one: (-one[0], one[1]))
    shown = [f"{place} {n:,}" for n, place in most[:PARTITIONS_SHOWN]]
    return f": {', '.join(shown)}{', ...' if len(most) > len(shown) else ''}" if shown else ""
