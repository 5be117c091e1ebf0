"""Fixes: quarantined records with other bytes, decoded by the stream's present declaration. Nothing is written.

A fix is a function from record to record: the user's own, an edit of one record, or no change at all, if the
declaration has changed and accepts the bytes as they are. Only key and value may differ; the record keeps its place, so
that a replay can put it where it belongs.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from enum import Enum
from typing import Any, Literal

from lakehouse.errors import ConfigError, NeedsSpark, NotFound, PlanError
from lakehouse.formats.codec.codec import Codec
from lakehouse.formats.codec.registered import FindSchemas, find_no_schemas
from lakehouse.formats.decode import part_in_topic
from lakehouse.formats.values.unfit import Unfit
from lakehouse.lake.layout import Layout
from lakehouse.lake.record.quarantine import QuarantineChoice, QuarantinedRecord, read_quarantined
from lakehouse.lake.record.writer_schemas import record_decoder
from lakehouse.model import model
from lakehouse.plan.app import App
from lakehouse.plan.origin import Source
from lakehouse.plan.stream import Stream
from lakehouse.plan.stream_join import meeting_streams
from lakehouse.semantics.commit_number import NO_TICK
from lakehouse.semantics.record import Record

# Gives the record with other key or value bytes; bytes alone are the value; None leaves it in the quarantine.
FixFunction = Callable[[Record], Any]


class Keep(Enum):
    """The key, or the value, as it was."""

    KEEP = "keep"


KEEP = Keep.KEEP


@dataclass(frozen=True, slots=True)
class Edit:
    """A fix of one record: its new key and value; None is a null."""

    key: bytes | Literal[Keep.KEEP] | None = KEEP
    value: bytes | Literal[Keep.KEEP] | None = KEEP

    def __call__(self, record: Record) -> Record:
        changed = {name: new for name in ("key", "value") if not isinstance(new := getattr(self, name), Keep)}
        return replace(record, **changed)


def leave_unchanged(record: Record) -> Record:
    """Return the record unchanged: the fix if its stream now has another declaration."""
    return record


@dataclass(frozen=True, slots=True)
class Fixed:
    """A record that fits now, with these bytes. was: the record in the quarantine, with the reason and its place."""

    was: QuarantinedRecord
    key: bytes | None
    value: bytes | None

    @property
    def record(self) -> Record:
        """The record that counts from now on, at its original position."""
        return replace(self.was.record, key=self.key, value=self.value)


@dataclass(frozen=True, slots=True)
class StillBad:
    """A record that still does not fit: why not, and its bytes after the fix; the original bytes if there are none."""

    was: QuarantinedRecord
    key: bytes | None
    value: bytes | None
    reason: str


@dataclass(frozen=True, slots=True)
class Fixes:
    """The results of a fix for the chosen records, in the lake's order."""

    fixed: tuple[Fixed, ...]
    bad: tuple[StillBad, ...]

    @property
    def digest(self) -> str:
        """The last tick of the records, and a short text that differs for other records that fit, or other bytes."""
        records = sorted(
            (fix.was.record.identity, *(None if part is None else part.hex() for part in (fix.key, fix.value)))
            for fix in self.fixed
        )
        all_records: list[Fixed | StillBad] = [*self.fixed, *self.bad]
        last_tick = max((item.was.record.tick for item in all_records), default=NO_TICK)
        return f"{last_tick}-{hashlib.sha256(json.dumps(records).encode()).hexdigest()[:16]}"


def approved_fixes(fixes: Fixes, expected_digest: str) -> Fixes:
    """Return the results for the records that a digest covers; nobody has looked at those that came later.

    Raises PlanError if these records have other results now than when the digest was made.
    """
    last_tick = expected_digest.partition("-")[0]
    if not re.fullmatch(r"[0-9]{1,18}", last_tick):
        raise ConfigError(
            f"--expect {expected_digest!r:.80}: expected a digest that `lakehouse repair replay --plan --json` said."
        )
    approved = Fixes(
        tuple(item for item in fixes.fixed if item.was.record.tick <= int(last_tick)),
        tuple(item for item in fixes.bad if item.was.record.tick <= int(last_tick)),
    )
    if approved.digest != expected_digest:
        raise PlanError(
            f"replay: found records and bytes with the digest {approved.digest}, expected {expected_digest!r:.80}, as "
            "they were planned: the fix, the declaration or the quarantine has changed since, or the fix gives other "
            "bytes each time. Plan it again, and look at what counts: lakehouse repair replay --plan."
        )
    return approved


def fixed_records(layout: Layout, app: App, stream: str, choice: QuarantineChoice, fix: FixFunction) -> Fixes:
    """Return the results of a fix for a stream's quarantined records, each decoded as the application declares it now.

    Raises NotFound if none is chosen, PlanError for a stream that the application does not have, ConfigError for an
    edit of several records, NeedsSpark if only Spark can tell whether a record fits.
    """
    source = app.source(stream)
    quarantined = read_quarantined(layout, stream, choice)
    if not quarantined:
        raise NotFound(
            f"stream {stream!r}: no quarantined record was chosen. `lakehouse look quarantine {stream}` lists them."
        )
    if isinstance(fix, Edit) and len(quarantined) > 1:
        record_ids = ", ".join(
            f"{item.place}, {item.record.topic_id}, tick {item.record.tick}" for item in quarantined[:3]
        )
        raise ConfigError(
            f"stream {stream!r}: an edit changes one record, found {len(quarantined)}: {record_ids}. Choose one: by "
            "its place, and by its time if the topic was recreated."
        )
    attempts = [(was, *_try_fix(fix, was.record)) for was in quarantined]
    decided: list[Record] = []
    left_alone: list[Record] = []
    for was, record, reason in attempts:
        if reason is None:
            (decided if fix is leave_unchanged or record != was.record else left_alone).append(record)
    # A person has decided about what a fix changed, or chose without one: it fits, however far ahead its time lies.
    reasons_by_identity = _reasons_bad(layout, replace(source, max_ahead=None), decided)
    reasons_by_identity |= _reasons_bad(layout, source, left_alone)
    fixed_records_now, bad_records = [], []
    for was, record, reason in attempts:
        reason = reason or reasons_by_identity.get(record.identity)
        if reason is None:
            fixed_records_now.append(Fixed(was, record.key, record.value))
        else:
            bad_records.append(StillBad(was, record.key, record.value, reason))
    return Fixes(tuple(fixed_records_now), tuple(bad_records))


def bytes_of_text(
    source: Source, part: Literal["key", "value"], text: str, find_schemas: FindSchemas = find_no_schemas
) -> bytes:
    """Return the bytes of a text: its UTF-8; of a number in format kafka; of JSON in a registered format.

    A registered format writes by the newest schema that fits. find_schemas: gives the schemas of the topic's writers.
    Raises ConfigError for a text that is not such a number, or fits no known schema.
    """
    codec, columns = part_in_topic(source, part)
    if codec.format.window is not None:
        return Codec.encode_typed(codec, text, columns)  # it has the bounds of the window, too
    try:
        schemas = find_schemas(source.topic, part)
        return codec.with_schemas(schemas).encode_typed(text, columns, is_key=part == "key")
    except Unfit as error:
        is_registered = codec.format.traits.is_registered
        advice = f" Or give the bytes: by --{part}-file, or by a function, --fix." if is_registered else ""
        raise ConfigError(f"{part} {text!r}: {error}.{advice}") from error


def _try_fix(fix: FixFunction, record: Record) -> tuple[Record, str | None]:
    """Return the fixed record, or the record itself and why the fix failed."""
    try:
        fixed_record = fix(record)
    except Exception as error:  # only this record fails: the others are still tried
        return record, f"the fix failed: {type(error).__name__}: {error}"
    if isinstance(fixed_record, bytes):
        fixed_record = replace(record, value=fixed_record)
    if fixed_record is None:
        return record, "the fix gave nothing for it"
    if not isinstance(fixed_record, Record):
        return record, f"the fix gave {type(fixed_record).__name__}; expected a record, bytes (its value) or None"
    changed_fields = [f.name for f in fields(Record) if getattr(fixed_record, f.name) != getattr(record, f.name)]
    if other_fields := [name for name in changed_fields if name not in ("key", "value")]:
        return record, f"the fix changed {', '.join(other_fields)}; only key and value may change"
    for name in changed_fields:
        if not isinstance(data := getattr(fixed_record, name), bytes | None):
            return record, f"the fix gave {type(data).__name__} as the {name}; expected bytes or None"
    return fixed_record, None


def _reasons_bad(layout: Layout, source: Source, fixed_records: list[Record]) -> dict[Any, str]:
    """Return why records do not fit a source, by their identity; those that fit are left out."""
    elsewhere = f"it is not of topic {source.topic!r}, which the stream reads now"
    reasons_by_identity: dict[Any, str] = {
        record.identity: elsewhere for record in fixed_records if record.topic != source.topic
    }
    try:
        bad_records = _bad_by_model(layout, source, fixed_records)
    except NeedsSpark as error:
        raise NeedsSpark(
            f"stream {source.name!r}: its event time {source.event_time} can't be computed without Spark, so it is "
            f"not known whether a fixed record fits: {error}"
        ) from error
    return reasons_by_identity | {record.identity: reason for record, reason in bad_records}


def _bad_by_model(layout: Layout, source: Source, records: list[Record]) -> list[tuple[Record, str]]:
    """Return the records that are bad, with the reason.

    An expectation that the model can't judge is left to Spark, which judges the records again. Raises NeedsSpark for an
    event time that it can't tell.
    """
    decode = record_decoder(layout)
    try:
        return model.run(App((), (), (source,)), records, decode).quarantine[source.name]
    except NeedsSpark:
        unjudged_source = replace(source, expectations=())
        return model.run(App((), (), (unjudged_source,)), records, decode).quarantine[source.name]


def replay_refusal(app: App, source: Source) -> str | None:
    """Say why no record of a stream can count with other bytes in an application's tables; None if they can.

    In a join of streams, a record that counts after all changes the results of other records, of any key.
    """
    if not any(source in table.stream.decodes for table in app.tables):
        return f"no table of the application reads stream {source.name!r}; there is nothing to refold."
    labelled_streams = [(f"table {table.name!r}", table.stream) for table in app.tables]
    labelled_streams += [
        (f"topic {sink.topic!r}", sink.source) for sink in app.sinks if isinstance(sink.source, Stream)
    ]
    for label, stream in labelled_streams:
        if any(source in side.decodes for side in meeting_streams(stream)):
            return (
                f"stream {source.name!r} is joined with another stream, for {label}: a record that counts after all "
                "would change what came with other records. Produce the record again, with the right bytes; or let the "
                "stream's declaration accept it, and backfill the table."
            )
    return None
