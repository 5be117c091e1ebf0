"""The audit of a table: the fate of every offset that it has taken in, and whether the sums agree.

Every offset has one fate (`lakehouse.spark.audit.fates`); offsets that bronze lacks are explained, by bronze/gaps or by
Kafka (`lakehouse.run.audit.missing`); the commits' counts, and the table's own counts, agree with bronze; deep: the
table's rows equal those of a refold from bronze.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from lakehouse.errors import NotFound, PlanError
from lakehouse.formats.values.json_text import write_json
from lakehouse.plan.app import App
from lakehouse.plan.evolution.change import change_of, explain_refusal
from lakehouse.plan.operator import Expire, Final
from lakehouse.plan.stream_join import meeting_streams
from lakehouse.plan.table import Table
from lakehouse.run.audit.finding import BACKFILL, REBUILD, Audit, Missing, PartitionAudit, Problem, describe_faults
from lakehouse.run.audit.missing import KafkaAccess, explain_missing
from lakehouse.semantics.time.window import Sliding
from lakehouse.spark.audit import fates, offsets, refolded
from lakehouse.spark.audit.marks import AuditScope
from lakehouse.spark.bronze import interventions
from lakehouse.spark.content import compare_tables, content_of
from lakehouse.spark.open_lake import OpenTable
from lakehouse.spark.silver.writer import latest_complete_tick
from lakehouse.spark.table import late, table_counts, timelines
from lakehouse.spark.table.input import TableInput
from lakehouse.spark.transaction import read_properties, version_and_progress

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROWS_SHOWN = 3
REFOLDS = ("late", "fixed", "refold")
COUNTED = {
    "records": "records of its topics",
    "bad": "records that do not fit",
    "null_keys": "records with a null key",
    "late": "windows that a record came too late for",
}


def audit(
    open_table: OpenTable,
    app: App,
    kafka: KafkaAccess,
    *,
    deep: bool = False,
    listen: Callable[[str], None] = lambda part: None,
) -> Audit:
    """Audit a table of an application, up to the last tick that it has taken in. Its job may go on meanwhile.

    kafka: the Kafka to ask about offsets that bronze lacks. deep: refold the table and compare its rows. listen: called
    with the name of each part as it begins. Raises NotFound for a table that does not exist, PlanError for a table
    whose declaration has changed so that its rows would differ.
    """
    table = open_table.table
    app.table(table.name)
    visible_place = open_table.visible
    if not open_table.table_exists():
        raise NotFound(f"table {table.name!r} does not exist in {open_table.layout.root}. Run its application first.")
    change = change_of(read_properties(open_table.spark, visible_place.path), table)
    if not change.can_go_on:
        raise PlanError(explain_refusal(table.name, change))
    table_version, progress = version_and_progress(open_table.spark, visible_place)
    tick, complete_tick = progress.tick, latest_complete_tick(open_table.lake)

    if table.stream.tables or meeting_streams(table.stream):
        listen("refold")
        return _audit_over_tables(open_table, table_version, (tick, complete_tick))
    listen("offsets")
    extents = offsets.partition_extents(open_table.lake, table.stream, tick)
    commit_counts = table_counts.count_by_commits(open_table.lake, open_table.state, tick)
    skip = open_table.read_skipped_offsets()
    all_decisions = interventions.read_interventions(open_table.lake, table.name)
    if waiting_ticks := [
        decision.at for decision in all_decisions if decision.at > tick and decision.details.get("changed")
    ]:
        raise PlanError(
            f"table {table.name!r} will be swapped at tick {waiting_ticks[0]}, and is at tick {tick}: it has the new "
            "declaration, and the old rows. Run its application, or the backfill again, and audit it then."
        )
    decisions = [decision for decision in all_decisions if decision.at <= tick]
    redeclared = commit_counts.redeclared or change.kind != "same"
    scope = AuditScope(open_table, tick, table_version, extents, deep, redeclared, skip, decisions)
    listen("fates")
    fate_counts = fates.count_fates(scope)
    listen("missing offsets")
    explanation = explain_missing(scope, fate_counts, kafka)
    table_audit = _TableAudit(scope, fate_counts, commit_counts, is_read=bool(app.tables_below(table)))
    listen("sums")
    row_count, sums = table_audit.compare_sums()
    audit_result = Audit(
        table.name,
        tick,
        complete_tick,
        TableInput(open_table.lake, table.stream).rows(tick, complete_tick).count(),
        row_count,
        deep,
        table_audit.audit_partitions(explanation.by_number),
        [*explanation.problems, *table_audit.report_faults(), *table_audit.compare_commits(), *sums],
        explanation.notes,
    )
    if tick > complete_tick:
        ahead = Problem(
            f"the table is at tick {tick}, bronze at {complete_tick}", "bronze ahead of its tables", REBUILD
        )
        audit_result.problems.append(replace(ahead, do=REBUILD.format(table=table.name)))
    audit_result.notes.extend(table_audit.list_notes())
    if deep:
        listen("refold")
        audit_result.problems.extend(table_audit.compare_rows())
    return audit_result


_NOT_CHECKED = (
    "the table was restored from a topic: this lake's bronze does not have the restored rows, and they were not checked"
)


def _audit_over_tables(open_table: OpenTable, version: int, ticks: tuple[int, int]) -> Audit:
    """Audit a table that reads tables, or a join of streams: refold its rows.

    The audits of the tables that it reads say each record's fate; in a join of streams a record has no fate of its own.
    """
    table = open_table.table
    path = open_table.visible.path
    row_count, _ = table_counts.count_by_rows(open_table.lake, path, version, ())
    table_rows, remedy = open_table.lake.read(path, version), BACKFILL.format(table=table.name)
    # A table over rows begins with the rows of the tables above, restored or not; any other table with its own.
    begins_restored = open_table.read_skipped_offsets() is not None and not table.stream.undoes
    problems: list[Problem] = []
    try:
        if not begins_restored:
            problems += _report_differences(table, table_rows, *_refold_rows(open_table, ticks[0], remedy))
    except NotFound as error:
        problems = [Problem("rows that can't be folded from bronze yet", "rows that can", str(error))]
    upstream_names = ", ".join(dict.fromkeys(upstream.name for upstream in table.stream.reads))
    waiting_count = TableInput(open_table.lake, table.stream).rows(*ticks).count()
    notes = [
        f"it reads {upstream_names}: what became of the records is in the audits of these; here the rows were refolded"
    ]
    if not upstream_names:
        notes = ["its stream joins streams: what became of a record depends on others; here the rows were refolded"]
    if meeting_streams(table.stream) and not begins_restored:
        fault, note = _compare_too_late(open_table, ticks[0])
        problems += fault
        notes += note
    if begins_restored:
        notes = [_NOT_CHECKED]
    return Audit(table.name, *ticks, waiting_count, row_count, True, [], problems, notes)


def _compare_too_late(open_table: OpenTable, tick: int) -> tuple[list[Problem], list[str]]:
    """Compare the kept records that came too late for the joins of a table's stream with those that bronze gives."""
    table = open_table.table
    expected_count, late_rows = refolded.count_too_late(open_table, tick), late.late_rows_at(open_table, tick, ())
    late_count = 0 if late_rows is None else late_rows.where("join_name IS NOT NULL").count()
    late_name = f"late.{table.name}"
    if late_count != expected_count:
        description = f"{late_count:,} records in {late_name} that came too late for a join"
        return [Problem(description, f"{expected_count:,}", BACKFILL.format(table=table.name))], []
    return [], [f"{late_count:,} records came too late for a join, and are in {late_name}"] if late_count else []


def _refold_rows(open_table: OpenTable, tick: int, remedy: str) -> tuple[DataFrame, str]:
    """Return a table's rows from bronze, and the advice for a table with other rows."""
    try:
        return refolded.refold_visible_rows(open_table, tick), remedy
    except NotFound as error:  # a table above has other logic by now
        return refolded.rebuild_visible_rows(open_table, tick), str(error)


def _report_differences(
    table: Table, table_rows: DataFrame, refolded_rows: DataFrame, remedy: str
) -> Iterator[Problem]:
    if content_of(table_rows) == content_of(refolded_rows):
        return
    differences = compare_tables(table.key, table_rows, refolded_rows, ROWS_SHOWN)
    yield Problem(
        f"the table has {differences.removed + differences.changed:,} rows that a refold from bronze does not have"
        + _format_examples((row_change["key"], row_change["before"]) for row_change in differences.changes),
        f"{differences.added + differences.changed:,} others"
        + _format_examples((row_change["key"], row_change["after"]) for row_change in differences.changes),
        remedy,
    )


class _TableAudit:
    """One table's fates, compared with the other sources: commits, rows, a refold."""

    def __init__(
        self,
        scope: AuditScope,
        fate_counts: list[fates.FateCounts],
        commit_counts: table_counts.CommitCounts,
        *,
        is_read: bool,
    ) -> None:
        self._scope, self._opened, self._lake = scope, scope.open_table, scope.open_table.lake
        self._table, self._fate_counts, self._commit_counts = scope.table, fate_counts, commit_counts
        self._rebuild = REBUILD.format(table=self._table.name)
        self._refill = BACKFILL.format(table=self._table.name) if is_read else self._rebuild

    def audit_partitions(self, missing: dict[int, Missing]) -> list[PartitionAudit]:
        counts_by_part = {counts.part: counts for counts in self._fate_counts}
        partition_audits = []
        for part_number, extent in enumerate(self._scope.extents):
            counts = counts_by_part.get(part_number)
            partition_audits.append(
                PartitionAudit(
                    extent.topic, extent.topic_id, extent.partition, extent.first, extent.next, extent.records,
                    counts.offsets if counts else 0, counts.fates if counts else dict.fromkeys(fates.FATES, 0),
                    counts.partly_late if counts else 0, missing.get(part_number, Missing()),
                )
            )  # fmt: skip
        return partition_audits

    def report_faults(self) -> Iterator[Problem]:
        for counts in sorted(self._fate_counts, key=lambda counts: -1 if counts.part is None else counts.part):
            place = "a partition that bronze does not know"
            if counts.part is not None:
                extent = self._scope.extents[counts.part]
                place = f"topic {extent.topic} (id {extent.topic_id}) partition {extent.partition}"
            yield from describe_faults(self._table.name, place, counts.faults)

    def compare_commits(self) -> Iterator[Problem]:
        """Compare the commits' counts with bronze, if the log has all commits."""
        if not self._commit_counts.whole:
            return
        readers_by_topic = {
            topic: sum(s.topic == topic for s in self._table.stream.sources) for topic in self._topics()
        }
        known_counts = [counts for counts in self._fate_counts if counts.part is not None]
        bronze_counts = {
            "records": sum(
                counts.records * readers_by_topic[self._scope.extents[counts.part or 0].topic]
                for counts in known_counts
            ),
            "bad": sum(counts.bad for counts in known_counts),
            "null_keys": sum(counts.null_keys for counts in known_counts),
            "late": sum(counts.late for counts in known_counts),
        }
        counts_by_name = asdict(self._commit_counts.counts)
        for name, meaning in COUNTED.items():
            if (commit_count := counts_by_name[name]) != bronze_counts[name]:
                yield Problem(
                    f"its commits counted {commit_count:,} {meaning}",
                    f"the {bronze_counts[name]:,} that bronze has now",
                    f"`lakehouse past log {self._table.name}` shows the commits. {self._rebuild}",
                )

    def compare_sums(self) -> tuple[int, list[Problem]]:
        """Count the table's rows; compare the records counted in what it keeps with the records applied."""
        table = self._table
        row_count, _ = table_counts.count_by_rows(self._lake, self._opened.visible.path, self._scope.version, ())
        column_names = [item.name for item in table.fold.aggregations if item.kind == "count" and item.argument is None]
        # For these, the rows do not hold all applied records, or hold some more than once.
        removes_rows = any(isinstance(operator, Final | Expire) for operator in table.later_operators)
        is_partial = removes_rows or table.is_history or isinstance(table.fold.window, Sliding)
        if not column_names or is_partial or self._scope.skip or self._scope.is_repaired:
            return row_count, []
        state_place = self._opened.state
        version, progress = version_and_progress(self._lake.spark, state_place)
        if progress.tick != self._scope.tick:  # the job has gone on meanwhile
            version = timelines.version_at_tick(self._opened, self._scope.tick, state_place)
        _, sums_by_column = table_counts.count_by_rows(self._lake, state_place.path, version, column_names)
        applied = sum(counts.applied for counts in self._fate_counts)
        meaning = "records applied" if not table.windows else "records applied, each once for a window"
        return row_count, [
            Problem(f"column {name} adds up to {total:,} over all groups", f"{applied:,}: {meaning}", self._rebuild)
            for name, total in sums_by_column.items()
            if total != applied
        ]

    def compare_rows(self) -> Iterator[Problem]:
        """Compare the table's rows with those of a refold from bronze and the interventions."""
        if self._scope.skip:
            return
        table_rows = self._lake.read(self._opened.visible.path, self._scope.version)
        refolded_rows = refolded.refold_visible_rows(self._opened, self._scope.tick)
        yield from _report_differences(self._table, table_rows, refolded_rows, self._refill)

    def list_notes(self) -> Iterator[str]:
        if not self._commit_counts.whole:
            yield "the table's log no longer has all its commits: what they counted was not compared"
        if self._scope.redeclared:
            yield (
                "the declaration has changed since the table was made: what was judged under an earlier one is "
                "compared with what this one says"
            )
        if self._scope.is_repaired:
            rows_note = "" if self._scope.is_latest else "; only --deep compares them"
            yield (
                "the table was reverted, or has fixed records: its rows are not what the records alone lead to"
                + rows_note
            )
        decision_kinds = [decision.kind for decision in self._scope.in_effect]
        if "revert" in decision_kinds and not {*decision_kinds[decision_kinds.index("revert") :]}.isdisjoint(REFOLDS):
            yield (
                "after the revert some keys were rebuilt, with all their records: the rows of these keys may contain "
                "records that are called taken back"
            )
        if self._scope.skip:
            yield _NOT_CHECKED
        if not self._scope.judges_in_sql and not self._scope.deep:
            yield (
                "what is late for sessions and sliding windows was read from late/ and compared with the commits' "
                "counts only; --deep judges it again"
            )

    def _topics(self) -> tuple[str, ...]:
        return self._table.stream.topics


def _format_examples(rows: Iterable[tuple[dict[str, Any], dict[str, Any] | None]]) -> str:
    """Return some rows as JSON, from pairs of a key and its values; a key without values has no row."""
    texts = [write_json({**key, **row}) for key, row in rows if row is not None]
    return f", such as {'; '.join(texts)}" if texts else ""
