"""Determines what an application's declarations mean for the lake, without Spark, before anything runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lakehouse.errors import PlanError
from lakehouse.lake import store
from lakehouse.lake.delta_type import spark_type
from lakehouse.lake.layout import Layout
from lakehouse.lake.place import table_places
from lakehouse.lake.record.topic_places import misplaced_topics
from lakehouse.lake.store import is_table
from lakehouse.plan.app import App
from lakehouse.plan.evolution.change import Evolution, change_of, explain_refusal, explain_upstream_refusal
from lakehouse.plan.evolution.differences import KINDS
from lakehouse.plan.expression.schema import is_same_type
from lakehouse.plan.table import Table
from lakehouse.settings.config import Settings


@dataclass(frozen=True, slots=True)
class Planned:
    """A table, and the change that its declaration brings; `change` is None for a table that does not exist yet."""

    table: Table
    change: Evolution | None

    @property
    def kind(self) -> Literal["new", "same", "compatible", "refold", "new_table"]:
        return "new" if self.change is None else self.change.kind

    @property
    def can_go_on(self) -> bool:
        return self.change is None or self.change.can_go_on


def compare_declarations(layout: Layout, app: App) -> list[Planned]:
    """Compare every table of an application with the lake."""
    return [Planned(table, _table_change(layout, table)) for table in app.tables]


def refusals_of(layout: Layout, app: App, own_tables: list[Planned]) -> list[str]:
    """Say which tables can't go on, and which of other applications the lake has under another declaration than here.

    own_tables: see `compare_declarations`.
    """
    own_refusals = [
        explain_refusal(planned.table.name, planned.change)
        for planned in own_tables
        if planned.change is not None and not planned.can_go_on
    ]
    return [*own_refusals, *upstream_refusals(layout, app).values()]


def upstream_refusals(layout: Layout, app: App) -> dict[Table, str]:
    """Say which tables of other applications the lake has under another declaration than here."""
    changes = {table: _table_change(layout, table) for table in app.upstream}
    return {
        table: explain_upstream_refusal(table.name, change)
        for table, change in changes.items()
        if change is not None and not change.can_go_on
    }


def _table_change(layout: Layout, table: Table) -> Evolution | None:
    """Return the more severe of the changes of the visible table and of the state, which may be two tables."""
    place_paths = [place.path for place in table_places(layout, table)]
    table_paths = [path for path in place_paths if is_table(path)]
    changes = [change_of(store.open_delta(path).metadata().configuration, table) for path in table_paths]
    change = max(changes, key=lambda change: KINDS.index(change.kind), default=None)
    if change is not None and change.kind == "refold" and (column_reasons := _other_columns(layout, table)):
        return Evolution("new_table", (*change.reasons, *column_reasons))
    return change


def _other_columns(layout: Layout, table: Table) -> list[str]:
    """Say why a table's rows can't be swapped for those of its new declaration: its readers would see another table.

    The backfill checks a type that only Spark knows (`lakehouse.spark.table.tables.swap_refusal`).
    """
    if not is_table(layout.silver(table.name)):
        return []
    lake_fields = store.open_delta(layout.silver(table.name)).schema().fields
    existing_types = {field.name: spark_type(field.type) for field in lake_fields if not field.name.startswith("_")}
    declared_types = {column.name: column.type for column in table.columns}
    reasons = [f"column {name}: is no longer declared" for name in sorted(existing_types) if name not in declared_types]
    for name, kind in declared_types.items():
        # Without case, in which the names of a struct's fields may differ from what Spark makes of an expression.
        if kind and name in existing_types and not is_same_type(kind.lower(), existing_types[name].lower()):
            reasons.append(f"column {name}: has another type: found {existing_types[name]}, declared {kind}")
    if is_table(layout.state(table.name)) != (len(table_places(layout, table)) > 1):
        reasons.append("its state, which people don't see, begins or ends to be a table of its own")
    return reasons


def restored_refusal(table_name: str) -> str:
    """Return the message that a table can't be rebuilt, since its first records are in the topic of its restore."""
    return (
        f"table {table_name!r} was restored from a topic: this lake's bronze does not have what came before, so it "
        "can't be rebuilt from bronze. `lakehouse repair revert` takes it back to a version; or restore it again, into "
        "another lake."
    )


def check_declarations(settings: Settings, app: App, parts: tuple[str, ...] | None) -> None:
    """Raise PlanError if the lake's tables can't go on under their declarations: before ingest, and before Spark.

    parts: the parts that will run; None for all.
    """
    layout = Layout(settings.lake.path)
    refusals = list(misplaced_topics(layout, app.topics, app.own_topics).values())
    if parts is None or "silver" in parts:
        refusals += refusals_of(layout, app, compare_declarations(layout, app))
    if refusals:
        raise PlanError("\n".join(refusals))
