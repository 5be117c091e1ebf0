"""The meaning of a changed declaration for the existing table: whether it can go on, and if not, what to do.

    same         nothing differs
    compatible   the table goes on. A rebuild from bronze would give the same, except as the sentence says; each row
                 is as one of the two declarations would have made it
    refold       rows have the same key but would have other values: they must be rebuilt
    new_table    rows have another key: it is another table

| part of the declaration         | a change of it                                                                  |
|---------------------------------|---------------------------------------------------------------------------------|
| key: columns, order, types      | new table. The order counts: published keys are written in it                   |
| windowed or not                 | new table: the window's bounds are a part of the key                            |
| a history or not                | new table: valid_from is a part of the key                                      |
| window: kind, size, gap, grace  | refold. A record too late for one window may be in time for the other           |
| latest, GROUP BY, aggregates    | refold, also for added and removed ones: there are no accumulators for the past |
| HAVING, EMIT, order_by,         |                                                                                 |
| tombstones                      | refold: the visible rows, or the state beside them, differ                      |
| topic, formats, event time      | refold: other records, or other times; max_ahead, expect: other bad records     |
| steps, functions                | refold, if the table reads what they make                                       |
| a column that is read: its type | refold; so is another field of the topic that it is read from                   |
| a JSON column that is not read  | compatible. A record that does not fit it is quarantined before and after       |
| columns of other formats        | refold: a line of CSV with one more field is another line                       |
| retention of windows            | compatible: longer, shorter, or a first one. Rows that left stay gone. With a   |
|                                 | first one, the watermark also judges records: it may refuse those of a          |
|                                 | partition that begins late, which the table has taken in until then             |
| retention of windows: removed   | refold, except with final results. Nothing would tell an expired window from    |
|                                 | one that never was: a partition that begins late would rebuild a part of it     |
| retention of order_by           | refold: it decides which records are too old, and which deletes are remembered  |
| idle                            | compatible: from now on it decides when final results appear; those already     |
|                                 | visible stay. A rebuild may refuse a partition's records from after a silence   |
| suppress                        | compatible: it concerns the changelog alone                                     |
| a stream's name                 | compatible: its quarantine begins a new table                                   |
| all else                        | refold: a part without a rule may decide rows                                   |
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakehouse.errors import PlanError
from lakehouse.plan.evolution.differences import KINDS, ChangeKind, find_differences
from lakehouse.plan.evolution.fingerprint import VERSION, fingerprint_text, table_fingerprint
from lakehouse.plan.evolution.text import declaration_text
from lakehouse.plan.expression.expression import Json
from lakehouse.plan.table import Table

# A table's properties: its declaration for people, and the declaration's fingerprint.
PLAN = "lakehouse.plan"
DECLARATION = "lakehouse.declaration"


@dataclass(frozen=True, slots=True)
class Evolution:
    """The effect of a changed declaration: the strongest verdict of its differences, and a sentence for each."""

    kind: ChangeKind
    reasons: tuple[str, ...] = ()

    @property
    def can_go_on(self) -> bool:
        return self.kind in ("same", "compatible")


def declaration_properties(table: Table) -> dict[str, str]:
    """Return a table's declaration as the properties of the table in the lake."""
    return {PLAN: declaration_text(table), DECLARATION: declaration_of(table)}


def declaration_of(table: Table) -> str:
    """Return the fingerprint of a table's declaration, as its property has it."""
    return fingerprint_text(table_fingerprint(table))


def declaration_digest(table: Table) -> str:
    """Return a short text that differs between declarations of a table which differ."""
    return hashlib.sha256(declaration_of(table).encode()).hexdigest()[:16]


def is_declared_for(table: Table, swap_details: Mapping[str, Any]) -> bool:
    """Say whether a table, and those above it that change at the same tick, are declared as a swap has them."""
    digests = swap_details.get("members", {})
    return swap_details.get("declaration") == declaration_of(table) and all(
        digests.get(above.name) in (None, declaration_digest(above)) for above in table.stream.tables
    )


def declarations_digest(tables: Iterable[Table]) -> str:
    """Return a short text that differs between sets of tables of which one is declared otherwise."""
    declarations = sorted((table.name, declaration_of(table)) for table in tables)
    return hashlib.sha256(json.dumps(declarations).encode()).hexdigest()[:16]


def topics_of(properties: Mapping[str, str]) -> frozenset[str] | None:
    """Return the topics that a table in the lake reads, according to its properties; None if they don't tell."""
    if DECLARATION not in properties:
        return None
    return frozenset(_upstream_topics(json.loads(properties[DECLARATION])["stream"]))


def tables_of(properties: Mapping[str, str]) -> frozenset[str]:
    """Return the tables that a table in the lake reads, directly or indirectly, according to its properties."""
    if DECLARATION not in properties:
        return frozenset()
    return frozenset(_tables_read_by(json.loads(properties[DECLARATION])["stream"]))


def _tables_read_by(stream: Json) -> set[str]:
    return {table for part in _input_streams(stream) for table in _tables_read_by(part)} | {
        *stream.get("beside", {}).get("tables", ())
    }


def _upstream_topics(stream: Json) -> set[str]:
    if "topic" in stream:
        return {stream["topic"]}
    return {topic for part in _input_streams(stream) for topic in _upstream_topics(part)} | {
        *stream.get("beside", {}).get("topics", ())
    }


def _input_streams(stream: Json) -> list[Json]:
    """Return the fingerprints of a stream's input streams."""
    return [*stream.get("merge", ()), *stream.get("join_of", ()), *([stream["stream"]] if "join" in stream else [])]


def change_of(properties: Mapping[str, str], table: Table) -> Evolution:
    """Compare the declaration in the properties of a table in the lake with its present declaration.

    Raises PlanError for a table whose declaration has a version that is not read here.
    """
    if DECLARATION not in properties:
        return Evolution("new_table", ("declaration: found none; another program wrote it: use another name.",))
    return compare_fingerprints(json.loads(properties[DECLARATION]), table_fingerprint(table))


def compare_fingerprints(old_plan: Json, new_plan: Json) -> Evolution:
    """Compare the old and the new fingerprint of a table. Raises PlanError for a fingerprint of another version."""
    if old_plan["version"] != VERSION:
        raise PlanError(
            f"a table in the lake has a declaration of version {old_plan['version']}, by another release of lakehouse; "
            f"this one reads version {VERSION}. Use that release, or begin another lake: it is built from the topics."
        )
    verdicts = sorted(find_differences(old_plan, new_plan), key=lambda verdict: -KINDS.index(verdict.kind))
    return Evolution(verdicts[0].kind if verdicts else "same", tuple(verdict.text for verdict in verdicts))


def check_declared_above(table: Table, read_properties: Callable[[Table], Mapping[str, str] | None]) -> None:
    """Raise PlanError if the lake has a table above this one under another declaration: that table comes first.

    read_properties: called with each table above; returns its properties in the lake, None if the lake lacks it.
    """
    for upstream in table.stream.tables:
        properties = read_properties(upstream)
        if properties is not None and not (change := change_of(properties, upstream)).can_go_on:
            raise PlanError(
                f"{explain_refusal(upstream.name, change)}\nTable {table.name!r} reads it: its turn comes afterwards."
            )


def explain_upstream_refusal(table_name: str, change: Evolution) -> str:
    """Return why a table of another application can't be read under its declaration here, and what to do."""
    reasons = "".join(f"\n  {reason}" for reason in change.reasons)
    return (
        f"table {table_name!r}, which another application keeps, is declared otherwise there:{reasons}\n"
        "Declare it here as that application does, best by an import from its file."
    )


def explain_refusal(table_name: str, change: Evolution) -> str:
    """Return why a table can't go on under its new declaration, and what to do."""
    consequence = "needs a refold" if change.kind == "refold" else "would be another table"
    advice = f"Give the new declaration another table name: it is built from bronze, while {table_name} stays."
    if change.kind == "refold":
        advice = (
            f"`lakehouse repair backfill {table_name}` builds it from bronze beside the live table, and swaps it in; "
            "--plan says what would change. Or give the new declaration another table name: it is built from bronze, "
            f"while {table_name} stays."
        )
    return "\n".join(
        [
            f"table {table_name!r} exists in the lake under another declaration, and {consequence}:",
            *(f"  {reason}" for reason in change.reasons),
            advice,
        ]
    )


def explain_reach(table_name: str, tables_below: Sequence[str]) -> str:
    """Return what a backfill of a table means for the tables below it, in their order; "" if there are none."""
    if not tables_below:
        return ""
    return (
        f"table {table_name!r} is read by {', '.join(tables_below)}. A backfill of {table_name} reaches them as "
        "changes of its rows; what they had looked up or counted before stays. `lakehouse deploy plan` gives all of "
        "them the new logic at one tick; or backfill them afterwards, in this order."
    )
