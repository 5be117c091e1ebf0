"""The records that an intervention is about: late ones that are taken in, quarantined ones with other bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lakehouse.errors import NotFound, PlanError, StorageError
from lakehouse.lake.in_effect import interventions_in_effect
from lakehouse.lake.record.fixed_records import FixedBytes, format_identities
from lakehouse.plan.origin import Source
from lakehouse.plan.stream_join import reads_one_join
from lakehouse.run.repair.stages import KeepLate, LateChoice
from lakehouse.semantics.commit_number import EVER
from lakehouse.spark.bronze import interventions
from lakehouse.spark.history import fixed_records, refold
from lakehouse.spark.open_lake import OpenLake, OpenTable
from lakehouse.spark.table import late
from lakehouse.spark.table.input import is_skipped

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def late_places(open_table: OpenTable, choice: LateChoice) -> DataFrame:
    """Return the places of the chosen late records that can be taken in, and that no correction in effect took in."""
    late_rows = late.select_late(open_table, choice.key, choice.start, choice.end)
    if not reads_one_join(open_table.table.stream):
        late_rows = late_rows.where("join_name IS NULL")
    # A reverted correction can be made again.
    earlier_corrections = [
        decision
        for decision in interventions_in_effect(
            interventions.read_interventions(open_table.lake, open_table.name), EVER
        )
        if decision.kind == "late"
    ]
    if (corrected_records := interventions.read_intervention_records(open_table.lake, earlier_corrections)) is not None:
        late_rows = late_rows.join(corrected_records.select(*late.PLACE), list(late.PLACE), "left_anti")
    return late_rows.select(*late.PLACE).distinct()


def keep_late(open_table: OpenTable, stage: KeepLate) -> str:
    """Keep the places of late records for an intervention; return its id. Raises StorageError if they changed."""
    record_rows = late_places(open_table, stage.choice).where(f"tick <= {stage.last_tick}").persist()
    try:
        if (record_count := record_rows.count()) != stage.records:
            raise StorageError(
                f"table {open_table.name!r} has {record_count:,} such late records up to tick {stage.last_tick}; "
                f"{stage.records:,} were planned. Plan the correction again."
            )
        return interventions.keep_records(open_table.lake, record_rows)
    finally:
        record_rows.unpersist()


def keep_fixes(lake: OpenLake, source: Source, fixes: Sequence[FixedBytes]) -> str:
    """Keep quarantined records with their new bytes for an intervention; return its id.

    Raises NotFound for a record that is not in the quarantine, PlanError for one that does not fit.
    """
    record_rows = fixed_records.fixed_rows(lake, source, fixes).persist()
    try:
        identities = {fix.identity for fix in fixes}
        if missing_identities := sorted(identities - set(fixed_records.read_identities(record_rows))):
            raise NotFound(
                f"quarantine.{source.name}: found no {format_identities(source.topic, missing_identities)}. `lakehouse "
                "look quarantine` lists them."
            )
        if unfit := fixed_records.unfit_identities(source, record_rows, lake.schemas.find):
            raise PlanError(
                f"stream {source.name!r}: {format_identities(source.topic, unfit)}: the new bytes do not fit either."
            )
        return interventions.keep_records(lake, record_rows)
    finally:
        record_rows.unpersist()


def refuse_before_restore(open_table: OpenTable, source: Source, fixes: Sequence[FixedBytes]) -> None:
    """Refuse records that a restored table's changelog covers: the other lake decided whether they count."""
    if (skip := open_table.read_skipped_offsets()) is None:
        return
    record_rows = fixed_records.fixed_rows(open_table.lake, source, fixes)
    if covered_records := fixed_records.read_identities(record_rows.where(is_skipped(skip))):
        raise PlanError(
            f"table {open_table.name!r} was restored from a topic that covers "
            f"{format_identities(source.topic, covered_records)}: whether it counts was "
            "decided in the lake that published, which may have fixed it, and this one can't tell. Fix it there and "
            "restore again; or leave it out here: records that came after the restore can be fixed."
        )
    # The rows that the fix is folded onto must exist, before anything is written.
    refold.check_restored_rows(open_table)
