"""Quarantine replay: records that did not fit their schema count with other bytes, each at its original position.

The fix is an intervention: bronze and the quarantine keep the original bytes. A replay refolds only what depends on the
record: the rows of its keys, in the tables that read its stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from lakehouse.errors import NotFound, PlanError
from lakehouse.plan.app import App
from lakehouse.plan.origin import Source
from lakehouse.run.repair.fixes import replay_refusal
from lakehouse.run.repair.intervene import NO_REASON, Why, intervene
from lakehouse.semantics.position import Identity
from lakehouse.spark.bronze import interventions
from lakehouse.spark.history import fixed_records, refold
from lakehouse.spark.history.fixed_records import FixedBytes
from lakehouse.spark.open_lake import OpenLake, OpenTable
from lakehouse.spark.table.input import is_skipped

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def replay(
    lake: OpenLake,
    app: App,
    source: Source,
    fixes: Iterable[FixedBytes],
    *,
    why: Why = NO_REASON,
    again: bool = False,
    instead: bool = False,
) -> int | None:
    """Let quarantined records of a stream count with other bytes, in all tables of the application that read it.

    again: leave out records that were fixed before, for a caller that can't know whether an earlier try succeeded.
    instead: records that were fixed before get the new bytes. A fix that a revert of a table took back does not count
    as a fix. Returns the tick of the intervention; None if no record was left. Raises NotFound for a record that is not
    in the quarantine, PlanError for a record that does not fit with its new bytes either, was fixed before, or came
    before the restore of a table that reads it, and if no table reads the stream.
    """
    if (refusal := replay_refusal(app, source)) is not None:
        raise PlanError(refusal)
    reader_names = [table.name for table in app.tables if source in table.stream.decodes]
    fixes_by_identity = {Identity(fix.topic_id, fix.partition, fix.offset): fix for fix in fixes}
    record_rows = fixed_records.fixed_rows(lake, source, list(fixes_by_identity.values())).persist()
    try:
        if missing_identities := sorted(set(fixes_by_identity) - set(fixed_records.read_identities(record_rows))):
            raise NotFound(
                f"quarantine.{source.name} has no record {_format_identities(missing_identities)}. `lakehouse look "
                "quarantine` lists them."
            )
        if unfit := fixed_records.unfit_identities(source, record_rows):
            raise PlanError(
                f"stream {source.name!r}: record {_format_identities(unfit)} does not fit with its new bytes either."
            )
        for name in reader_names:
            _refuse_before_restore(lake.open(app.table(name)), record_rows)
        fixed_before = [
            set(fixed_records.fixed_before(lake, name, record_rows, alike=instead)) for name in reader_names
        ]
        if already_fixed := set.intersection(*fixed_before):
            remaining_fixes = [fix for identity, fix in fixes_by_identity.items() if identity not in already_fixed]
            if not again and not (instead and remaining_fixes):
                advice = (
                    "with these bytes"
                    if instead
                    else "--open or --again leaves such out, --instead gives them the new bytes"
                )
                raise PlanError(
                    f"stream {source.name!r}: record {_format_identities(sorted(already_fixed))} was fixed before; "
                    f"{advice}."
                )
            if not remaining_fixes:
                return None
            return replay(lake, app, source, remaining_fixes, why=why, again=again, instead=instead)
        records_id = interventions.keep_records(lake, record_rows)
    finally:
        record_rows.unpersist()
    request = why.to_request("fixed", reader_names, {"stream": source.name}, records_id)
    return intervene(lake, app, request)


def _refuse_before_restore(open_table: OpenTable, rows: DataFrame) -> None:
    """Refuse records that a restored table's changelog covers: the other lake decided whether they count."""
    if not open_table.exists:
        return
    skip = open_table.skip
    if skip is None:
        return
    if covered_records := fixed_records.read_identities(rows.where(is_skipped(skip))):
        raise PlanError(
            f"table {open_table.name!r} was restored from a topic that covers record "
            f"{_format_identities(covered_records)}: whether it counts was "
            "decided in the lake that published, which may have fixed it, and this one can't tell. Fix it there and "
            "restore again; or leave it out here: records that came after the restore can be fixed."
        )
    refold.check_restored_rows(
        open_table
    )  # the rows that the fix is folded onto must exist, before anything is written


def _format_identities(identities: Sequence[Identity]) -> str:
    shown_texts = [f"{partition}@{offset} (topic id {topic_id})" for topic_id, partition, offset in identities[:5]]
    return ", ".join(shown_texts) + (", ..." if len(identities) > len(shown_texts) else "")
