"""A table at a moment, as a new table: from a version, from bronze alone, or from the published changelog alone.

No application owns or writes the new table. The three ways must give the same content.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from lakehouse.errors import ConfigError, NotFound, StorageError
from lakehouse.lake.control.lease import Lease
from lakehouse.lake.control.writer_leases import table_lease
from lakehouse.lake.erasure.erasure_log import read_erasures
from lakehouse.lake.layout import Layout
from lakehouse.lake.moment.cut import Cut
from lakehouse.lake.properties import KEY
from lakehouse.phases import phase
from lakehouse.plan.expression.schema import check_name
from lakehouse.plan.names.field import in_backticks
from lakehouse.plan.table import Table
from lakehouse.run.repair.backfill import ShowProgress, build, ignore_progress
from lakehouse.run.repair.carry_out import remove_build
from lakehouse.run.repair.restore import Published, changelog_rows
from lakehouse.semantics.difference import Difference
from lakehouse.semantics.moment import At, AtTick
from lakehouse.spark.content import Content, compare_tables, content_of
from lakehouse.spark.history import reading
from lakehouse.spark.history.moments import Past
from lakehouse.spark.jvm import folders
from lakehouse.spark.open_lake import OpenTable
from lakehouse.spark.silver.writer import latest_complete_tick
from lakehouse.spark.transaction import read_properties

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

RebuildSource = Literal["version", "bronze", "changelog"]
ORIGINS: tuple[RebuildSource, ...] = ("version", "bronze", "changelog")
MADE_OF = "lakehouse.made_of"
EXAMPLES = 5


@dataclass(frozen=True, slots=True)
class Proof:
    """A way to a table's content, and the seconds that it took; `refused` says why it can't give the moment."""

    origin: RebuildSource
    content: Content | None
    seconds: float
    refused: str | None = None


@dataclass(frozen=True, slots=True)
class Backtested:
    """The results of two declarations over the same records, up to a tick, and how the second result differs."""

    tick: int
    first: Content
    second: Content
    differing: Difference


def checkout(open_table: OpenTable, name: str, moment: At | None, *, again: bool = False) -> Content:
    """Make a new table of a table's visible rows at a moment; return its content.

    again: keep a table of that name and the same moment, and return its content, for a caller that can't know whether
    an earlier try succeeded. Raises StorageError if there is another table of that name, NotFound for a moment that is
    not available.
    """
    origin_details = {"at": str(moment or "now")}
    path = open_table.layout.silver(check_name(name, "table"))
    if (
        again
        and open_table.lake.exists(path)
        and read_properties(open_table.spark, path).get(MADE_OF) == _describe_origin(open_table.table, origin_details)
    ):
        return content_of(open_table.lake.read(path))
    return _create_beside(open_table, name, reading.read_rows(open_table, moment), origin_details)


def rebuild(
    open_table: OpenTable,
    name: str,
    origin: RebuildSource,
    moment: At | None = None,
    *,
    published: Published | None = None,
    target_layout: Layout | None = None,
) -> Content:
    """Make a new table of a table's content at a moment, from one origin alone; return its content.

    version: Delta's own time travel. bronze: records and interventions, folded from the first one. changelog: the
    published topic. target_layout: the place of the new table, the lake if left out. Raises ConfigError for an origin
    that can't give the moment.
    """
    target_layout = target_layout or open_table.layout
    if origin not in ORIGINS:
        raise ConfigError(f"rebuild from {origin!r}: expected {', '.join(ORIGINS)}.")
    cut = reading.cut_at(open_table, moment or AtTick(reading.applied_tick(open_table)))
    origin_details = {"at": str(moment or "now"), "from": origin}
    if origin == "version":
        return _create_beside(
            open_table.with_layout(target_layout), name, reading.read_version(open_table, moment), origin_details
        )
    if origin == "bronze":
        return _create_beside(
            open_table.with_layout(target_layout),
            name,
            Past(open_table, anchored=False).visible_rows(cut),
            origin_details,
        )
    if published is None:
        raise ConfigError("rebuild from changelog: expected the topic that the changelog was published to.")
    if not cut.is_whole:
        raise ConfigError(
            f"rebuild from changelog at {moment}: a changelog has ticks, versions and commit times; expected one of "
            "them."
        )
    refuse_erased(open_table.layout, open_table.name, cut.tick)
    with changelog_rows(open_table, published, cut.tick) as changelog_frame:
        return _create_beside(open_table.with_layout(target_layout), name, changelog_frame, origin_details)


def refuse_erased(layout: Layout, table_name: str, tick: int) -> None:
    """Raise ConfigError if records of a table were erased after a tick: the topic still has the rows that they made."""
    ticks = [
        erasure.tick
        for erasure in read_erasures(layout)
        if erasure.tick is not None and table_name in erasure.tables and erasure.tick > tick
    ]
    if ticks:
        raise ConfigError(
            f"rebuild from changelog: records of table {table_name!r} were erased at tick {max(ticks)}, and its "
            f"topic may still have the rows of tick {tick} that they made; expected tick {max(ticks)} or a later one. "
            "--from bronze gives the earlier moment without them."
        )


def prove(
    open_table: OpenTable,
    moment: At | None = None,
    published: Published | None = None,
) -> list[Proof]:
    """Rebuild a table at a moment in every available way, into tables that it removes at the end.

    Equal contents prove that Delta's versions, bronze and the changelog agree. Without a moment it is the last tick
    that the table has taken in. Raises NotFound for a table, or a moment, that does not exist.
    """
    table = open_table.table
    moment = moment or AtTick(reading.applied_tick(open_table))
    reading.cut_at(open_table, moment)
    target_layout, proofs = replace(open_table.layout, beside=_beside_name("prove", table)), []
    with Lease(open_table.layout.lease(f"prove-{table.name}"), f"table {table.name!r}, by a proof,"):
        folders.remove_folder(open_table.spark, target_layout.tables)  # a killed proof left it
        try:
            for origin in ORIGINS if published is not None else ORIGINS[:-1]:
                started = time.monotonic()
                try:
                    with phase(f"rebuilding from {origin}"):
                        rebuilt_content = rebuild(
                            open_table, origin, origin, moment, published=published, target_layout=target_layout
                        )
                    proofs.append(Proof(origin, rebuilt_content, time.monotonic() - started))
                except (ConfigError, NotFound) as error:
                    proofs.append(Proof(origin, None, time.monotonic() - started, str(error)))
        finally:
            folders.remove_folder(open_table.spark, target_layout.tables)
    return proofs


def backtest(
    open_table: OpenTable,
    other_table: Table,
    *,
    end_tick: int | None = None,
    listen: ShowProgress = ignore_progress,
) -> Backtested:
    """Fold the same records under two declarations of one table, up to a tick; the live table is not touched.

    Raises ConfigError for tables whose keys differ, NotFound for a tick that bronze does not have.
    """
    table = open_table.table
    if table.key != other_table.key:
        raise ConfigError(
            f"backtest: keys {', '.join(table.key)} and {', '.join(other_table.key)} can't be compared; expected the "
            "same."
        )
    complete_tick = latest_complete_tick(open_table.lake) if open_table.lake.exists(open_table.layout.records) else 0
    tick = end_tick if end_tick is not None else complete_tick
    if tick > complete_tick:
        raise NotFound(f"backtest to tick {tick}: bronze has ticks up to {complete_tick}. Run the application first.")
    with Lease(open_table.layout.lease(f"backtest-{table.name}"), f"table {table.name!r}, by a backtest,"):
        built_tables = [
            build(
                open_table.lake.open(variant), _beside_name(f"backtest_{number}", table), end_tick=tick, listen=listen
            )
            for number, variant in enumerate((table, other_table))
        ]
        rows_before, rows_after = (Past(place).visible_rows(Cut(tick)) for place in built_tables)
        result = Backtested(
            tick,
            content_of(rows_before),
            content_of(rows_after),
            compare_tables(table.key, rows_before, rows_after, EXAMPLES),
        )
        for place in built_tables:
            remove_build(place.lake)
        return result


def _beside_name(purpose: str, table: Table) -> str:
    """Return a name for a table beside the live tables; a table's own name may already have the maximal length."""
    return f"{purpose}_{hashlib.sha256(table.name.encode()).hexdigest()[:12]}"


@phase("writing the new table")
def _create_beside(open_table: OpenTable, name: str, frame: DataFrame, origin_details: Mapping[str, str]) -> Content:
    path = open_table.layout.silver(check_name(name, "table"))
    with table_lease(open_table.layout, name):
        if open_table.lake.exists(path):
            raise StorageError(f"table {name!r} exists in {open_table.layout.root}. Give the new table another name.")
        visible_rows = frame.select(*[f"`{column}`" for column in frame.columns if not column.startswith("_")])
        writer = visible_rows.writeTo(f"delta.{in_backticks(path)}").using("delta")
        writer.tableProperty(KEY, ",".join(open_table.table.key)).tableProperty(
            MADE_OF, _describe_origin(open_table.table, origin_details)
        ).create()
    return content_of(open_table.lake.read(path))


def _describe_origin(table: Table, origin_details: Mapping[str, str]) -> str:
    return json.dumps({"table": table.name, **origin_details})
