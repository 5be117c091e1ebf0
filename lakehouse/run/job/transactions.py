"""A changelog cut into Kafka transactions of bounded size, so that publishing can go on after any interruption.

A transaction ends with a tick: the topic then has the table at that tick, and a lake can be restored from it. A single
tick can be too large for one transaction (a backfill changes all rows at one tick): it is cut, and the cover in
between says how many of its records are in the topic.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import dataclass

from lakehouse.errors import StorageError
from lakehouse.kafka.headers import POSITION, size
from lakehouse.kafka.produce import ProducerRecord

RECORDS, BYTES = 20_000, 16 << 20  # with this many a transaction ends, at the end of their tick
TOO_LARGE = 5  # times that many: it ends in the middle of the tick


@dataclass(frozen=True, slots=True)
class Transaction:
    """What one transaction writes. tick: the last one that is then complete in the topic.

    sent: how many records of the ticks after it are in the topic, too; at: the position of the last one of them, as in
    its header.
    """

    records: list[ProducerRecord]
    tick: int
    sent: int = 0
    at: str | None = None


def cut_changes(
    changes: Iterable[tuple[int, ProducerRecord]], after: int, to: int, sent: int = 0, at: str | None = None
) -> Generator[Transaction]:
    """Cut the changes of the ticks in (after, to], each with its tick, in order. The last part has all up to `to`.

    sent, at: those of an earlier part, for the ticks after `after`; these records are left out. Raises StorageError if
    the changes do not begin with the same records.
    """
    held: list[ProducerRecord] = []
    whole = last = after
    number = volume = 0
    for tick, record in changes:
        # A cut tick ends the transaction at its own end, but never among the records that are left out.
        if tick > last > whole and number >= sent and (sent or _full(held, volume)):
            yield Transaction(held, last)
            whole, held, volume, number, sent = last, [], 0, 0, 0
        last, number = max(last, tick), number + 1
        if number <= sent:
            if number == sent and at is not None and position(record) != at:
                raise _other(after)
            continue
        held.append(record)
        volume += size(record)
        if _full(held, volume, TOO_LARGE):
            sent, at = number, None
            yield Transaction(held, whole, number, position(record))
            held, volume = [], 0
    if number < sent:
        raise _other(after)
    yield Transaction(held, to)


def position(record: ProducerRecord) -> str:
    """Return a record's position, as its header has it."""
    return (dict(record.headers).get(POSITION) or b"").decode()


def _full(held: list[ProducerRecord], volume: int, times: int = 1) -> bool:
    return len(held) >= RECORDS * times or volume >= BYTES * times


def _other(after: int) -> StorageError:
    return StorageError(
        f"the ticks after {after} are published in part, by a declaration other than this one: their changes would not "
        "continue as they began. Run the earlier declaration once, until it has caught up; or publish to another topic."
    )
