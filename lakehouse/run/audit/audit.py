"""The audit of a table: what became of every offset that it has taken in, and whether the sums agree.

Every offset has one fate (`lakehouse.spark.audit.fates`); offsets that bronze lacks are explained, by bronze/gaps or by
Kafka (`lakehouse.run.audit.missing`); the commits' counts, and the table's own counts, agree with bronze; deep: the
table's rows equal those of a refold from bronze.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lakehouse.errors import NotFound, PlanError
from lakehouse.formats.json_text import write
from lakehouse.lake.earlier import check_rows
from lakehouse.plan.app import App
from lakehouse.plan.evolution.change import change_of, refusal
from lakehouse.plan.operator import Expire, Final
from lakehouse.plan.stream_join import meetings
from lakehouse.plan.table import Table
from lakehouse.run.audit.finding import BACKFILL, REBUILD, Audit, Missing, PartitionAudit, Problem, faults
from lakehouse.run.audit.missing import Asked, explained
from lakehouse.semantics.window import Sliding
from lakehouse.spark.audit import fates, offsets, refolded
from lakehouse.spark.audit.marks import Scope
from lakehouse.spark.bronze import interventions
from lakehouse.spark.open_lake import OpenTable
from lakehouse.spark.operators.content import content, difference
from lakehouse.spark.silver.writer import latest_complete_tick
from lakehouse.spark.table import counted, late, travel
from lakehouse.spark.table.input import Input
from lakehouse.spark.transaction import properties, standing

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
    opened: OpenTable,
    app: App,
    kafka: Asked,
    *,
    deep: bool = False,
    listen: Callable[[str], None] = lambda part: None,
) -> Audit:
    """Audit a table of an application, up to the last tick that it has taken in. Its job may go on meanwhile.

    kafka: what to ask about offsets that bronze lacks. deep: refold the table and compare its rows. listen: is told
    each part of the audit. Raises NotFound for a table that does not exist, PlanError for one whose declaration has
    changed so that its rows would differ.
    """
    table = opened.table
    app.table(table.name)
    seen = opened.visible
    if not opened.exists:
        raise NotFound(f"table {table.name!r} does not exist in {opened.layout.root}. Run its application first.")
    change = change_of(properties(opened.spark, seen.path), table)
    if not change.can_go_on:
        raise PlanError(refusal(table.name, change))
    check_rows(opened.lake.read(seen.path).select("_position.*").columns, table.name)
    version, progress = standing(opened.spark, seen)
    tick, complete = progress.tick, latest_complete_tick(opened.lake)

    if table.stream.tables or meetings(table.stream):
        listen("refold")
        return _over_tables(opened, version, (tick, complete))
    listen("offsets")
    known = offsets.partitions(opened.lake, table.stream, tick)
    said = counted.by_commits(opened.lake, opened.state, tick)
    skip = opened.skip
    every = interventions.of(opened.lake, table.name)
    if waiting := [at.at for at in every if at.at > tick and at.details.get("changed")]:
        raise PlanError(
            f"table {table.name!r} will be swapped at tick {waiting[0]}, and is at tick {tick}: it has the new "
            "declaration, and the old rows. Run its application, or the backfill again, and audit it then."
        )
    decisions = [at for at in every if at.at <= tick]
    redeclared = said.redeclared or change.kind != "same"
    scope = Scope(opened, tick, version, known, deep, redeclared, skip, decisions)
    listen("fates")
    told = fates.fates(scope)
    listen("missing offsets")
    missing = explained(scope, told, kafka)
    made = _Audited(scope, told, said, is_read=bool(app.below(table)))
    listen("sums")
    rows, sums = made.sums()
    result = Audit(
        table.name, tick, complete, Input(opened.lake, table.stream).rows(tick, complete).count(), rows, deep,
        made.partitions(missing.by_number), [*missing.problems, *made.faults(), *made.commits(), *sums], missing.notes,
    )  # fmt: skip
    if tick > complete:
        ahead = Problem(f"the table is at tick {tick}, bronze at {complete}", "bronze ahead of its tables", REBUILD)
        result.problems.append(replace(ahead, do=REBUILD.format(table=table.name)))
    result.notes.extend(made.notes())
    if deep:
        listen("refold")
        result.problems.extend(made.content())
    return result


_NOT_CHECKED = (
    "the table was restored from a topic: this lake's bronze does not have the restored rows, and they were not checked"
)


def _over_tables(opened: OpenTable, version: int, ticks: tuple[int, int]) -> Audit:
    """The audit of a table that reads tables, or a join of streams: its rows are refolded.

    A record's fate is told by the audits of the tables that are read; in a join of streams it has none of its own.
    """
    table = opened.table
    path = opened.visible.path
    rows, _ = counted.by_rows(opened.lake, path, version, ())
    here, do = opened.lake.read(path, version), BACKFILL.format(table=table.name)
    # What is made of rows begins with those of the tables above, restored or not; all else with its own.
    began = opened.skip is not None and not table.stream.undoes
    problems: list[Problem] = []
    try:
        if not began:
            problems += _differing(table, here, *_refolded(opened, ticks[0], do))
    except NotFound as error:
        problems = [Problem("rows that can't be folded from bronze yet", "rows that can", str(error))]
    names = ", ".join(dict.fromkeys(upstream.name for upstream in table.stream.reads))
    waiting = Input(opened.lake, table.stream).rows(*ticks).count()
    notes = [f"it reads {names}: what became of the records is in the audits of these; here the rows were refolded"]
    if not names:
        notes = ["its stream joins streams: what became of a record depends on others; here the rows were refolded"]
    if meetings(table.stream) and not began:
        fault, note = _too_late(opened, ticks[0])
        problems += fault
        notes += note
    if began:
        notes = [_NOT_CHECKED]
    return Audit(table.name, *ticks, waiting, rows, True, [], problems, notes)


def _too_late(opened: OpenTable, tick: int) -> tuple[list[Problem], list[str]]:
    """The records that came too late for the joins of a table's stream: those kept, against those that bronze gives."""
    table = opened.table
    expected, here = refolded.too_late(opened, tick), late.rows_at(opened, tick, ())
    found = 0 if here is None else here.where("join_name IS NOT NULL").count()
    where = f"late.{table.name}"
    if found != expected:
        what = f"{found:,} records in {where} that came too late for a join"
        return [Problem(what, f"{expected:,}", BACKFILL.format(table=table.name))], []
    return [], [f"{found:,} records came too late for a join, and are in {where}"] if found else []


def _refolded(opened: OpenTable, tick: int, do: str) -> tuple[DataFrame, str]:
    """A table's rows from bronze, and what to do if it has others."""
    try:
        return refolded.refolded(opened, tick), do
    except NotFound as error:  # a table above has other logic since
        return refolded.rebuilt(opened, tick), str(error)


def _differing(table: Table, here: DataFrame, there: DataFrame, do: str) -> Iterator[Problem]:
    if content(here) == content(there):
        return
    found = difference(table.key, here, there, ROWS_SHOWN)
    yield Problem(
        f"the table has {found.removed + found.changed:,} rows that a refold from bronze does not have"
        + _some((one["key"], one["before"]) for one in found.changes),
        f"{found.added + found.changed:,} others" + _some((one["key"], one["after"]) for one in found.changes),
        do,
    )


class _Audited:
    """One table's fates, compared with the other sources: commits, rows, a refold."""

    def __init__(
        self, scope: Scope, told: list[fates.FateCounts], said: counted.Counted, *, is_read: bool
    ) -> None:  # fmt: skip
        self._scope, self._opened, self._lake = scope, scope.opened, scope.opened.lake
        self._table, self._told, self._said = scope.table, told, said
        self._rebuild = REBUILD.format(table=self._table.name)
        self._refill = BACKFILL.format(table=self._table.name) if is_read else self._rebuild

    def partitions(self, missing: dict[int, Missing]) -> list[PartitionAudit]:
        by_part = {told.part: told for told in self._told}
        found = []
        for number, item in enumerate(self._scope.known):
            told = by_part.get(number)
            found.append(
                PartitionAudit(
                    item.topic, item.topic_id, item.partition, item.first, item.next, item.records,
                    told.offsets if told else 0, told.fates if told else dict.fromkeys(fates.FATES, 0),
                    told.partly_late if told else 0, missing.get(number, Missing()),
                )
            )  # fmt: skip
        return found

    def faults(self) -> Iterator[Problem]:
        for told in sorted(self._told, key=lambda told: -1 if told.part is None else told.part):
            where = "a partition that bronze does not know"
            if told.part is not None:
                item = self._scope.known[told.part]
                where = f"topic {item.topic} (id {item.topic_id}) partition {item.partition}"
            yield from faults(self._table.name, where, told.faults)

    def commits(self) -> Iterator[Problem]:
        """The commits' counts, if the log has all commits."""
        if not self._said.whole:
            return
        readers = {topic: sum(s.topic == topic for s in self._table.stream.sources) for topic in self._topics()}
        numbered = [told for told in self._told if told.part is not None]
        found = {
            "records": sum(told.records * readers[self._scope.known[told.part or 0].topic] for told in numbered),
            "bad": sum(told.bad for told in numbered),
            "null_keys": sum(told.null_keys for told in numbered),
            "late": sum(told.late for told in numbered),
        }
        for name, what in COUNTED.items():
            if (counted_then := self._said.counts[name]) != found[name]:
                yield Problem(
                    f"its commits counted {counted_then:,} {what}", f"the {found[name]:,} that bronze has now",
                    f"`lakehouse past log {self._table.name}` shows the commits. {self._rebuild}",
                )  # fmt: skip

    def sums(self) -> tuple[int, list[Problem]]:
        """The table's rows; and the counts of all records in what it keeps, which must be the records applied."""
        table = self._table
        rows, _ = counted.by_rows(self._lake, self._opened.visible.path, self._scope.version, ())
        names = [item.name for item in table.fold.aggregations if item.kind == "count" and item.argument is None]
        # For these, the rows do not hold all applied records, or hold some more than once.
        leave = any(isinstance(operator, Final | Expire) for operator in table.behind)
        partial = leave or isinstance(table.fold.window, Sliding)
        if not names or partial or self._scope.skip or self._scope.put_right:
            return rows, []
        kept = self._opened.state
        version, progress = standing(self._lake.spark, kept)
        if progress.tick != self._scope.tick:  # the job went on meanwhile
            version = travel.version_at_tick(self._opened, self._scope.tick, kept)
        _, sums = counted.by_rows(self._lake, kept.path, version, names)
        applied = sum(told.applied for told in self._told)
        what = "records applied" if not table.windows else "records applied, each once for a window"
        return rows, [
            Problem(f"column {name} adds up to {total:,} over all groups", f"{applied:,}: {what}", self._rebuild)
            for name, total in sums.items()
            if total != applied
        ]

    def content(self) -> Iterator[Problem]:
        """The table's rows against those of a refold from bronze and the interventions."""
        if self._scope.skip:
            return
        here = self._lake.read(self._opened.visible.path, self._scope.version)
        there = refolded.refolded(self._opened, self._scope.tick)
        yield from _differing(self._table, here, there, self._refill)

    def notes(self) -> Iterator[str]:
        if not self._said.whole:
            yield "the table's log no longer has all its commits: what they counted was not compared"
        if self._scope.redeclared:
            yield (
                "the declaration has changed since the table was made: what was judged under an earlier one is "
                "compared with what this one says"
            )
        if self._scope.put_right:
            of_rows = "" if self._scope.is_latest else "; only --deep compares them"
            yield (
                "the table was reverted, or has fixed records: its rows are not what the records alone lead to"
                + of_rows
            )
        kinds = [at.kind for at in self._scope.in_effect]
        if "revert" in kinds and not {*kinds[kinds.index("revert") :]}.isdisjoint(REFOLDS):
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


def _some(rows: Iterable[tuple[dict[str, Any], dict[str, Any] | None]]) -> str:
    """Some rows as JSON, from pairs of a key and its values; a key without values has no row."""
    texts = [write({**key, **row}) for key, row in rows if row is not None]
    return f", such as {'; '.join(texts)}" if texts else ""
