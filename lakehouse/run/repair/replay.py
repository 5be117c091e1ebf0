"""Quarantine replay: records that did not fit their schema count with other bytes, each at its original position.

The fix is an intervention: bronze and the quarantine keep the original bytes. Only what depends on the record is
refolded: the rows of its keys, in the tables that read its stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from lakehouse.errors import NotFound, PlanError
from lakehouse.plan.app import App
from lakehouse.plan.origin import Source
from lakehouse.run.repair.fixes import replay_refusal
from lakehouse.run.repair.intervene import UNSAID, Why, intervene
from lakehouse.semantics.position import Identity
from lakehouse.spark.bronze import interventions
from lakehouse.spark.open_lake import OpenLake, OpenTable
from lakehouse.spark.past import fixed, refold
from lakehouse.spark.past.fixed import FixedBytes
from lakehouse.spark.table.input import skipped

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def replay(
    lake: OpenLake,
    app: App,
    source: Source,
    fixes: Iterable[FixedBytes],
    *,
    why: Why = UNSAID,
    again: bool = False,
    instead: bool = False,
) -> int | None:
    """Let quarantined records of a stream count with other bytes, in all tables of the application that read it.

    again: records that were fixed before are left out, for a caller that can't know whether an earlier try succeeded.
    instead: records that were fixed before get the new bytes. A fix that a revert of a table took back does not count
    as one. Returns the tick of the intervention; None if no record was left. Raises NotFound for a record that is not
    in the quarantine, PlanError for one that does not fit with its new bytes either, was fixed before, or came before
    the restore of a table that reads it, and if no table reads the stream.
    """
    if (refused := replay_refusal(app, source)) is not None:
        raise PlanError(refused)
    readers = [table.name for table in app.tables if source in table.stream.decodes]
    wanted = {Identity(fix.topic_id, fix.partition, fix.offset): fix for fix in fixes}
    rows = fixed.rows(lake, source, list(wanted.values())).persist()
    try:
        if missing := sorted(set(wanted) - set(fixed.identities(rows))):
            raise NotFound(
                f"quarantine.{source.name} has no record {_shown(missing)}. `lakehouse look quarantine` lists them."
            )
        if unfit := fixed.unfit(source, rows):
            raise PlanError(f"stream {source.name!r}: record {_shown(unfit)} does not fit with its new bytes either.")
        for name in readers:
            _refuse_before_restore(lake.open(app.table(name)), rows)
        before = [set(fixed.fixed_before(lake, name, rows, alike=instead)) for name in readers]
        if done := set.intersection(*before):
            left = [fix for identity, fix in wanted.items() if identity not in done]
            if not again and not (instead and left):
                how = (
                    "with these bytes"
                    if instead
                    else "--open or --again leaves such out, --instead gives them the new bytes"
                )
                raise PlanError(f"stream {source.name!r}: record {_shown(sorted(done))} was fixed before; {how}.")
            if not left:
                return None
            return replay(lake, app, source, left, why=why, again=again, instead=instead)
        number = interventions.keep_records(lake, rows)
    finally:
        rows.unpersist()
    wanted_here = why.wanted("fixed", readers, {"stream": source.name}, number)
    return intervene(lake, app, wanted_here)


def _refuse_before_restore(opened: OpenTable, rows: DataFrame) -> None:
    """For a restored table: the other lake decided whether a record that its changelog covered counts."""
    if not opened.exists:
        return
    skip = opened.skip
    if skip is None:
        return
    if held := fixed.identities(rows.where(skipped(skip))):
        raise PlanError(
            f"table {opened.name!r} was restored from a topic that covers record {_shown(held)}: whether it counts was "
            "decided in the lake that published, which may have fixed it, and this one can't tell. Fix it there and "
            "restore again; or leave it out here: records that came after the restore can be fixed."
        )
    refold.check_beginning(opened)  # the rows that the fix is folded onto must exist, before anything is written


def _shown(identities: Sequence[Identity]) -> str:
    shown = [f"{partition}@{offset} (topic id {topic_id})" for topic_id, partition, offset in identities[:5]]
    return ", ".join(shown) + (", ..." if len(identities) > len(shown) else "")
