"""What an application's declarations mean for the lake as it is: determined without Spark, before anything runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from deltalake import DeltaTable

from lakehouse.errors import PlanError
from lakehouse.lake import reader
from lakehouse.lake.commit_log import is_table
from lakehouse.lake.delta_type import same_type, spark_type
from lakehouse.lake.layout import Layout
from lakehouse.lake.layout import misplaced as misplaced_text
from lakehouse.lake.place import places
from lakehouse.plan.app import App
from lakehouse.plan.evolution.change import Evolution, change_of, refusal
from lakehouse.plan.evolution.differences import KINDS
from lakehouse.plan.table import Table
from lakehouse.settings.config import Settings


@dataclass(frozen=True, slots=True)
class Planned:
    """A table, and what its declaration means for it; `change` is None for a table that does not exist yet."""

    table: Table
    change: Evolution | None

    @property
    def kind(self) -> Literal["new", "same", "compatible", "refold", "new_table"]:
        return "new" if self.change is None else self.change.kind

    @property
    def can_go_on(self) -> bool:
        return self.change is None or self.change.can_go_on


def planned(layout: Layout, app: App) -> list[Planned]:
    """Compare every table of an application with the lake. Raises ConfigError for a lake that is not a local folder."""
    reader.local_root(layout)
    return [Planned(table, _change(layout, table)) for table in app.tables]


def _change(layout: Layout, table: Table) -> Evolution | None:
    """The change of the visible table and of the state, which may be two tables: the more severe one counts."""
    paths = [place.path for place in places(layout, table)]
    known = [path for path in paths if is_table(path)]
    changes = [change_of(DeltaTable(path).metadata().configuration, table) for path in known]
    change = max(changes, key=lambda change: KINDS.index(change.kind), default=None)
    if change is not None and change.kind == "refold" and (more := _other_columns(layout, table)):
        return Evolution("new_table", (*change.reasons, *more))
    return change


def _other_columns(layout: Layout, table: Table) -> list[str]:
    """Why a table's rows can't be swapped for those of its new declaration: its readers would find another table.

    A type that only Spark can tell is left to the backfill (`lakehouse.spark.table.tables.swap_refusal`).
    """
    if not is_table(layout.silver(table.name)):
        return []
    fields = DeltaTable(layout.silver(table.name)).schema().fields
    there = {field.name: spark_type(field.type) for field in fields if not field.name.startswith("_")}
    declared = {column.name: column.type for column in table.columns}
    found = [f"column {name}: is no longer declared" for name in sorted(there) if name not in declared]
    for name, kind in declared.items():
        if kind and name in there and not same_type(kind, there[name]):
            found.append(f"column {name}: has another type: found {there[name]}, declared {kind}")
    if is_table(layout.state(table.name)) != (len(places(layout, table)) > 1):
        found.append("its state, which people don't see, begins or ends to be a table of its own")
    return found


def misplaced(layout: Layout, app: App) -> list[str]:
    """Say which topics have their rows elsewhere in bronze than `own_table` declares: tables would not find them."""
    own = {source.topic for source in app.sources if source.own_table}
    there = {topic for topic in app.topics if is_table(layout.own_records(topic))}
    if own == there:
        return []
    known = reader.bronze_covers(layout).get("topics", {})
    wrong = [topic for topic in sorted(own ^ there) if known.get(topic, {}).get("next")]
    return [misplaced_text(topic, own=topic in there) for topic in wrong]


def check(settings: Settings, app: App, parts: tuple[str, ...] | None) -> None:
    """Raise PlanError when the lake's tables can't go on under their declarations: before ingest, and before Spark.

    parts: those that will run; None for all. A lake on an object store is checked by the run itself, when it opens its
    tables.
    """
    layout = Layout(settings.lake.path)
    if "://" in layout.root:
        return
    said = misplaced(layout, app)
    if parts is None or "silver" in parts:
        said += [refusal(of.table.name, of.change) for of in planned(layout, app) if of.change and not of.can_go_on]
    if said:
        raise PlanError("\n".join(said))
