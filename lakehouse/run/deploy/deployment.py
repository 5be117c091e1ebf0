"""A change of logic, deployed as one: the tables that it touches are built beside the live ones and swapped together.

A change touches the tables whose declarations differ, and all tables below these: a rebuild of them would give other
rows. They are built together, in a set of their own: there each reads the others of the set, and live tables otherwise.
One intervention swaps all of them in, so a read at any tick finds all of them as they were, or all as they are now.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from lakehouse.errors import NotFound, PlanError
from lakehouse.lake.control import note
from lakehouse.lake.layout import DEPLOYMENT, DEPLOYMENT_NAME
from lakehouse.phases import phase
from lakehouse.plan.app import App
from lakehouse.plan.evolution.change import DECLARATION, change_of, declaration_digest, declaration_of
from lakehouse.plan.table import Table
from lakehouse.run.repair.backfill import (
    ShowProgress,
    build_tables,
    compare,
    ignore_progress,
    refuse_restored,
    require_applied_tick,
)
from lakehouse.run.repair.carry_out import check_stopped, remove_build, stored_declaration
from lakehouse.run.repair.intervene import bring_table
from lakehouse.run.repair.stages import (
    Intervene,
    KeepAnchor,
    RemoveBuild,
    RepairPlan,
    RequireStopped,
    Stage,
    basis_of,
)
from lakehouse.run.repair.unfinished_erasure import refuse_during_erasure
from lakehouse.run.start.leases import repair_leases
from lakehouse.semantics.commit_number import NO_TICK
from lakehouse.semantics.difference import Difference
from lakehouse.spark.bronze import interventions
from lakehouse.spark.history import present_logic
from lakehouse.spark.jvm import folders
from lakehouse.spark.open_lake import OpenLake
from lakehouse.spark.table import tables


@dataclass(frozen=True, slots=True)
class Deployed:
    """The changes of a deployment, made or planned: how each of its tables differs, by name.

    tick: of the intervention, None if nothing was applied. records: how many bronze records were read. before: the last
    tick of the earlier logic.
    """

    differing: Mapping[str, Difference]
    tick: int | None
    records: int = 0
    before: int = NO_TICK

    def at_tick(self, tick: int) -> Self:
        """Return the changes once applied: the tick before the intervention's still has the old logic."""
        return replace(self, tick=tick, before=tick - 1)


@dataclass(frozen=True, slots=True)
class TouchedTables:
    """The tables of a deployment, each after those that it reads. swapped: the live ones that it replaces.

    to_build: these, and tables that the lake does not have yet, which some of them read.
    """

    swapped: tuple[Table, ...]
    to_build: tuple[Table, ...]

    @property
    def names(self) -> frozenset[str]:
        return frozenset(table.name for table in self.to_build)


def set_name(name: str) -> str:
    """Return the name of the set of tables of a deployment. Raises PlanError."""
    if not DEPLOYMENT_NAME.fullmatch(name):
        raise PlanError(
            f"deployment {name!r:.200}: expected a small letter, then at most 62 small letters, digits or underscores."
        )
    return f"{DEPLOYMENT}{name}"


def find_members(lake: OpenLake, app: App) -> TouchedTables:
    """Return the tables that a deployment of an application replaces.

    Raises PlanError if one of them can't become what is declared now, or was restored from a topic.
    """
    changed_tables, new_tables = set[Table](), set[Table]()
    for table in app.tables:
        open_table = lake.open(table)
        if not open_table.table_exists():
            new_tables.add(table)
        elif not present_logic.declaration_change(open_table).can_go_on or present_logic.is_behind(open_table):
            changed_tables |= {table, *app.tables_below(table)}
    swapped = tuple(table for table in app.tables if table in changed_tables - new_tables)
    needed = {upstream for table in swapped for upstream in table.stream.tables} & new_tables
    refusals = [refusal for table in swapped if (refusal := tables.swap_refusal(lake.open(table))) is not None]
    if refusals:
        raise PlanError("\n".join(refusals))
    for table in swapped:
        refuse_restored(lake.open(table))
    members = TouchedTables(swapped, tuple(table for table in app.tables if table in {*swapped, *needed}))
    for table in swapped:
        present_logic.check_declared_above(lake.open(table), members.names)
    return members


def plan_deployment(
    lake: OpenLake,
    app: App,
    name: str,
    *,
    promotes: bool = False,
    examples: int = 0,
    listen: ShowProgress = ignore_progress,
) -> RepairPlan[Deployed]:
    """Build all tables of a deployment beside the live ones, compare each, and plan to swap them at one tick.

    name: of the deployment; what an earlier call of that name built is continued, unless the declarations differ.
    promotes: fail before the long part if a job keeps one of the tables. examples: how many of the differing rows of
    each table to return. Raises PlanError for declarations that the tables can't take, LeaseHeld while a backfill of
    one of them runs.
    """
    members = find_members(lake, app)
    refuse_during_erasure(lake.layout, [table.name for table in members.swapped])
    basis = basis_of(members.swapped, interventions.last_intervention_tick(lake))
    if not members.swapped:
        return RepairPlan((), Deployed({}, None), basis)
    for table in members.swapped if promotes else ():
        check_stopped(lake.open(table))
    beside_lake = _beside_lake(lake, name, members)
    with repair_leases(lake.layout, basis.declarations):
        _remove_other_build(lake, beside_lake, members)
        records = build_tables(beside_lake, members.to_build, listen=listen)
        listen("compare", records, records)
        differing = _compare_all(lake, beside_lake, members, examples)
    ticks = {table.name: require_applied_tick(lake.open(table)) for table in members.swapped}
    expected = Deployed(differing, None, records, max(ticks.values()))
    return RepairPlan(_stages_of(lake, members, ticks, set_name(name)), expected, basis)


def _stages_of(lake: OpenLake, members: TouchedTables, ticks: Mapping[str, int], beside: str) -> tuple[Stage, ...]:
    names = tuple(table.name for table in members.swapped)
    digests = {table.name: declaration_digest(table) for table in members.to_build}
    table_details = {
        table.name: {
            "declaration": declaration_of(table),
            "before": stored_declaration(lake.open(table)),
            "changed": True,
        }
        for table in members.swapped
    }
    return (
        *map(RequireStopped, names),
        *(KeepAnchor(table_name, ticks[table_name], "a deployment") for table_name in names),
        Intervene("swap", names, {"beside": beside, "members": digests}, table_details),
        RemoveBuild(names, beside),
    )


def compare_deployment(lake: OpenLake, app: App, name: str, examples: int) -> dict[str, Difference]:
    """Compare the tables that were built for a deployment with the live ones.

    Raises NotFound if none were built for these declarations.
    """
    members = find_members(lake, app)
    beside_lake = _beside_lake(lake, name, members)
    if (
        not members.swapped
        or note.read(beside_lake.layout.deployment) != _built_for(lake, members)
        or not all(beside_lake.open(table).table_exists() for table in members.swapped)  # a stage that was killed early
    ):
        raise NotFound(
            f"deployment {name!r}: nothing is built for these declarations. `lakehouse deploy stage` builds it."
        )
    return _compare_all(lake, beside_lake, members, examples)


def _beside_lake(lake: OpenLake, name: str, members: TouchedTables) -> OpenLake:
    return lake.with_layout(replace(lake.layout, beside=set_name(name), members=members.names))


def _compare_all(lake: OpenLake, beside_lake: OpenLake, members: TouchedTables, examples: int) -> dict[str, Difference]:
    differing = {}
    for table in members.swapped:
        with phase("comparing", f"comparing table {table.name}"):
            differing[table.name] = compare(lake.open(table), beside_lake.open(table), examples)
    return differing


def finish_decided_swaps(lake: OpenLake, app: App) -> int | None:
    """Bring an application's tables to the swaps that were decided on before a kill; return the last one's tick.

    None if there are none.
    """
    finished_tick = None
    for table in app.tables:
        open_table = lake.open(table)
        if not open_table.table_exists():
            continue
        applied_tick = lake.progress(open_table.visible).tick
        for decision in interventions.read_interventions(lake, table.name):
            is_swap = decision.kind == "swap" and decision.at > applied_tick
            if is_swap and decision.details["declaration"] == declaration_of(table):
                bring_table(open_table, app, decision.at)
                finished_tick = max(finished_tick or NO_TICK, decision.at)
    return finished_tick


def discard_deployment(lake: OpenLake, app: App, name: str) -> bool:
    """Remove what a deployment built beside the live tables; return whether there was something.

    Raises LeaseHeld while a backfill, or a deployment, of one of the application's tables runs.
    """
    beside_lake = lake.with_layout(replace(lake.layout, beside=set_name(name)))
    with repair_leases(lake.layout, [table.name for table in app.tables]):
        existed = folders.folder_exists(lake.spark, beside_lake.layout.tables)
        remove_build(beside_lake)
        return existed


def check_way_back(lake: OpenLake, app: App) -> None:
    """Raise PlanError unless an application declares the tables of the last deployment as they were before it.

    Other tables, also those of earlier deployments, must be declared as they are. Also if nothing was deployed.
    """
    # Backfills and erasures since then have no earlier declaration, and are no matter.
    deployments = {
        table.name: [item for item in interventions.read_interventions(lake, table.name) if "before" in item.details]
        for table in app.tables
    }
    last_tick = max((item.at for decisions in deployments.values() for item in decisions), default=None)
    if last_tick is None:
        raise PlanError("deploy back: found no deployment of this application's tables; expected one to take back.")
    changed_deployed, changed_others = [], []
    for table in app.tables:
        decisions = deployments[table.name]
        if decisions and decisions[-1].at == last_tick:
            before = decisions[-1].details["before"]
            if change_of({} if before is None else {DECLARATION: before}, table).kind != "same":
                changed_deployed.append(table.name)
        elif not present_logic.declaration_change(lake.open(table)).can_go_on:
            changed_others.append(table.name)
    if changed_deployed:
        raise PlanError(
            "deploy back: found tables that are declared otherwise than before their deployment: "
            f"{', '.join(changed_deployed)}. Expected the application from before it, such as by `git show "
            "REVISION:app.py`."
        )
    if changed_others:
        raise PlanError(
            f"deploy back: the last deployment, at tick {last_tick}, did not touch {', '.join(changed_others)}, "
            "declared otherwise than in the lake. Expected the application from before that deployment alone."
        )


def _remove_other_build(lake: OpenLake, beside_lake: OpenLake, members: TouchedTables) -> None:
    """Remove what was built for other tables, for other declarations, or over tables that have changed since."""
    layout, built_for = beside_lake.layout, _built_for(lake, members)
    if note.read(layout.deployment) != built_for:
        remove_build(beside_lake)
        note.write(layout.deployment, built_for)


def _built_for(lake: OpenLake, members: TouchedTables) -> dict[str, Any]:
    """Return what decides the rows of a build: the declarations, and the repairs of the live tables that they read."""
    above = {table for member in members.to_build for table in member.stream.tables} - set(members.to_build)
    return {
        "tables": {table.name: declaration_of(table) for table in members.to_build},
        "above": {
            table.name: [decision.id for decision in interventions.read_interventions(lake, table.name)]
            for table in sorted(above, key=lambda table: table.name)
        },
    }
