"""Carries out the plan of a repair, at once or later, if it still holds."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace

from lakehouse.errors import StorageError
from lakehouse.lake.control import note
from lakehouse.lake.control.lease import Lease
from lakehouse.lake.control.partial_progress import refuse_partial
from lakehouse.lake.control.writer_leases import erasure_lease
from lakehouse.phases import phase
from lakehouse.plan.app import App
from lakehouse.plan.evolution.change import DECLARATION, declaration_of
from lakehouse.run.repair.chosen_records import keep_fixes, keep_late
from lakehouse.run.repair.intervene import NO_REASON, STANDSTILL_SECONDS, Why, intervene
from lakehouse.run.repair.stages import (
    AnyOutcome,
    Intervene,
    KeepAnchor,
    KeepFixes,
    KeepLate,
    RemoveBuild,
    RepairPlan,
    RequireStopped,
)
from lakehouse.run.repair.unfinished_erasure import refuse_during_erasure
from lakehouse.run.start.leases import repair_leases
from lakehouse.semantics.commit_number import EVER
from lakehouse.spark.bronze import interventions
from lakehouse.spark.history import anchors, present_logic
from lakehouse.spark.jvm import folders
from lakehouse.spark.open_lake import OpenLake, OpenTable
from lakehouse.spark.transaction import read_properties


@phase("carrying out the repair")
def carry_out(lake: OpenLake, app: App, plan: RepairPlan[AnyOutcome], why: Why = NO_REASON) -> AnyOutcome:
    """Carry out the stages of a plan; return the outcome, with the tick of the intervention if there is one.

    After a kill, plan again: what was decided stands, and the new plan has what is left. Raises StorageError if the
    plan no longer holds, since somebody intervened in its tables, or declared them anew, or if an erasure in them is
    not finished; LeaseHeld if another backfill or revert runs, or if a job keeps a table that must be stopped. The
    rest: see `intervene`.
    """
    if not plan.stages:
        return plan.expected
    with ExitStack() as leases:
        leases.enter_context(repair_leases(lake.layout, plan.basis.declarations if plan.is_exclusive else ()))
        if any(isinstance(stage, KeepFixes) for stage in plan.stages):
            # An erasure must not miss bytes that are kept while it deletes.
            leases.enter_context(erasure_lease(lake.layout).acquire_within(STANDSTILL_SECONDS))
        own_ids = {
            stage.details["erasure"]
            for stage in plan.stages
            if isinstance(stage, Intervene) and "erasure" in stage.details
        }
        refuse_during_erasure(lake.layout, plan.basis.declarations, own_ids)
        if any(isinstance(stage, Intervene) and _brings_other_logic(stage) for stage in plan.stages):
            refuse_partial(lake.layout, "new logic")
        _check_basis(lake, app, plan)
        tick = _run_stages(lake, app, plan, why)
    return plan.expected if tick is None else plan.expected.at_tick(tick)


def _run_stages(lake: OpenLake, app: App, plan: RepairPlan[AnyOutcome], why: Why) -> int | None:
    """Carry out the stages in order; return the tick of the intervention, None without one."""
    intervention_id, tick = None, None
    for stage in plan.stages:
        match stage:
            case RequireStopped():
                check_stopped(lake.open(app.table(stage.table)))
            case KeepAnchor():
                anchor_reason = f"before {why.reason or stage.repair}"
                anchors.keep_anchor(lake.open(app.table(stage.table)), stage.tick, anchor_reason)
            case KeepLate():
                intervention_id = keep_late(lake.open(app.table(stage.table)), stage)
            case KeepFixes():
                intervention_id = keep_fixes(lake, app.source(stage.stream), stage.fixes)
            case Intervene():
                stage = replace(stage, details={**stage.details, "stages": plan.describe()})
                tick = intervene(lake, app, why.to_request(stage, intervention_id))
            case RemoveBuild():
                remove_build(lake.with_layout(replace(lake.layout, beside=stage.beside)))
    return tick


def remove_build(beside_lake: OpenLake) -> None:
    """Remove what was built beside the live tables. A killed removal leaves nothing that counts as a build.

    So what says what it is goes first: a deployment's note, and the logs of the tables, which have their declarations.
    """
    spark, layout = beside_lake.spark, beside_lake.layout
    note.remove(layout.deployment)
    silver_folder = f"{layout.tables}/silver"
    for name in folders.folder_names(spark, silver_folder):
        folders.remove_folder(spark, f"{silver_folder}/{name}/_delta_log")
    folders.remove_folder(spark, layout.tables)


def check_stopped(open_table: OpenTable) -> None:
    """Raise LeaseHeld while a job keeps the table: with the old logic it must not go on with the new content."""
    label = f"table {open_table.name!r}, under another declaration,"
    Lease(open_table.layout.lease(f"silver-{open_table.name}"), label).check()


def stored_declaration(open_table: OpenTable) -> str | None:
    """Return the declaration that a table carries; None if there is no table."""
    return (
        read_properties(open_table.spark, open_table.visible.path).get(DECLARATION)
        if open_table.table_exists()
        else None
    )


def _brings_other_logic(stage: Intervene) -> bool:
    return any(details.get("changed") for details in stage.table_details.values())


def _check_basis(lake: OpenLake, app: App, plan: RepairPlan[AnyOutcome]) -> None:
    """Raise StorageError if the plan was made from another state of its tables. Records that came since are no matter.

    They are in neither side of what was compared, and the intervention gets a tick after them.
    """
    for name, declaration in plan.basis.declarations.items():
        table = app.table(name)
        if declaration_of(table) != declaration:
            raise StorageError(f"table {name!r} is declared otherwise than when its repair was planned. Plan it again.")
        if interventions.has_intervention_between(lake, name, plan.basis.decided_tick, EVER):
            raise StorageError(
                f"table {name!r}: somebody intervened in it after this repair was planned, so it may have another "
                "effect than the planned one. Plan it again; `lakehouse look interventions` says what was decided."
            )
        if changed_names := present_logic.changed_above(lake.open(table), plan.basis.decided_tick):
            raise StorageError(
                f"table {name!r} reads {', '.join(changed_names)}, which got other logic after this repair was "
                "planned: what was planned, or built, is of the earlier logic. Plan it again."
            )
    for stage in plan.stages:
        if isinstance(stage, Intervene) and stage.kind == "swap":
            for name in stage.tables:
                built_table = lake.open(app.table(name)).beside(stage.details["beside"])
                if stored_declaration(built_table) != stage.table_details[name]["declaration"]:
                    raise StorageError(f"table {name!r}: what was built beside it is gone. Plan it again.")
