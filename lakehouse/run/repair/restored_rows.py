"""The rows of a restored table, from the records of its changelog."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from lakehouse.errors import NotFound, StorageError
from lakehouse.formats.decode import decode_columns
from lakehouse.formats.unfit import Unfit
from lakehouse.kafka.covers import Cover
from lakehouse.kafka.headers import LIMIT
from lakehouse.plan.table import Table
from lakehouse.run.repair.newest import Newest
from lakehouse.semantics.moment import moment
from lakehouse.spark.changelog.published import accumulators_of, columns_of, key_format

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

INSTEAD = "Build the table from bronze; or delete the topic, so that its lake publishes it again, and restore then."


def rows(
    spark: SparkSession, table: Table, cover: Cover, newest: Iterable[Newest], schema: StructType,
    *, going_on: bool = False, kept: bool = False,
) -> Iterator[tuple[int, tuple[Any, ...]]]:  # fmt: skip
    """Yield the rows from the newest records, each with its size in bytes.

    going_on: with all that is needed to take in more. kept: from the topic of all that the table keeps.
    """
    key, value = columns_of(spark, table)
    hidden = accumulators_of(spark, table, kept=kept)
    back = ticks_back(cover)
    for record in newest:
        said = record.said
        try:
            if (shown := decode_columns(said.formats[0], value, record.value)) is None:
                continue
            more = decode_columns("json", hidden, said.accumulators or b"{}") or {}
            names = decode_columns(key_format(key, *said.formats), key, record.key) or {}
        except Unfit as error:
            raise NotFound(f"record {said.where} is not a row of table {table.name!r}: {error}. {INSTEAD}") from None
        if going_on and hidden and said.accumulators is None:
            raise StorageError(
                f"record {said.where} has no accumulators: they have {said.left_out or 0:,} bytes and did not fit, so "
                f"table {table.name!r} could not continue. Raise {LIMIT} of its topic above that and let the key "
                "change once more, or build the table from bronze."
            )
        by = back.get(said.origin, 0)
        row = {
            **names, **shown, **moved(table, more, by), "_event_time": moment(said.event_ms),
            "_position": tuple(said.position._replace(tick=said.position.tick - by)),
        }  # fmt: skip
        yield record.size, tuple(row.get(field.name) for field in schema)


def ticks_back(cover: Cover) -> dict[str, int]:
    """Return, by origin, the number subtracted from its ticks: all of them then end at 0, and stay in their order."""
    back, total = {}, 0
    for origin, end in reversed(cover.ends().items()):
        total += end
        back[origin] = total
    return back


def moved(table: Table, kept: dict[str, Any], by: int) -> dict[str, Any]:
    """Move the accumulators of LATEST and EARLIEST, which hold positions, too; over rows they hold values."""
    for item in () if table.stream.undoes else table.fold.aggregations:
        if item.kind.removesuffix("_k") in ("latest", "earliest"):
            marked = kept.get(f"_acc_{item.name}") or []
            for one in marked if isinstance(marked, list) else [marked]:
                one["at"]["tick"] -= by
    return kept
