"""A table folded from bronze and the interventions alone."""

from __future__ import annotations

from pyspark.sql import DataFrame

from lakehouse.errors import NotFound
from lakehouse.lake.moment.cut import Cut
from lakehouse.spark.open_lake import OpenTable
from lakehouse.spark.past import present
from lakehouse.spark.past.moments import Past


def refolded(opened: OpenTable, tick: int) -> DataFrame:
    """Return the visible rows of a table at a tick that it has taken in, folded from bronze and the interventions.

    For any table, whatever it keeps beside its visible rows. Raises NotFound for one that was restored from a topic:
    what it began with is in no bronze.
    """
    if opened.skip:
        raise NotFound(
            f"table {opened.name!r} was restored from a topic: this lake's bronze does not have its restored rows, so "
            "it can't be folded from bronze."
        )
    return _shown(Past(opened).visible(Cut(tick), anchored=False))


def rebuilt(opened: OpenTable, tick: int) -> DataFrame:
    """Return the visible rows that a backfill would give, at a tick. Raises NotFound if a table above comes first."""
    return _shown(Past(present.from_nothing(opened)).visible(Cut(tick), anchored=False))


def _shown(made: DataFrame) -> DataFrame:
    return made.select(*[f"`{name}`" for name in made.columns if not name.startswith("_")])
