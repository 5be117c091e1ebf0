"""backfill, revert, checkout, rebuild, backtest and interventions, for a person and for a program."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lakehouse.semantics.position import order_times
from lakehouse.semantics.record import Record
from lakehouse.spark.changelog.upstream import open_lake

APP = """
import lakehouse as lh

visits = lh.stream("visits", key="id string", schema="n bigint")
sums = visits.group_by("id").agg(n=lh.count(), total=lh.sum("n")).table("sums")
app = lh.app(sums)
few = lh.app(visits.filter("n < 3").group_by("id").agg(n=lh.count(), total=lh.sum("n")).table("sums"))
"""


@pytest.fixture
def app(spark, folder: Path) -> str:
    """A lake with `abac`, one record a tick, and app.py beside it; commands find both."""
    from lakehouse.lake.layout import Layout
    from lakehouse.run.scenario.replay import write_bronze
    from lakehouse.run.start.application import load_app
    from lakehouse.spark.silver.query import Silver

    (folder / "app.py").write_text(APP)
    (folder / "lakehouse.toml").write_text('[lake]\npath = "./lake"\n')
    times = [1000 * n for n in range(4)]
    records = [
        Record("visits", "id", 0, n, time, key.encode(), json.dumps({"n": n}).encode(), n + 1, order)
        for n, (key, time, order) in enumerate(zip("abac", times, order_times(times), strict=True))
    ]
    declared, layout = load_app("app.py:app"), Layout(str(folder / "lake"))
    write_bronze(open_lake(spark, layout), declared, records)
    with Silver(open_lake(spark, layout), declared, lambda tick, records: None) as silver:
        silver.catch_up(2)
        silver.catch_up()
    return "app.py:app"


def damage(spark, folder: Path) -> None:
    spark.sql(f"UPDATE delta.`{folder / 'lake/silver/sums'}` SET total = 99 WHERE id = 'a'")


def said(text: str) -> dict[str, Any]:
    return json.loads(text)


@pytest.mark.slow
def test_the_repair_of_a_wrong_update_is_planned_done_and_listed(spark, folder, app, lakehouse) -> None:
    good = lakehouse("query", "SELECT * FROM sums ORDER BY id", "--json").out
    damage(spark, folder)
    one = ("backfill", app, "sums", "--from", "1970-01-01T00:00:02Z", "--to", "1970-01-01T00:00:03Z")
    planned = said(lakehouse(*one, "--plan", "--json").out)
    assert planned == {
        "table": "sums", "plan": True, "tick": None, "back_to": 4, "undone_by": "a revert to tick 4",
        "records": 4, "added": 0, "removed": 0, "changed": 1,
        "changes": [
            {"change": "changed", "key": {"id": "a"}, "before": {"n": 2, "total": 99}, "after": {"n": 2, "total": 2}}
        ],
        "stages": ["decide on the intervention refold, at a tick of its own, and bring sums to it"],
    }  # fmt: skip
    assert "changes" not in said(lakehouse(*one, "--plan", "--limit", "0", "--json").out)
    shown = lakehouse(*one, "--plan").out
    assert ("total=99" in shown, "total=2" in shown, "1 changed, if applied" in shown) == (True, True, True)
    assert "  1. decide on the intervention refold" in shown
    none = lakehouse("backfill", app, "sums", "--offsets", "visits/0=1..1", "--plan").out
    assert "sums: nothing differs." in none, "b alone has a record there"
    outcome = lakehouse("backfill", app, "sums", "--reason", "a wrong UPDATE")
    assert outcome.code == 0, outcome.err
    assert "sums: 0 rows added, 0 removed, 1 changed, at tick 5." in outcome.out
    assert f"lakehouse repair revert sums --tick 4 --app {app}" in outcome.out
    assert lakehouse("query", "SELECT * FROM sums ORDER BY id", "--json").out == good

    reverted = said(lakehouse("revert", app, "sums", "--tick", "2", "--reason", "try", "--json").out)
    assert {name: reverted[name] for name in ("to", "tick", "back_to", "removed", "changed")} == {
        "to": "tick 2", "tick": 6, "back_to": 5, "removed": 1, "changed": 1,
    }  # fmt: skip
    listed = [said(line) for line in lakehouse("interventions", "sums", "--json").out.splitlines()]
    assert [(i["at"], i["kind"], i["reason"]) for i in listed] == [(6, "revert", "try"), (5, "swap", "a wrong UPDATE")]
    assert listed[0]["details"] == {"tick": 2}
    assert listed[0]["stages"] == [
        "copy table sums as it is at tick 5 as an anchor",
        "decide on the intervention revert, at a tick of its own, and bring sums to it",
    ]
    assert "a wrong UPDATE" in lakehouse("interventions").out


@pytest.mark.slow
def test_a_moment_becomes_a_table_and_all_ways_agree(spark, folder, app, lakehouse) -> None:
    made = said(lakehouse("checkout", app, "sums", "then", "--offsets", "visits/0=3", "--json").out)
    assert made["rows"] == 2
    assert lakehouse("query", "SELECT total FROM \"then\" WHERE id = 'a'", "--json").out == '{"total": 2}\n'
    again = said(lakehouse("rebuild", app, "sums", "again", "--from", "bronze", "--tick", "3", "--json").out)
    assert (again["rows"], again["hash"]) == (2, made["hash"])
    assert lakehouse("checkout", app, "sums", "then", "--tick", "1").code == 1
    proof = lakehouse("rebuild", app, "sums", "--prove", "--tick", "2", "--json")
    assert proof.code == 0, proof.err
    ways = said(proof.out)
    assert ways["equal"]
    assert [(way["from"], way["rows"]) for way in ways["ways"]] == [("version", 2), ("bronze", 2)]
    assert len({way["hash"] for way in ways["ways"]}) == 1
    damage(spark, folder)
    assert lakehouse("rebuild", app, "sums", "--prove").code == 1, "the version is not what bronze tells"
    assert not list(Path(folder, "lake", "beside").glob("*"))

    actual = said(lakehouse("backtest", app, "sums", "--with", "app.py:few", "--json").out)
    assert [side["rows"] for side in actual["contents"]] == [3, 2]
    assert (actual["added"], actual["removed"], actual["changed"], actual["equal"]) == (0, 1, 0, False)
    assert actual["examples"] == [{"key": {"id": "c"}, "before": {"n": 1, "total": 3}, "after": None}]
    assert "They make the same rows." in lakehouse("backtest", app, "sums", "--with", app, "--to", "2").out


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (("revert", "app.py:app", "sums"), "expected a moment"),
        (("revert", "app.py:app", "sums", "--tick", "1", "--version", "2"), "expected at most one moment"),
        (("checkout", "app.py:app", "sums", "sums", "--tick", "1"), "belongs to the application"),
        (("checkout", "app.py:app", "sums", "../x", "--tick", "1"), "expected a letter"),
        (("rebuild", "app.py:app", "sums"), "expected NEW and --from"),
        (("rebuild", "app.py:app", "sums", "x", "--prove"), "makes its own tables"),
        (("rebuild", "app.py:app", "sums", "x", "--from", "bronze", "--topic", "t"), "only --from changelog and"),
        (("backfill", "app.py:app", "sums", "--discard", "--expect", "1"), "found a range, --plan or --expect"),
        (("drill", "sums", "--history", "--damage", "flipped bit"), "expected neither: it runs no drill"),
        (("doctor", "--report", "--json"), "expected one of them"),
        (("repair", "erase", "--key", "a=1", "--verify", "--source"), "found --source; expected none of them"),
        (("repair", "rehydrate", "visits", "--to", "b", "--at", "source:1"), "expected a time, a tick, or offsets"),
        (("airflow", "up", "--name", "x"), "expected the file that it names"),
        (("backfill", "app.py:app", "sums", "--offsets", "visits/0=9..1"), "the smaller offset first"),
        (("backfill", "app.py:app", "sums", "--offsets", "visits/0=9"), "FIRST..LAST"),
        (("backfill", "app.py:app", "sums", "--from", "2013-01-02", "--to", "2013-01-01"), "the earlier time first"),
        (("backfill", "app.py:app", "sums", "--from", "noon"), "expected a time"),
        (("backfill", "app.py:app", "nothing"), "is not in this application"),
        (("interventions", "nothing"), "table 'nothing' does not exist"),
        (("interventions", "a.b"), "expected a letter"),
    ],
)
def test_wrong_arguments_are_refused_before_spark_starts(folder, lakehouse, arguments, wanted) -> None:
    (folder / "app.py").write_text(APP)
    actual = lakehouse(*arguments)
    assert (actual.code, actual.out) == (2, "")
    assert wanted in actual.err


def test_a_lake_without_interventions(folder, lakehouse) -> None:
    assert lakehouse("interventions").out == "No interventions.\n"
    assert lakehouse("interventions", "--json").out == ""
