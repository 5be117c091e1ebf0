"""A plan of a replay refuses what the replay would refuse, without Spark and before anything is written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import lakehouse as lh
from lakehouse.errors import PlanError
from lakehouse.lake.layout import Layout
from lakehouse.lake.properties import SKIP
from lakehouse.lake.record.fixed_records import FixedBytes
from lakehouse.plan.evolution.change import declaration_properties
from lakehouse.plan.table import Table
from lakehouse.run.repair.replay import plan_replay
from lakehouse.run.repair.stages import Intervene, KeepFixes, RepairPlan

ORDERS = lh.stream("orders", key="id string", schema="amount int")
NEWEST = ORDERS.latest("newest")
SUMS = ORDERS.group_by("id").agg(total=lh.sum("amount")).table("sums")
APP = lh.app(NEWEST, SUMS)
FIXES = tuple(FixedBytes("id-1", 0, offset, b"k", b"%d" % offset) for offset in range(3))


class SparkStarted(Exception):
    pass


def start_spark() -> Any:
    raise SparkStarted


def planned(layout: Layout, app: lh.App = APP, fixes: tuple[FixedBytes, ...] = FIXES, **more: bool) -> RepairPlan[Any]:
    return plan_replay(layout, app, ORDERS.sources[0], fixes, start_spark, **more)


def create(layout: Layout, table: Table, **properties: str) -> None:
    """An empty table in the lake, declared so."""
    DeltaTable.create(
        layout.silver(table.name), pa.schema({"id": pa.string()}),
        configuration={**declaration_properties(table), **properties}, raise_if_key_not_exists=False,
    )  # fmt: skip


def decide(layout: Layout, at: int, kind: str, tables: str, fixes: tuple[FixedBytes, ...] = (), **details: Any) -> None:
    """Write an intervention, and the bytes of its records, as a lake has them."""
    rows = [
        {"at": at, "id": f"i{at}", "table": table, "kind": kind, "reason": "", "details": json.dumps(details)}
        for table in tables.split()
    ]
    write_deltalake(layout.interventions, pa.Table.from_pylist(rows), mode="append")
    kept = [{"id": f"i{at}", **{name: getattr(fix, name) for name in FixedBytes.__slots__}} for fix in fixes]
    columns = {"topic_id": pa.string(), "partition": pa.int32(), "offset": pa.int64()}
    schema = pa.schema({"id": pa.string(), **columns, "key": pa.binary(), "value": pa.binary()})
    write_deltalake(layout.intervention_records, pa.Table.from_pylist(kept, schema), mode="append")


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    layout = Layout(str(tmp_path))
    for table in (NEWEST, SUMS):
        create(layout, table)
    return layout


def test_the_stages_of_a_replay(layout: Layout) -> None:
    plan = planned(layout)
    assert plan.stages == (
        KeepFixes("orders", FIXES),
        Intervene("fixed", ("newest", "sums"), {"stream": "orders"}),
    )
    assert (plan.expected.records, plan.expected.tick, plan.basis.decided_tick) == (3, None, 0)
    assert plan.describe() == [
        "keep the new bytes of 3 records of stream orders",
        "decide on the intervention fixed, at a tick of its own, and bring newest, sums to it",
    ]


def test_records_that_were_fixed_before_are_refused_or_left_out(layout: Layout) -> None:
    decide(layout, 4, "fixed", "newest sums", FIXES[:1], stream="orders")
    with pytest.raises(PlanError, match=r"record orders/0/0 was fixed before; --open or --again leaves"):
        planned(layout)
    again = planned(layout, again=True)
    assert (again.stages[0], again.basis.decided_tick) == (KeepFixes("orders", FIXES[1:]), 4)
    nothing = planned(layout, fixes=FIXES[:1], again=True)
    assert (nothing.stages, nothing.has_intervention) == ((), False)

    other_bytes = FixedBytes("id-1", 0, 0, b"k", b"7")
    assert planned(layout, fixes=(other_bytes,), instead=True).stages[0] == KeepFixes("orders", (other_bytes,))
    with pytest.raises(PlanError, match="was fixed before; with these bytes"):
        planned(layout, fixes=FIXES[:1], instead=True)
    # What counts are the newest bytes.
    decide(layout, 5, "fixed", "newest sums", (other_bytes,), stream="orders")
    assert planned(layout, fixes=FIXES[:1], instead=True).stages

    decide(layout, 6, "revert", "sums", tick=3)
    assert planned(layout).stages[0] == KeepFixes("orders", FIXES), "in one of the tables it does not count any more"


def test_a_table_above_comes_first(layout: Layout) -> None:
    """Its new logic is backfilled before anything is folded that reads it."""
    rooms = lh.stream("rooms", key="id string", schema="floor int")
    joined = ORDERS.join(rooms.latest("rooms"), on="id", prefix="room_").latest("joined")
    create(layout, rooms.filter("floor > 0").latest("rooms"))
    with pytest.raises(PlanError, match=r"(?s)table 'rooms' exists in the lake under another.*Table 'joined' reads it"):
        planned(layout, lh.app(joined))


def test_spark_is_asked_only_about_restored_tables(layout: Layout, tmp_path: Path) -> None:
    other = Layout(str(tmp_path / "other"))
    create(other, NEWEST)
    create(other, SUMS, **{SKIP: "{}"})
    with pytest.raises(SparkStarted):
        planned(other)
    assert planned(other, lh.app(NEWEST)).stages
