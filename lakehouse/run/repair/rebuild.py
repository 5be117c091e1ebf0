"""A table at a moment, as a new table: from a version, from bronze alone, or from the published changelog alone.

A new table has no owner: no application writes it. The three ways must give the same content.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from lakehouse.errors import ConfigError, NotFound, StorageError
from lakehouse.lake.layout import Layout
from lakehouse.lake.lease import Lease
from lakehouse.lake.moment.cut import Cut
from lakehouse.lake.properties import KEY
from lakehouse.plan.schema import check_name
from lakehouse.plan.table import Table
from lakehouse.run.repair.backfill import ShowProgress, build, silent
from lakehouse.run.repair.restore import Published, changelog
from lakehouse.semantics.difference import Difference
from lakehouse.semantics.moment import At, AtTick
from lakehouse.spark import folders
from lakehouse.spark.open_lake import OpenTable
from lakehouse.spark.operators.content import Content, content, difference
from lakehouse.spark.past import reading
from lakehouse.spark.past.moments import Past
from lakehouse.spark.silver.writer import latest_complete_tick
from lakehouse.spark.transaction import properties, quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

RebuildSource = Literal["version", "bronze", "changelog"]
ORIGINS: tuple[RebuildSource, ...] = ("version", "bronze", "changelog")
MADE_OF = "lakehouse.made_of"
EXAMPLES = 5


@dataclass(frozen=True, slots=True)
class Proof:
    """One way to a table's content, and the seconds that it took; `refused` says why it can't give the moment."""

    origin: RebuildSource
    content: Content | None
    seconds: float
    refused: str | None = None


@dataclass(frozen=True, slots=True)
class Backtested:
    """The results of two declarations over the same records, up to a tick, and how the second differs."""

    tick: int
    first: Content
    second: Content
    differing: Difference


def checkout(opened: OpenTable, name: str, at: At | None, *, again: bool = False) -> Content:
    """Make a new table of a table's visible rows at a moment; return its content.

    again: a table of that name and the same moment is kept, and its content returned, for a caller that can't know
    whether an earlier try succeeded. Raises StorageError if there is another table of that name, NotFound for a moment
    that is not available.
    """
    said = {"at": str(at or "now")}
    path = opened.layout.silver(check_name(name, "table"))
    if (
        again
        and opened.lake.exists(path)
        and properties(opened.spark, path).get(MADE_OF) == _made_of(opened.table, said)
    ):
        return content(opened.lake.read(path))
    return _made(opened, name, reading.read(opened, at), said)


def rebuild(
    opened: OpenTable,
    name: str,
    origin: RebuildSource,
    at: At | None = None,
    *,
    published: Published | None = None,
    into: Layout | None = None,
) -> Content:
    """Make a new table of a table's content at a moment, from one origin alone; return its content.

    version: Delta's own time travel. bronze: records and interventions, folded from the first one. changelog: the
    published topic. into: where to put the new table, the lake if left out. Raises ConfigError for an origin that can't
    give the moment.
    """
    into = into or opened.layout
    if origin not in ORIGINS:
        raise ConfigError(f"rebuild from {origin!r}: expected {', '.join(ORIGINS)}.")
    cut = reading.cut(opened, at or AtTick(reading.applied_tick(opened)))
    said = {"at": str(at or "now"), "from": origin}
    if origin == "version":
        return _made(opened.at(into), name, reading.version(opened, at), said)
    if origin == "bronze":
        return _made(opened.at(into), name, Past(opened).visible(cut, anchored=False), said)
    if published is None:
        raise ConfigError("rebuild from changelog: expected the topic that the changelog was published to.")
    if not cut.whole:
        raise ConfigError(
            f"rebuild from changelog at {at}: a changelog has ticks, versions and commit times; expected one of them."
        )
    with changelog(opened, published, cut.tick) as rows:
        return _made(opened.at(into), name, rows, said)


def prove(
    opened: OpenTable,
    at: At | None = None,
    published: Published | None = None,
) -> list[Proof]:
    """Rebuild a table at a moment in every available way, into tables that are then removed.

    Equal contents prove that Delta's versions, bronze and the changelog agree. Without a moment it is the last tick
    that the table has taken in. Raises NotFound for a table, or a moment, that does not exist.
    """
    table = opened.table
    at = at or AtTick(reading.applied_tick(opened))
    reading.cut(opened, at)
    into, proofs = replace(opened.layout, beside=_beside("prove", table)), []
    with Lease(opened.layout.lease(f"prove-{table.name}"), f"table {table.name!r}, by a proof,"):
        folders.remove(opened.spark, into.tables)  # left by a proof that was killed
        try:
            for origin in ORIGINS if published is not None else ORIGINS[:-1]:
                began = time.monotonic()
                try:
                    found = rebuild(opened, origin, origin, at, published=published, into=into)
                    proofs.append(Proof(origin, found, time.monotonic() - began))
                except (ConfigError, NotFound) as error:
                    proofs.append(Proof(origin, None, time.monotonic() - began, str(error)))
        finally:
            folders.remove(opened.spark, into.tables)
    return proofs


def backtest(
    opened: OpenTable,
    other: Table,
    *,
    to: int | None = None,
    listen: ShowProgress = silent,
) -> Backtested:
    """Fold the same records under two declarations of one table, up to a tick; the live table is not touched.

    Raises ConfigError for tables whose keys differ, NotFound for a tick that bronze does not have.
    """
    table = opened.table
    if table.key != other.key:
        raise ConfigError(
            f"backtest: keys {', '.join(table.key)} and {', '.join(other.key)} can't be compared; expected the same."
        )
    complete = latest_complete_tick(opened.lake) if opened.lake.exists(opened.layout.records) else 0
    tick = to if to is not None else complete
    if tick > complete:
        raise NotFound(f"backtest to tick {tick}: bronze has ticks up to {complete}. Run the application first.")
    with Lease(opened.layout.lease(f"backtest-{table.name}"), f"table {table.name!r}, by a backtest,"):
        places = [
            build(opened.lake.open(one), _beside(f"backtest_{number}", table), to=tick, listen=listen)
            for number, one in enumerate((table, other))
        ]
        before, after = (Past(place).visible(Cut(tick)) for place in places)
        made = Backtested(
            tick, content(before), content(after), difference(table.key, before, after, EXAMPLES)
        )  # fmt: skip
        for place in places:
            folders.remove(opened.spark, place.layout.tables)
        return made


def _beside(purpose: str, table: Table) -> str:
    """A name for a table built beside the live ones; a table's own name may already have the maximal length."""
    return f"{purpose}_{hashlib.sha256(table.name.encode()).hexdigest()[:12]}"


def _made(opened: OpenTable, name: str, frame: DataFrame, said: Mapping[str, str]) -> Content:
    path = opened.layout.silver(check_name(name, "table"))
    with Lease(opened.layout.lease(f"silver-{name}"), f"table {name!r}"):
        if opened.lake.exists(path):
            raise StorageError(f"table {name!r} exists in {opened.layout.root}. Give the new table another name.")
        seen = frame.select(*[f"`{column}`" for column in frame.columns if not column.startswith("_")])
        writer = seen.writeTo(f"delta.{quoted(path)}").using("delta")
        writer.tableProperty(KEY, ",".join(opened.table.key)).tableProperty(
            MADE_OF, _made_of(opened.table, said)
        ).create()
    return content(opened.lake.read(path))


def _made_of(table: Table, said: Mapping[str, str]) -> str:
    return json.dumps({"table": table.name, **said})
