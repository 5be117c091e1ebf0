"""Writes a run as lines of a log, for a file, Docker or systemd: a time, a level, and the event."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from lakehouse.lake.null_keys import null_keys_sentence
from lakehouse.markup.quantity import quantity
from lakehouse.run.watch.event import JobEvent, as_event
from lakehouse.semantics.failures import OF_ROWS
from lakehouse.settings.config import Log

LEVELS = ("debug", "info", "warning", "error")
WARNINGS = (
    "function failed",
    "expectation unmet",
    "rule unmet",
    "upkeep failed",
    "snapshot refused",
    "snapshot left out",
    "snapshot delayed",
    "kafka away",
    "watch failed",
    "lineage failed",
    "cut off",
    "waiting",
)
PARTITIONS_SHOWN = 5


def _now() -> datetime:
    return datetime.now(UTC)


class Lines:
    """Writes the events of a run as lines. `write` gets each without its end; a line has no end of line inside."""

    def __init__(self, settings: Log, write: Callable[[str], None], now: Callable[[], datetime] = _now) -> None:
        self._least = LEVELS.index(settings.level)
        self._as_json = settings.format == "json"
        self._write, self._now = write, now
        self._waiting: int | None = None  # the last lag

    def __call__(self, event: JobEvent) -> None:
        """Write a line about an event, if its level is wanted."""
        self._line(self._level(event), event_text(event), as_event(event))

    def say(self, level: str, text: str, **details: Any) -> None:
        """Write a line about something else than an event. details: for a program that reads JSON."""
        self._line(level, text, details)

    def write_summary(self, last: Mapping[str, Any]) -> None:
        """Write the last line, a summary of the run. last: the "done" event."""
        ingested = quantity(last["rows"], "record")
        summary = f"{ingested} ingested in {last['seconds']:.1f} s; bronze is at tick {last.get('tick', 0):,}"
        quarantined = ", ".join(f"{stream} {records:,}" for stream, records in last.get("quarantined", {}).items())
        null_keys = ", ".join(f"{table} {records:,}" for table, records in last.get("null_keys", {}).items())
        parts = [summary, *([f"in the quarantine: {quarantined}"] if quarantined else [])]
        self._line(
            "info", f"done: {'; '.join([*parts, *([f'without a key: {null_keys}'] if null_keys else [])])}", last
        )
        for table, records in last.get("null_keys", {}).items():
            rows = last["tables"][table].get("rows")
            if rows == 0:
                self._line("warning", null_keys_sentence(table, rows, records), {"event": "warning", "table": table})

    def _level(self, event: JobEvent) -> str:
        if event.kind == "lag":
            # One line says that nothing waits; until something waits again, the next lines would be the same.
            is_same, self._waiting = event.records == self._waiting == 0, event.records
            return "debug" if is_same else "info"
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


def event_text(event: JobEvent) -> str:
    """Return an event in words, without its time."""
    details, records = event.details, f"{event.records:,} record{'' if event.records == 1 else 's'}"
    match event.kind:
        case "tick":
            return f"tick {event.tick:,}: {records} in bronze{_format_took(details)}"
        case "batch":
            return f"tables at tick {event.tick:,}: {records} taken in{_format_took(details)}"
        case "published":
            return f"published to {details['topic']}, up to tick {event.tick:,}: {records}{_format_took(details)}"
        case "told":
            return f"function {details['function']} told, up to tick {event.tick:,}: {records}{_format_took(details)}"
        case "lag":
            return f"lag: {records} in Kafka that bronze does not have{_format_partitions(details['topics'])}"
        case "kafka away":
            return f"Kafka does not answer: {details['message']}"
        case "kafka back":
            return f"Kafka answers again, after {details['away_seconds']:,.0f} s"
        case "upkeep":
            files = f"{details['files_before']:,} files are now {details['files_after']:,}"
            return f"upkeep of {details['part'].partition('-')[0]}: {files}{_format_took(details)}"
        case "upkeep failed":
            return f"upkeep failed, the run continues: {details['message']}"
        case "snapshot":
            counts = ", ".join(f"{details[kind]:,} {kind}" for kind in ("inserted", "updated", "deleted"))
            return f"snapshot of {details['at']} into topic {details['topic']}: {counts}{_format_took(details)}"
        case "snapshot refused":
            return f"a snapshot can't be taken in, the run continues without it: {details['message']}"
        case "snapshot left out":
            return f"snapshots are left out, the run continues: {details['message']}"
        case "snapshot delayed":
            return f"snapshots wait, the run continues: {details['message']}"
        case "function failed":
            return (
                f"{details['function']} of table {details['table']} failed on {records}, the run continues without "
                f"them; the first, {details['first']}: {details['error']}"
            )
        case "expectation unmet":
            verbs = ("does", "counts") if event.records == 1 else ("do", "count")
            subjects, consequence = records, f", and {verbs[1]}"
            if details["expectation"].endswith(OF_ROWS):
                subjects, consequence = f"{event.records:,} row{'' if event.records == 1 else 's'}", ""
            return (
                f"{subjects} of table {details['table']} {verbs[0]} not meet expectation {details['expectation']}"
                f"{consequence}; the first, {details['first']}: {details['reason']}"
            )
        case "rule unmet":
            return f"table {details['table']} does not meet {details['expectation']}: {details['reason']}"
        case "rule met":
            return f"table {details['table']} meets {details['expectation']} again"
        case "waiting" if "topic" in details:
            return (
                f"held back by the schemas of topic {details['topic']}, which are known up to tick {event.tick:,}: "
                f"{', '.join(details['readers'])}; {details['reason']}"
            )
        case "waiting":
            keeper = "its process runs" if details["is_kept"] else "no process keeps the table: run its application"
            return (
                f"held back by table {details['upstream']} of another application, which is at tick {event.tick:,}: "
                f"{', '.join(details['readers'])}; {keeper}"
            )
        case "lineage failed":
            return f"the catalog was not told, the run continues: {details['message']}"
        case "cut off":
            return f"the batch under way was cut off, and nothing of it is lost: {details['message']}"
        case "watch failed":
            return f"{details['part']} can't be looked at, the run continues: {details['message']}"
    return f"{event.kind}: {json.dumps(as_event(event), default=str)}"


def _format_took(details: Mapping[str, Any]) -> str:
    return f" ({details['took']:.1f} s)" if "took" in details else ""


def _format_partitions(topics: Mapping[str, Mapping[str, int]]) -> str:
    """Return the partitions in which most records wait, as text."""
    waiting_partitions = [
        (n, f"{topic}/{p}") for topic, partitions in topics.items() for p, n in partitions.items() if n
    ]
    sorted_partitions = sorted(waiting_partitions, key=lambda item: (-item[0], item[1]))
    top_places = [f"{place} {n:,}" for n, place in sorted_partitions[:PARTITIONS_SHOWN]]
    return (
        f": {', '.join(top_places)}{', ...' if len(sorted_partitions) > len(top_places) else ''}" if top_places else ""
    )
