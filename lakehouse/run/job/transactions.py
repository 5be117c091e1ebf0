"""A changelog cut into Kafka transactions of bounded size, so that publishing can go on after any interruption.

A transaction ends with a tick: the topic then has the table at that tick, and a lake can be restored from it. A tick
that is too large for one transaction (a backfill changes all rows at one tick) is cut, and the cover in between says
how many of its records are in the topic.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import dataclass

from lakehouse.errors import StorageError
from lakehouse.kafka.headers import POSITION, record_size
from lakehouse.kafka.produce import ProducerRecord

RECORDS, BYTES = 20_000, 16 << 20  # a transaction of this many records ends at the end of the current tick
TOO_LARGE = 5  # times that many: the transaction ends in the middle of the tick


@dataclass(frozen=True, slots=True)
class Transaction:
    """The records of one transaction. tick: the last tick that is then complete in the topic.

    sent_count: how many records of the ticks after it are in the topic, too; sent_position: of the last of them, as in
    its header.
    """

    records: list[ProducerRecord]
    tick: int
    sent_count: int = 0
    sent_position: str | None = None


def cut_changes(
    changes: Iterable[tuple[int, ProducerRecord]],
    after_tick: int,
    last_tick: int,
    sent_count: int = 0,
    sent_position: str | None = None,
) -> Generator[Transaction]:
    """Cut the changes of the ticks in (after_tick, last_tick] into transactions; the last one completes `last_tick`.

    changes: each with its tick, in order. sent_count, sent_position: of an earlier transaction, for the ticks after
    `after_tick`; its records are left out. Raises StorageError if the changes do not begin with the same records.
    """
    pending_records: list[ProducerRecord] = []
    complete_tick = newest_tick = after_tick
    record_number = byte_count = 0
    for tick, record in changes:
        # A cut tick ends the transaction at its own end, but never among the records that are left out.
        if (
            tick > newest_tick > complete_tick
            and record_number >= sent_count
            and (sent_count or _is_full(pending_records, byte_count))
        ):
            yield Transaction(pending_records, newest_tick)
            complete_tick, pending_records, byte_count, record_number, sent_count = newest_tick, [], 0, 0, 0
        newest_tick, record_number = max(newest_tick, tick), record_number + 1
        if record_number <= sent_count:
            if record_number == sent_count and sent_position is not None and position_header(record) != sent_position:
                raise _other_declaration_error(after_tick)
            continue
        pending_records.append(record)
        byte_count += record_size(record)
        if _is_full(pending_records, byte_count, TOO_LARGE):
            sent_count, sent_position = record_number, None
            yield Transaction(pending_records, complete_tick, record_number, position_header(record))
            pending_records, byte_count = [], 0
    if record_number < sent_count:
        raise _other_declaration_error(after_tick)
    yield Transaction(pending_records, last_tick)


def position_header(record: ProducerRecord) -> str:
    """Return a record's position as its header has it."""
    return (dict(record.headers).get(POSITION) or b"").decode()


def _is_full(records: list[ProducerRecord], volume: int, times: int = 1) -> bool:
    return len(records) >= RECORDS * times or volume >= BYTES * times


def _other_declaration_error(after_tick: int) -> StorageError:
    return StorageError(
        f"the ticks after {after_tick} are published in part, by a declaration other than this one: their changes "
        "would not continue as they began. Run the earlier declaration once, until it has caught up; or publish to "
        "another topic."
    )
