"""`lakehouse plan`, and what a run refuses before anything starts. The lakes are written without Spark."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from lakehouse.errors import PlanError
from lakehouse.lake.commit_metadata import TopicState
from lakehouse.lake.properties import SKIP
from lakehouse.plan.evolution.change import declaration_of, declaration_properties
from lakehouse.plan.table import Table
from lakehouse.run.lake import Lake
from lakehouse.run.start.application import load_app

from ..written_commits import tick_text

APP = """
import lakehouse as lh

orders = lh.stream("orders", key="id string", schema="n bigint, word string"{stream})
hourly = orders.group_by("id").window(lh.tumbling("1 hour")).agg(n=lh.count())
counts = orders.group_by("word").agg(n=lh.{count})
app = lh.app(
    orders{steps}.latest("newest"),
    counts{having}.table("counts"{options}),
    hourly.table("hours"{kept}),
    counts.table("published").changes().to_topic("words"),
    orders.to_topic("copies"),
)
"""
EMPTY = {"stream": "", "steps": "", "count": "count()", "having": "", "options": "", "kept": ""}


def declare(folder: Path, **changed: str) -> None:
    (folder / "app.py").write_text(APP.format(**{**EMPTY, **changed}))


def make(folder: Path, *names: str) -> None:
    """Make tables of the application as it is declared now."""
    app = load_app(str(folder / "app.py"))
    for name in names:
        table = app.table(name)
        make_table(folder / "lake" / "silver" / name, table)
        if table.has_state:
            make_table(folder / "lake" / "state" / name, table)


N = pa.schema({"n": pa.int64()})


def make_table(path: Path, table: Table, columns: pa.Schema = N, **properties: str) -> None:
    """deltalake accepts only properties that it knows: others are written into its log afterwards."""
    shutil.rmtree(path, ignore_errors=True)
    write_deltalake(path, columns.empty_table())
    log = path / "_delta_log" / f"{0:020}.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        if "metaData" in action:
            action["metaData"]["configuration"] = {**declaration_properties(table), **properties}
    log.write_text("".join(json.dumps(action) + "\n" for action in actions))


def make_bronze(folder: Path, topic: str, *, own: bool) -> None:
    """A bronze with records of a topic."""
    rows = pa.table({"topic": [topic], "offset": pa.array([0], pa.int64())})
    said = tick_text(1, {topic: TopicState("1", {0: 1}, {0: 1})})
    records = folder / "lake" / "bronze" / "records"
    write_deltalake(
        records, rows.slice(0, 0) if own else rows, partition_by=["topic"],
        commit_properties=CommitProperties(custom_metadata={"userMetadata": said}),
    )  # fmt: skip
    if own:
        write_deltalake(folder / "lake" / "bronze" / "own" / topic, rows)


def kinds(text: str) -> dict[str, str]:
    return {of["table"]: of["change"] for of in json.loads(text)["tables"]}


def test_a_lake_that_is_not_there_gets_every_table(lakehouse, folder):
    declare(folder)
    actual = lakehouse("plan", "app.py", "--json")
    assert (actual.code, actual.err) == (0, "")
    assert json.loads(actual.out) == {
        "ok": True,
        "problems": [],
        "tables": [
            {"table": name, "change": "new", "reasons": []} for name in ("newest", "counts", "hours", "published")
        ],
        "sinks": [
            {"topic": "words", "of": "published", "is": "event changelog"},
            {"topic": "copies", "of": "orders", "is": "stream"},
        ],
    }
    assert not (folder / "lake").exists()


def test_the_plan_warns_of_an_order_that_a_delete_has_not(lakehouse, folder):
    declare(folder)
    (folder / "app.py").write_text((folder / "app.py").read_text().replace('"newest")', '"newest", order_by="n")'))
    actual = lakehouse("plan", "app.py", "--json")
    (warning,) = json.loads(actual.out)["warnings"]
    assert actual.code == 0
    assert warning.startswith("table 'newest': order_by=n: a null value has no such number")
    assert "warning: table 'newest': order_by=n" in lakehouse("plan", "app.py").out


def test_the_plan_says_what_the_change_of_each_table_means(lakehouse, folder):
    declare(folder)
    make(folder, "newest", "counts", "hours")
    assert set(kinds(lakehouse("plan", "app.py", "--json").out).values()) == {"same", "new"}
    declare(folder, options=", suppress=True", kept=', retention="30 days"')
    actual = lakehouse("plan", "app.py")
    assert actual.code == 0
    lines = actual.out.splitlines()
    cells = [[cell.strip() for cell in line.split("│")[1:3]] for line in lines if "│" in line]
    assert cells[:4] == [
        ["newest", "unchanged"], ["counts", "compatible"], ["hours", "compatible"], ["published", "new"],
    ]  # fmt: skip
    assert "table 'counts' continues:" in lines
    assert "  retention: found none, declared 2592000000 ms; rows of windows" in actual.out


def test_what_a_run_would_refuse_is_shown_with_the_way_out(lakehouse, folder):
    declare(folder)
    make(folder, "newest", "counts", "hours")
    declare(folder, steps='.rekey("word")', count='count("n")')
    actual = lakehouse("plan", "app.py", "--json")
    assert actual.code == 1
    assert not json.loads(actual.out)["ok"]
    assert kinds(actual.out) == {"newest": "new_table", "counts": "refold", "hours": "same", "published": "new"}
    actual = lakehouse("plan", "app.py")
    assert actual.code == 1
    assert "  aggregate n: found count(*), declared count(n); its rows were computed" in actual.out
    assert "Give the new declaration another table name" in actual.out
    for command in (["run", "app.py"], ["run", "app.py", "--until", "caught-up", "--json"]):
        refused = lakehouse(*command)
        assert refused.code == 2
        assert refused.err.startswith("error: table 'newest' exists in the lake under another declaration")
        assert "aggregate n: found count(*), declared count(n)" in refused.err
    # Nothing has started: no broker, no bronze, no lease.
    assert sorted(path.name for path in folder.rglob("*") if path.is_dir() and path.name[0] != "_") == [
        "counts", "hours", "lake", "newest", "silver",
    ]  # fmt: skip


GROWN = """
import lakehouse as lh

orders = lh.stream("orders", key="id string", schema="n {n}, d decimal(10, 2), s struct<x: int, y: array<string>>")
app = lh.app({table})
"""
NEWEST = "orders.latest('newest')"
KEPT = pa.schema(
    {
        "id": pa.string(), "n": pa.int32(), "d": pa.decimal128(10, 2),
        "s": pa.struct({"x": pa.int32(), "y": pa.list_(pa.string())}), "_position": pa.int64(),
    }
)  # fmt: skip


@pytest.mark.parametrize(
    ("n", "table", "kind", "reason"),
    [
        ("int", NEWEST, "same", ""),
        ("int", "orders.filter('n > 1').latest('newest')", "refold", "filter n > 1"),
        ("bigint", NEWEST, "new_table", "column n: has another type: found int, declared bigint"),
        ("int", "orders.drop('n').latest('newest')", "new_table", "column n: is no longer declared"),
        ("int", "orders.latest('newest', order_by='n')", "new_table", "its state, which people don't see, begins"),
    ],
)
def test_a_backfill_is_promised_only_where_it_can_be_made(lakehouse, folder, n, table, kind, reason):
    """The rows of a Delta table keep their columns and types: what has others is another table, as backfill says."""
    (folder / "app.py").write_text(GROWN.format(n="int", table=NEWEST))
    make_table(folder / "lake" / "silver" / "newest", load_app(str(folder / "app.py")).table("newest"), KEPT)
    (folder / "app.py").write_text(GROWN.format(n=n, table=table))
    assert kinds(lakehouse("plan", "app.py", "--json").out) == {"newest": kind}
    out = lakehouse("plan", "app.py").out
    assert reason in out
    assert ("repair backfill newest" in out) == (kind == "refold")
    assert ("Give the new declaration another table name: it is built from bronze" in out) == (kind == "new_table")


def test_a_type_is_the_same_in_another_spelling(lakehouse, folder):
    text = """
import lakehouse as lh

orders = lh.stream("orders", key="id string", schema="d decimal, x decimal(5), s struct<`a-b`: int, `select`: decimal>")
app = lh.app(orders{step}.latest("newest"))
"""
    struct = pa.struct({"a-b": pa.int32(), "select": pa.decimal128(10, 0)})
    kept = {"id": pa.string(), "d": pa.decimal128(10, 0), "x": pa.decimal128(5, 0), "s": struct}
    (folder / "app.py").write_text(text.format(step=""))
    make_table(folder / "lake" / "silver" / "newest", load_app("app.py").table("newest"), pa.schema(kept))
    (folder / "app.py").write_text(text.format(step=".filter('d > 0')"))
    assert kinds(lakehouse("plan", "app.py", "--json").out) == {"newest": "refold"}
    assert "struct<`a-b`: int, `select`: decimal(10,0)>" in lakehouse("look", "describe", "newest", "--json").out


def test_an_edit_of_one_digit_within_a_second_is_seen(lakehouse, folder, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    declare(folder, having='.having("n > 1")')
    make(folder, "counts")
    os.utime(folder / "app.py", (1_769_860_800, 1_769_860_800))
    assert kinds(lakehouse("plan", "app.py", "--json").out)["counts"] == "same"
    declare(folder, having='.having("n > 2")')
    os.utime(folder / "app.py", (1_769_860_800, 1_769_860_800))
    assert kinds(lakehouse("plan", "app.py", "--json").out)["counts"] == "refold"


def test_the_state_counts_beside_the_visible_table(lakehouse, folder):
    """Somebody removed the table to have it rebuilt, and forgot its state."""
    declare(folder, having='.having("n > 1")')
    make(folder, "counts")
    for path in sorted((folder / "lake" / "silver" / "counts").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    declare(folder, having='.having("n > 2")')
    actual = lakehouse("plan", "app.py", "--json")
    assert kinds(actual.out)["counts"] == "refold"
    # Without HAVING the table has no state beside it.
    declare(folder)
    assert kinds(lakehouse("plan", "app.py", "--json").out)["counts"] == "new"


@pytest.mark.parametrize("own", [True, False])
def test_a_topic_keeps_its_place_in_bronze(lakehouse, folder, own):
    declare(folder, stream=", own_table=True" if own else "")
    make_bronze(folder, "orders", own=own)
    assert lakehouse("plan", "app.py").code == 0
    declare(folder, stream="" if own else ", own_table=True")
    actual = lakehouse("plan", "app.py", "--json")
    assert actual.code == 1
    (problem,) = json.loads(actual.out)["problems"]
    assert f"declare own_table={own}" in problem
    assert problem in lakehouse("plan", "app.py").out
    assert problem in lakehouse("run", "app.py", "--only", "ingest").err
    with pytest.raises(PlanError, match="A topic keeps its place"):
        Lake(folder / "lake").run(load_app("app.py"), parts=("silver",), until="caught_up")
    make(folder, "counts")
    for command in (
        ["deploy", "stage"], ["deploy", "promote"], ["deploy", "show"], ["repair", "backfill", "counts"],
        ["repair", "correct", "counts"], ["repair", "revert", "counts", "--tick", "1"],
        ["repair", "erase", "--key", "orders=1"], ["test", "expect", "orders", "--rule", "n > 0"],
    ):  # fmt: skip
        refused = lakehouse(*command, "--app", "app.py")
        assert (refused.code, problem in refused.err) == (2, True), (command, refused.err)
    lake, app = Lake(folder / "lake"), load_app("app.py")
    for replay in (lake.plan_replay, lake.replay):
        with pytest.raises(PlanError, match="A topic keeps its place"):
            replay(app, "orders", ())


READER = """
import lakehouse as lh

orders = lh.stream("orders", key="id string", schema="n bigint")
newest = orders.filter("{newest}").latest("newest")
counts = newest.group_by("n").agg(k=lh.count()).having("{counts}").table("counts")
app = lh.app(counts, upstream=[newest])
"""


def test_a_deployment_says_what_a_stage_or_a_run_would_refuse(lakehouse, folder):
    def effects(code: int) -> dict[str, tuple[str, int]]:
        actual = lakehouse("deploy", "plan", "--app", "app.py", "--json")
        assert (actual.code, json.loads(actual.out)["ok"]) == (code, code == 0)
        return {item["table"]: (item["effect"], len(item["problems"])) for item in json.loads(actual.out)["tables"]}

    make_bronze(folder, "orders", own=False)
    (folder / "app.py").write_text(READER.format(newest="n > 0", counts="k > 0"))
    keeper = load_app("app.py").upstream[0]
    make_table(folder / "lake" / "silver" / "newest", keeper)
    columns = pa.schema({"n": pa.int64(), "k": pa.int64()})
    before = load_app("app.py").table("counts")
    for layer in ("silver", "state"):
        make_table(folder / "lake" / layer / "counts", before, columns)
    assert effects(0) == {"counts": ("nothing", 0)}
    (folder / "app.py").write_text(READER.format(newest="n > 1", counts="k > 0"))
    assert effects(1) == {"counts": ("refused", 1)}
    page = lakehouse("deploy", "plan", "--app", "app.py").out
    assert "which another application keeps, is declared otherwise there" in page
    assert "is refused" in page
    assert "Next:" not in page
    assert "Nothing to deploy" not in page
    (folder / "app.py").write_text(READER.format(newest="n > 0", counts="k > 1"))
    assert effects(0) == {"counts": ("rebuilt", 0)}
    text = (folder / "app.py").read_text()
    (folder / "app.py").write_text(text.replace('"n bigint"', '"n bigint", own_table=True'))
    assert effects(1) == {"counts": ("refused", 1)}
    assert "A topic keeps its place" in lakehouse("deploy", "plan", "--app", "app.py").out
    (folder / "app.py").write_text(text)
    make_table(folder / "lake" / "silver" / "counts", before, columns, **{SKIP: "{}"})
    assert effects(1) == {"counts": ("refused", 1)}
    assert "was restored from a topic" in lakehouse("deploy", "plan", "--app", "app.py").out
    make_table(folder / "lake" / "silver" / "counts", before, columns)
    swap = {"declaration": declaration_of(load_app("app.py").table("counts")), "changed": True}
    row = {"at": 3, "id": "i", "table": "counts", "kind": "swap", "reason": "", "details": json.dumps(swap)}
    write_deltalake(folder / "lake" / "interventions" / "log", pa.Table.from_pylist([row]))
    assert effects(0) == {"counts": ("rebuilt", 0)}, "it brings what is declared: `promote` finishes it"
    (folder / "app.py").write_text(READER.format(newest="n > 0", counts="k > 0"))
    assert effects(1) == {"counts": ("refused", 1)}
    refusal = "of a table above it, is decided, at tick 3, and not finished"
    assert refusal in lakehouse("deploy", "plan", "--app", "app.py").out
    for command in ("back", "promote", "stage"):
        assert refusal in lakehouse("deploy", command, "--app", "app.py").err


def test_a_table_of_another_program_is_not_touched(lakehouse, folder):
    declare(folder)
    write_deltalake(folder / "lake" / "silver" / "counts", pa.table({"n": [1]}))
    actual = lakehouse("plan", "app.py")
    assert actual.code == 1
    assert "another program wrote it: use another name" in actual.out


def test_ingest_alone_does_not_need_the_tables(folder):
    """It gets as far as Kafka, which does not run."""
    declare(folder)
    make(folder, "counts")
    declare(folder, count='count("n")')
    code = "import sys; from lakehouse.run.start.declared_changes import check_declarations\n"
    code += "from lakehouse.run.lake import Lake; from lakehouse.run.start.application import load_app\n"
    code += "check_declarations(Lake('lake').settings, load_app('app.py'), ('ingest',))\n"
    code += "print('pyspark' in sys.modules)"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=folder, check=True)
    assert process.stdout.strip() == "False"


def test_it_can_be_written_in_json_and_read_back(folder):
    declare(folder, having=""".having("word <> 'it''s \\\\n ${x}'")""")
    make(folder, "counts")
    table = load_app("app.py").table("counts")
    actual = DeltaTable(folder / "lake" / "silver" / "counts").metadata().configuration
    assert {name: actual[name] for name in declaration_properties(table)} == declaration_properties(table)


def test_the_lineage_is_drawn(lakehouse, tmp_path):
    (tmp_path / "app.py").write_text(
        "import lakehouse as lh\n"
        'orders = lh.stream("orders", key="id string", schema="n bigint, word string")\n'
        'newest = orders.latest("newest")\n'
        'app = lh.app(newest.group_by("word").agg(n=lh.count()).table("counts"),\n'
        '             newest.alert("large", "n > 5").to_function("tell", print))\n'
    )
    drawn = ["table counts", "└─ table newest (rows)", "   └─ stream orders", "      └─ topic orders"]
    drawn += ["function tell", "└─ table newest (alert large) ..."]
    actual = lakehouse("plan", "--app", "app.py", "--lineage", "--svg", "lineage.svg").out
    assert actual.splitlines()[-6:] == drawn
    assert "Functions" in actual
    assert (tmp_path / "lineage.svg").read_text().startswith("<svg")
    told = json.loads(lakehouse("plan", "--app", "app.py", "--lineage", "--json").out)
    assert told["functions"] == [{"function": "tell", "of": "large"}]
    assert {"from": "table:newest", "to": "function:tell", "how": ["alert large"]} in told["lineage"]["edges"]
    assert "lineage" not in json.loads(lakehouse("plan", "--app", "app.py", "--json").out)
