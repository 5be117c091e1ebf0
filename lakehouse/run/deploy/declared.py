"""The effect that a deployment of an application would have on each table, from its declarations; without Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from lakehouse.errors import PlanError
from lakehouse.lake import intervention_log, reader, store
from lakehouse.lake.intervention_log import LoggedIntervention
from lakehouse.lake.layout import Layout
from lakehouse.lake.moment.files import LakeFiles
from lakehouse.lake.place import table_places
from lakehouse.lake.properties import BEGAN, SKIP
from lakehouse.lake.record.topic_places import misplaced_topics
from lakehouse.lake.store import is_table
from lakehouse.plan.app import App
from lakehouse.plan.evolution.change import declarations_digest, is_declared_for
from lakehouse.plan.table import Table
from lakehouse.run.start.declared_changes import (
    Planned,
    compare_declarations,
    restored_refusal,
    upstream_refusals,
)
from lakehouse.semantics.commit_number import NO_TICK

Effect = Literal["new", "nothing", "continues", "rebuilt", "refused"]


@dataclass(frozen=True, slots=True)
class TableEffect:
    """The effect of a deployment on one table.

    reasons: the words of the declaration that differ. above: the tables above it whose logic is new. columns: those
    that the table gets. records: how many records of bronze a build reads. stored_bytes: the size of the table now.
    problems: why it is refused, and what to do; empty for a declaration that its table can't take.
    """

    table: str
    effect: Effect
    reasons: tuple[str, ...] = ()
    above: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    records: int = 0
    stored_bytes: int = 0
    problems: tuple[str, ...] = ()


def refuse_other_declarations(app: App, expected_digest: str) -> None:
    """Raise PlanError if an application declares other tables than that of a digest, which somebody approved.

    The lake does not matter: a deployment that was approved and made can be given again.
    """
    if (digest := declarations_digest(app.tables)) != expected_digest:
        raise PlanError(
            f"deployment: found declarations with the digest {digest}, expected {expected_digest!r:.80}, as they were "
            "when it was staged: the application has changed since. Put its file back, or stage it again, and look at "
            "what differs: lakehouse deploy stage."
        )


def table_effects(layout: Layout, app: App) -> list[TableEffect]:
    """Return the effect of a deployment on each table of an application, in the order in which they are built."""
    planned_tables = compare_declarations(layout, app)
    logged = intervention_log.interventions_by_table(layout)
    changed_names = {planned.table.name for planned in planned_tables if planned.kind in ("refold", "new_table")}
    changed_names |= {
        planned.table.name
        for planned in planned_tables
        if planned.kind != "new" and _is_behind(layout, planned.table, logged)
    }
    record_counts = _count_records(layout, app)
    effects = [_effect_of(layout, planned, changed_names, record_counts) for planned in planned_tables]
    return _with_problems(layout, app, effects)


def _with_problems(layout: Layout, app: App, effects: list[TableEffect]) -> list[TableEffect]:
    """Return the effects; those that the deployment, or the run after it, would refuse say why."""
    misplaced, refused_upstream = misplaced_topics(layout, app.topics, app.own_topics), upstream_refusals(layout, app)
    unfinished = unfinished_swaps(layout, app)
    judged_effects = []
    for effect in effects:
        stream = app.table(effect.table).stream
        problems = [misplaced[topic] for topic in stream.topics if topic in misplaced]
        problems += [refused_upstream[table] for table in stream.tables if table in refused_upstream]
        problems += [unfinished[effect.table]] if effect.table in unfinished else []
        if effect.effect == "rebuilt" and SKIP in reader.read_table_properties(layout, effect.table):
            problems.append(restored_refusal(effect.table))
        judged = replace(effect, effect="refused", problems=tuple(problems)) if problems else effect
        judged_effects.append(judged)
    return judged_effects


def unfinished_swaps(layout: Layout, app: App) -> dict[str, str]:
    """Say which tables have a swap before them that brings other logic than is declared; as a killed one leaves it.

    The table is as it was before, until somebody with the other declaration finishes what is decided.
    """
    lake_files, logged = LakeFiles(layout), intervention_log.interventions_by_table(layout)
    messages = {}
    for table in app.tables:
        swaps = [item for item in logged.get(table.name, ()) if item.kind == "swap"]
        if not swaps or (log := lake_files.open_table(layout.silver(table.name))) is None:
            continue
        applied_tick = log.tick(table.name)
        other_ticks = [s.at for s in swaps if s.at > applied_tick and not is_declared_for(table, s.details)]
        if other_ticks:
            messages[table.name] = (
                f"table {table.name!r}: a swap to another declaration, of it or of a table above it, is decided, at "
                f"tick {other_ticks[0]}, and not finished, as after a kill. Expected the application that it brings: "
                "`lakehouse deploy promote` with its file finishes it. Then `lakehouse deploy back` takes it back."
            )
    return messages


def refuse_unfinished_swaps(layout: Layout, app: App) -> None:
    """Raise PlanError if other logic than is declared is about to be swapped in."""
    if messages := unfinished_swaps(layout, app):
        raise PlanError("\n".join(messages.values()))


def _effect_of(
    layout: Layout, planned: Planned, changed_names: set[str], record_counts: Mapping[str, int]
) -> TableEffect:
    table, reasons = planned.table, () if planned.change is None else planned.change.reasons
    if planned.kind in ("new", "new_table"):
        return TableEffect(table.name, "new" if planned.kind == "new" else "refused", reasons)
    above = tuple(upstream.name for upstream in table.stream.tables if upstream.name in changed_names)
    if table.name not in changed_names and not above:
        return TableEffect(table.name, "nothing" if planned.kind == "same" else "continues", reasons)
    stored_names = {field.name for field in store.open_delta(layout.silver(table.name)).schema().fields}
    return TableEffect(
        table.name,
        "rebuilt",
        reasons,
        above,
        tuple(column.name for column in table.columns if column.name not in stored_names),
        sum(record_counts[topic] for topic in table.stream.topics),
        sum(_stored_bytes(place.path) for place in table_places(layout, table)),
    )


def _is_behind(layout: Layout, table: Table, logged: Mapping[str, list[LoggedIntervention]]) -> bool:
    """Say whether a table above got other logic since the table was built, or last rebuilt.

    As `lakehouse.spark.history.present_logic` does.
    """
    above_ticks = [
        item.at
        for upstream in table.stream.tables
        for item in logged.get(upstream.name, ())
        if item.kind == "swap" and item.details.get("changed")
    ]
    if not above_ticks:
        return False
    began_tick = int(reader.read_table_properties(layout, table.name).get(BEGAN, NO_TICK))
    own_ticks = [item.at for item in logged.get(table.name, ()) if item.kind == "swap"]
    return max(above_ticks) > max([began_tick, *own_ticks])


def _count_records(layout: Layout, app: App) -> dict[str, int]:
    """Return the number of records in bronze by topic."""
    own_topics, counts = app.own_topics, dict[str, int]()
    for topic in app.topics:
        path = layout.topic_records(topic, own_topics)
        counts[topic] = reader.count_rows(store.open_delta(path), topic) if is_table(path) else 0
    return counts


def _stored_bytes(path: str) -> int:
    if not is_table(path):
        return 0
    return sum(reader.to_arrow_table(store.open_delta(path).get_add_actions(flatten=True))["size_bytes"].to_pylist())
