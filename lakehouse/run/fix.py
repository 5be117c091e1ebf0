"""Quarantine replay: records that did not fit their schema count with other bytes, each at its original position.

The fix is an intervention: bronze and the quarantine keep what came. What depends on the record is refolded, and only
that: the rows of its keys, in the tables that read its stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from lakehouse.delta import fixed, interventions
from lakehouse.delta.fixed import Fix, Identity
from lakehouse.delta.interventions import Wanted
from lakehouse.delta.layout import Layout
from lakehouse.errors import NotFound, PlanError
from lakehouse.plan.app import App
from lakehouse.plan.step import Source
from lakehouse.run.intervene import intervene

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def replay(
    spark: SparkSession,
    layout: Layout,
    app: App,
    source: Source,
    fixes: Iterable[Fix],
    *,
    reason: str = "",
    again: bool = False,
) -> int | None:
    """Let quarantined records of a stream count with other bytes, in all tables of the application that read it.

    again: those that were fixed before are left out, for who can't know whether an earlier try got so far. Returns the
    tick of the intervention; None where nothing was left of them. Raises NotFound for a record that is not in the
    quarantine, PlanError for one that does not fit with its new bytes either, or was fixed before, and where no table
    reads the stream.
    """
    readers = [table.name for table in app.tables if source in table.stream.sources]
    if not readers:
        raise PlanError(f"no table of the application reads stream {source.name!r}; there is nothing to refold.")
    wanted = {(fix.topic_id, fix.partition, fix.offset): fix for fix in fixes}
    rows = fixed.rows(spark, layout, source, list(wanted.values())).persist()
    try:
        if missing := sorted(set(wanted) - set(fixed.identities(rows))):
            raise NotFound(
                f"quarantine.{source.name} has no record {_shown(missing)}. `lakehouse quarantine` lists them."
            )
        if unfit := fixed.unfit(source, rows):
            raise PlanError(f"stream {source.name!r}: record {_shown(unfit)} does not fit with its new bytes either.")
        for name in readers:
            if done := fixed.fixed_before(spark, layout, name, rows):
                if again:
                    left = [fix for identity, fix in wanted.items() if identity not in done]
                    return replay(spark, layout, app, source, left, reason=reason, again=True) if left else None
                raise PlanError(f"table {name!r}: record {_shown(done)} was fixed before.")
        number = interventions.keep_records(spark, layout, rows)
    finally:
        rows.unpersist()
    return intervene(spark, layout, app, Wanted("fixed", tuple(readers), reason=reason, id=number))


def _shown(identities: Sequence[Identity]) -> str:
    shown = [f"{partition}@{offset} (topic id {topic_id})" for topic_id, partition, offset in identities[:5]]
    return ", ".join(shown) + (", ..." if len(identities) > len(shown) else "")
