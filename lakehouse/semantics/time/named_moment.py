"""Finds the moment that a person names, by options or in a text such as `tick:7`: see `lakehouse.semantics.moment`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from typing import Any, Literal

from lakehouse.errors import ConfigError
from lakehouse.semantics.epoch_time import to_milliseconds
from lakehouse.semantics.moment import At, AtCommit, AtEvent, AtOffsets, AtTick, AtVersion, Offsets
from lakehouse.semantics.time import iso_text
from lakehouse.semantics.time.years import is_possible_time

ClockName = Literal["event", "commit"]
FORMS = (
    "3 or version:3, tick:7, 2013-06-01T00:00Z or event:2013-06-01T00:00Z (the world then), "
    "commit:2026-11-21T10:00Z (what we knew then), offsets:flights/0=120, source:16/B374D848 (a database's position), "
    "now"
)
SOURCE = re.compile(r"\s*(?:source|lsn):(?P<position>.*)", re.IGNORECASE | re.DOTALL)
NUMBER = re.compile(r"[0-9]{1,18}")
PLACE = re.compile(r"(?P<topic>[A-Za-z0-9._-]+)/(?P<partition>\d{1,9})=(?P<offset>\d{1,18})")
PLACES = re.compile(PLACE.pattern + r"\.\.(?P<last>\d{1,18})")
PLACES_BY_ID = re.compile(PLACES.pattern.replace(")/", "(?:@[A-Za-z0-9_-]{1,50})?)/", 1))
# Gives the offsets of a position of the log of a database: see `lakehouse.plan.databases.log_position`.
FindSource = Callable[[str], AtOffsets]


def refuse_source(position: str) -> AtOffsets:
    """Raise ConfigError: without an application nobody knows how a database's records are read."""
    raise ConfigError(
        f"source position {position!r}: only the application knows which topics are a database's. Name it: --app, or "
        "app=..."
    )


def moment_of(
    time: str | datetime | date | None = None,
    *,
    clock: ClockName = "event",
    version: int | None = None,
    tick: int | None = None,
    offsets: str | Offsets | None = None,
    find_source: FindSource = refuse_source,
) -> At | None:
    """Return the moment that is named; None for now. Raises ConfigError for two moments, or an impossible one.

    time: a time by `clock`, see `time_ms`; or "source:16/B374D848", the position of a database, of which find_source
    gives the offsets. offsets: a mapping, or text, see `offsets_of`.
    """
    values_by_option = {"at": time, "version": version, "tick": tick, "offsets": offsets}
    given_names = [name for name, value in values_by_option.items() if value is not None]
    if len(given_names) > 1:
        raise ConfigError(
            f"found {' and '.join(given_names)}; expected at most one moment; without one, the newest is read."
        )
    if clock not in ("event", "commit"):
        raise ConfigError(f'clock {clock!r}: expected "event" (the world then) or "commit" (what we knew then).')
    if clock == "commit" and time is None:
        raise ConfigError("clock commit says what a time means; name a time with at.")
    if isinstance(time, str) and (match := SOURCE.fullmatch(time)) is not None:
        return find_source(match["position"])
    if time is not None:
        return AtEvent(time_ms(time)) if clock == "event" else AtCommit(time_ms(time))
    if version is not None:
        return AtVersion(_whole_number(version, "version"))
    if tick is not None:
        return AtTick(_whole_number(tick, "tick"))
    if offsets is not None:
        return AtOffsets(offsets_of(offsets) if isinstance(offsets, str) else _checked_offsets(offsets))
    return None


def _whole_number(value: Any, subject: str) -> int:
    """Return a number from Python, also of another library's kind, as an int. Raises ConfigError for anything else."""
    number = value.__index__() if hasattr(value, "__index__") and not isinstance(value, bool) else -1
    if number < 0:
        raise ConfigError(f"{subject} {value!r}: expected a number, 0 or more.")
    return int(number)


def _checked_offsets(offsets: Any) -> dict[str, dict[int, int]]:
    """Return offsets by topic and partition. Raises ConfigError for another shape, as texts for numbers would be."""
    subject = f"offsets {offsets!r:.200}"
    if not isinstance(offsets, Mapping) or not all(isinstance(ends, Mapping) for ends in offsets.values()):
        raise ConfigError(f"{subject}: expected {{topic: {{partition: offset}}}}, or text such as 'flights/0=120'.")
    return {
        topic: {
            _whole_number(partition, f"{subject}: partition"): _whole_number(offset, f"{subject}: offset")
            for partition, offset in ends.items()
        }
        for topic, ends in offsets.items()
    }


def moment_from_text(text: str, find_source: FindSource = refuse_source) -> At | None:
    """Return the moment that a text such as `tick:7` names, see `FORMS`; None for now. Raises ConfigError otherwise.

    A number alone is a version, a time alone an event time. find_source: see `moment_of`.
    """
    if not isinstance(text, str):
        raise ConfigError(f"{text!r} is not a moment; expected text, one of: {FORMS}.")
    if text.strip() == "now":
        return None
    if NUMBER.fullmatch(text.strip()):
        return AtVersion(int(text))
    if (match := SOURCE.fullmatch(text)) is not None:
        return find_source(match["position"])
    moment_kind, _, argument = text.strip().partition(":")
    match moment_kind:
        case "version" | "tick":
            if NUMBER.fullmatch(argument) is None:
                raise ConfigError(f"{text!r}: expected a number after {moment_kind}:, such as {moment_kind}:7.")
            return AtVersion(int(argument)) if moment_kind == "version" else AtTick(int(argument))
        case "commit":
            return AtCommit(time_ms(argument, "commit"))
        case "event":
            return AtEvent(time_ms(argument, "event"))
        case "offsets":
            return AtOffsets(offsets_of(argument))
    try:
        return AtEvent(time_ms(text))
    except ConfigError:
        raise ConfigError(f"{text!r} is not a moment; expected one of: {FORMS}.") from None


def as_moment(moment: At | str, find_source: FindSource = refuse_source) -> At | None:
    """Return a moment, or the one that a text names, see `moment_from_text`; None for "now". Raises ConfigError."""
    return moment if isinstance(moment, At) else moment_from_text(moment, find_source)


def as_past_moment(moment: At | str) -> At:
    """Return a moment as `as_moment` does. Raises ConfigError for "now" as well."""
    past_moment = as_moment(moment)
    if past_moment is None:
        raise ConfigError(f"{moment!r}: expected a moment of the past, such as tick:7, a version or a time.")
    return past_moment


def time_ms(time: str | datetime | date, subject: str = "at") -> int:
    """Return a time as milliseconds since the epoch; one without a zone is UTC, a date is its first moment.

    Raises ConfigError for a text that is not a time, and for a time outside the years 1 to 9999 in UTC.
    """
    if isinstance(time, str):
        try:
            time = datetime.fromisoformat(iso_text.normal_form(time))
        except ValueError:
            raise ConfigError(f"{subject} {time!r}: expected a time such as 2013-06-01T18:00Z, or a date.") from None
    elif not isinstance(time, date):
        raise ConfigError(f"{subject} {time!r}: expected a time such as 2013-06-01T18:00Z, or a date.")
    elif not isinstance(time, datetime):
        time = datetime(time.year, time.month, time.day, tzinfo=UTC)
    epoch_ms = to_milliseconds(time if time.tzinfo is not None else time.replace(tzinfo=UTC))
    if not is_possible_time(epoch_ms):
        raise ConfigError(
            f"{subject} {time.isoformat()}: in UTC it is outside the years 1 to 9999; expected a time within them."
        )
    return epoch_ms


def offsets_of(text: str) -> dict[str, dict[int, int]]:
    """Return the offsets in `flights/0=120,flights/1=80`: the first offset not taken in, by topic and partition."""
    offsets_by_topic: dict[str, dict[int, int]] = {}
    for part in text.split(","):
        if (match := PLACE.fullmatch(part.strip())) is None:
            raise ConfigError(f"offsets {part.strip()!r}: expected TOPIC/PARTITION=OFFSET, such as flights/0=120.")
        topic_offsets = offsets_by_topic.setdefault(match["topic"], {})
        if int(match["partition"]) in topic_offsets:
            raise ConfigError(f"offsets: {match['topic']}/{match['partition']} is named twice.")
        topic_offsets[int(match["partition"])] = int(match["offset"])
    return offsets_by_topic


def ranges_of(text: str, *, by_id: bool = False) -> dict[str, dict[int, tuple[int, int]]]:
    """Return the offsets in `flights/0=120..180,flights/1=80..95`: first and last offset, by topic and partition.

    by_id: a topic may have its id, `flights@PkXOdOQ-T7e2g-XHHeyiKg`, as a part of its name.
    """
    ranges_by_topic: dict[str, dict[int, tuple[int, int]]] = {}
    for part in text.split(","):
        if (match := (PLACES_BY_ID if by_id else PLACES).fullmatch(part.strip())) is None:
            topic_form = "TOPIC[@ID]" if by_id else "TOPIC"
            raise ConfigError(
                f"offsets {part.strip()!r}: expected {topic_form}/PARTITION=FIRST..LAST, such as flights/0=1..9."
            )
        first_offset, last_offset, topic_ranges = (
            int(match["offset"]),
            int(match["last"]),
            ranges_by_topic.setdefault(match["topic"], {}),
        )
        if first_offset > last_offset:
            raise ConfigError(f"offsets {part.strip()!r}: expected the smaller offset first.")
        if int(match["partition"]) in topic_ranges:
            raise ConfigError(f"offsets: {match['topic']}/{match['partition']} is named twice.")
        topic_ranges[int(match["partition"])] = (first_offset, last_offset)
    return ranges_by_topic


def partitions_left_out(offsets: Offsets, next_offsets: Mapping[tuple[str, int], int]) -> str:
    """Return the partitions with records that `offsets` leaves out, in the form "t/0=7,t/1=9"; "" if there are none.

    next_offsets: the first offset not taken in, by topic and partition.
    """
    named_places = {(topic, partition) for topic, topic_offsets in offsets.items() for partition in topic_offsets}
    missing_offsets = {place: offset for place, offset in next_offsets.items() if place not in named_places}
    return ",".join(
        f"{topic}/{partition}={next_offset}" for (topic, partition), next_offset in sorted(missing_offsets.items())
    )
