"""What is made of tables, on the model: filters, aggregates with undo, joins; compared with what the tables hold."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lakehouse as lh
from lakehouse.errors import NoSuchStep, PlanError
from lakehouse.formats.decode import decode_record
from lakehouse.model import model
from lakehouse.plan.evolution.change import change_of, declaration_properties, tables_of, topics_of
from lakehouse.testing import Replay

from .. import rows_meeting as meeting
from ..changelogs import apply
from ..rows import (
    ALL,
    APP,
    BY_KEY,
    CHAIN,
    LEFT,
    OUTER,
    REFERRING,
    RIGHT,
    STRICT,
    A,
    B,
    histories,
    records_of,
)  # fmt: skip

COUNTED = lh.stream("c", key="k bigint", schema="z string").latest("counted")


@given(history=histories())
def test_the_tables_are_what_their_tables_hold(history: Any) -> None:
    """The oracle: joins, filters and sums of the rows at the end, made from scratch."""
    result = model.run(APP, records_of(history), decode_record)
    for name, changes in result.changelogs.items():
        assert apply(changes) == result.tables[name], name
    a, b = result.tables[A.name], result.tables[B.name]

    def joined(key: Any, left: Any, right: Any) -> Any:
        return {
            **(left or dict.fromkeys(("g", "n", "to"))),
            "b_g": (right or {}).get("g"),
            "b_n": (right or {}).get("n"),
        }

    assert result.tables[BY_KEY.name] == {key: joined(key, a[key], b[key]) for key in a if key in b}
    assert result.tables[LEFT.name] == {key: joined(key, a[key], b.get(key)) for key in a}
    assert result.tables[RIGHT.name] == {key: joined(key, a.get(key), b[key]) for key in b}
    assert result.tables[OUTER.name] == {key: joined(key, a.get(key), b.get(key)) for key in {*a, *b}}
    referring = {key: joined(key, row, b.get((row["to"],))) for key, row in a.items()}
    assert result.tables[REFERRING.name] == referring
    strict = {key: row for key, row in referring.items() if (a[key]["to"],) in b}
    assert result.tables[STRICT.name] == {key: row for key, row in strict.items() if (row["n"] or 0) > 0}
    for key, row in result.tables[ALL.name].items():
        values = [other["n"] for other in a.values() if (other["g"],) == key]
        known = [n for n in values if n is not None]
        assert (row["rows"], row["total"], row["low"]) == (len(values), sum(known), min(known, default=None))
        assert sorted(map(str, row["listed"])) == sorted(map(str, values))
    assert set(result.tables[ALL.name]) >= {(row["g"],) for row in a.values() if row["g"] is not None}
    sums: dict[Any, int] = {}
    for row in referring.values():
        sums[row["b_g"]] = sums.get(row["b_g"], 0) + (row["n"] or 0)
    chained = {key[0]: row["total"] for key, row in result.tables[CHAIN.name].items() if row["rows"]}
    assert chained == {key: total for key, total in sums.items() if key is not None}


@given(seed=st.integers(0, 2**32), size=st.integers(4, 60))
def test_tables_of_one_topic_on_both_sides_are_what_their_tables_hold(seed: int, size: int) -> None:
    """One record changes the left row and several on the right: what is left is a join of the rows as they are."""
    result = model.run(meeting.APP, meeting.records(seed, size, 3), decode_record)
    tables = {name: dict(rows) for name, rows in result.tables.items()}
    for name, changes in result.changelogs.items():
        assert apply(changes) == tables[name], name
    a, b, counts, counted = (tables[table.name] for table in (A, B, meeting.COUNTS, meeting.COUNTED))
    refer: dict[Any, list[int]] = {}
    for row in a.values():
        if row["to"] is not None:
            refer.setdefault((row["to"],), []).append(row["n"])
    most = {key: max((n for n in values if n is not None), default=None) for key, values in refer.items()}
    assert counts == {key: {"refer": len(values), "most": most[key]} for key, values in refer.items()}

    def with_right(rows: Any, right: Any, prefix: str, columns: Any, by: Any = None) -> Any:
        actual = {key: right.get(key if by is None else (row[by],), {}) for key, row in rows.items()}
        return {key: {**row, **{prefix + name: actual[key].get(name) for name in columns}} for key, row in rows.items()}

    assert tables["parents"] == with_right(a, a, "p_", ("g", "n", "to"), "to")
    assert counted == with_right(a, counts, "c_", ("refer", "most"), "to")
    assert tables["by_largest"] == with_right(b, tables["largest"], "l_", ("g", "n", "to"))
    both = {key: counts.get(key, {"refer": None, "most": None}) for key in {*counts, *b}}
    assert tables["of_counts"] == with_right(both, b, "b_", ("g", "n"))
    pairs = {key: row for key, row in tables["pairs"].items() if (row["to"],) in counted}
    assert tables["placed"] == with_right(pairs, counted, "t_", ("g", "n", "to", "c_refer", "c_most"), "to")
    for key, row in tables["groups"].items():
        group = [other for other in counted.values() if (other["c_refer"],) == key]
        assert row["rows"] == len(group)
        assert sorted(map(str, row["listed"])) == sorted(str(other["n"]) for other in group)
        assert (row["total"] or 0) == sum(other["c_most"] or 0 for other in group)


@given(seed=st.integers(0, 2**32), size=st.integers(4, 60))
def test_what_is_made_of_the_rows_of_windows_is_what_these_hold(seed: int, size: int) -> None:
    result = model.run(meeting.WINDOWED, meeting.records(seed, size, 3), decode_record)
    for table in meeting.WINDOWS:
        rows = result.tables[table.name]
        assert result.tables[f"{table.name}_large"] == {key: row for key, row in rows.items() if row["n"] > 1}
        counts = {key: row["rows"] for (key,), row in result.tables[f"{table.name}_by_n"].items()}
        assert counts == dict(Counter(row["n"] for row in rows.values()))


@given(history=histories(), ticks=st.lists(st.integers(1, 4), min_size=0, max_size=20))
def test_a_change_follows_its_record(history: Any, ticks: list[int]) -> None:
    """The changes of all tables at a position are those of one record: sorted, no position twice for one key."""
    result = model.run(APP, records_of(history, ticks), decode_record)
    for name, changes in result.changelogs.items():
        places = [(change.position, change.key) for change in changes]
        assert [place for place, _ in places] == sorted(place for place, _ in places), name
        assert len(set(map(str, places))) == len(places), name


def test_a_table_that_fans_out_gives_each_change_a_position_of_its_own() -> None:
    replay = Replay(lh.app(REFERRING))
    for number in range(20):
        replay.send("a", key=f"k{number:02}", value={"to": "x", "g": "g", "n": number}, timestamp=number)
    replay.send("b", key="x", value={"g": "h", "n": 1}, timestamp=100)
    changes = replay.run().changes("referring")
    assert [change["b_g"] for change in changes] == [None] * 20 + ["h"] * 20
    assert [change["k"] for change in changes[20:]] == [f"k{number:02}" for number in range(20)]


def test_the_time_of_a_joined_row_is_the_larger_one() -> None:
    replay = Replay(lh.app(BY_KEY))
    replay.send("a", key="x", value={"n": 1}, timestamp=50)
    replay.send("b", key="x", value={"n": 1}, timestamp=20)
    replay.send("a", key="x", value=None, timestamp=30)
    assert [change["timestamp"] for change in replay.run().changes("by_key")] == [50, 30]


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: A.join(A.to_stream()), "found stream 'a_', expected a table"),
        (lambda: A.join(B.to_stream(), on="to"), "found stream 'b_', expected a table"),
        (lambda: A.join(B, how="full", prefix="b_"), "expected 'inner', 'left', 'right', 'outer'"),
        (lambda: A.join(B, on="to", how="right", prefix="b_"), "A foreign key leads one way"),
        (lambda: A.join(B), 'prefix="b__"'),
        (lambda: A.join(B, on=("to", "n"), prefix="b_"), "found 2 expressions"),
        (lambda: A.join(B, on="n", prefix="b_"), "they are never equal"),
        (lambda: A.join(B, on="nobody", prefix="b_"), "nobody"),
        (lambda: A.filter("n > 1").join(B), r'has no name yet. Join tables: .table\("name"\)'),
        (lambda: A.filter("nn > 1"), "table 'a_': filter: .*Did you mean 'n'"),
        (lambda: A.join(B, prefix="b_").filter("x > 1"), r"join of tables 'a_ \+ b_': filter"),
        (lambda: A.group_by("g").window(lh.tumbling("1 hour")), "the rows of a table have no window"),
        (lambda: lh.app(A.filter("n > 1")), "Rows without a name are not kept"),
        (lambda: A.filter("rowtime < 9"), "filter: 'rowtime < 9' reads rowtime, which belongs to a change of a row"),
        (lambda: A.group_by("rowtime AS r"), "group_by: 'rowtime' reads rowtime, which belongs to a change"),
        (lambda: A.group_by("g").agg(t=lh.sum("ROWTIME")), r"agg: t=sum\(ROWTIME\): 'ROWTIME' reads rowtime"),
        (lambda: A.group_by("g").agg(t=lh.max("rowoffset + 1")), "reads rowoffset, .* Keep it as a column of a table"),
        (lambda: A.select("g", t="rowpartition").group_by("g").agg(t=lh.sum("t")), "reads t, made from rowtime"),
        (lambda: A.with_columns(t="rowtime").select("g", u="t + 1").filter("u > 1"), "filter: 'u > 1' reads u, made"),
        (lambda: A.map("t", abs, "rowtime", type="bigint").group_by("t"), "group_by: 't' reads t, made from rowtime"),
        (lambda: A.join(B, prefix="b_").filter("rowtime < 9"), r"join of tables 'a_ \+ b_': filter: .* reads rowtime"),
        (lambda: A.join(COUNTED, on="rowtime"), "on: 'rowtime' reads rowtime, which belongs to a change"),
    ],
)
def test_refused(make: Any, says: str) -> None:
    with pytest.raises(PlanError, match=says):
        make()


@pytest.mark.parametrize(
    ("left_type", "right_type"),
    [
        ("decimal(38, 10)", "decimal(38, 0)"), ("decimal(12)", "decimal(12, 2)"), ("array<int>", "array<string>"),
        ("struct<x: int, y: int>", "struct<y: int, x: int>"), ("struct<x: int>", "struct<X: int>"),
    ],
)  # fmt: skip
def test_keys_of_like_types_are_not_joined(left_type: str, right_type: str) -> None:
    """Spark would convert one of them: 1.5 found the row of 2."""
    left = lh.stream("l", key=f"k {left_type}", schema="a bigint", key_format="json")
    right = lh.stream("r", key=f"k {right_type}", schema="b bigint", key_format="json").latest("rt")
    table = left.latest("lt")
    joins = (
        lambda: table.join(right, prefix="r_"), lambda: table.join(right, on="k", prefix="r_"),
        lambda: left.join(right, prefix="r_"), lambda: left.join(right, prefix="r_", broadcast=True),
    )  # fmt: skip
    for join in joins:
        with pytest.raises(PlanError, match="they are never equal"):
            join()


def test_types_that_are_written_otherwise_are_the_same() -> None:
    left = lh.stream("l", key="k struct<`x`:DECIMAL, Y : String>", schema="a bigint", key_format="json")
    right = lh.stream("r", key="k struct<x: decimal(10, 0), Y: string>", schema="b bigint", key_format="json")
    left.join(right.latest("rt"), prefix="r_")


def test_the_time_of_a_row_that_a_table_keeps_may_decide() -> None:
    """It is taken out as it was put in; a column that is made again from others is not a change's any more."""
    kept = A.with_columns(changed_at="rowtime").table("kept")
    sums = kept.filter("changed_at < 9000").group_by("g").agg(t=lh.sum("changed_at"), n=lh.count()).table("sums")
    A.with_columns(t="rowtime").with_columns(t="n").filter("t > 1")
    replay = Replay(lh.app(sums))
    for ms, group in ((1000, "x"), (2000, "x"), (3000, "y")):
        replay.send("a", key="k", value={"to": "z", "g": group, "n": 1}, timestamp=ms)
    assert replay.run().rows("sums") == [{"g": "x", "t": 0, "n": 0}, {"g": "y", "t": 3000, "n": 1}]


def test_a_step_over_rows_that_there_is_not() -> None:
    for step in ("rekey", "to_stream", "explode", "merge", "to_topic"):
        with pytest.raises(NoSuchStep, match="Name the table first"):
            getattr(A.filter("n > 1"), step)
    with pytest.raises(NoSuchStep, match="A step over its changes"):
        A.rekey("g")  # type: ignore[attr-defined]


def test_the_text_of_what_is_made_of_tables() -> None:
    assert lh.describe(STRICT).splitlines()[:5] == [
        "TABLE strict (key k)", "  latest value per key; a null value deletes", "  FILTER n > 0",
        "  INNER JOIN TABLE b_ ON to", "    ROWS OF TABLE a_",
    ]  # fmt: skip
    assert "  OUTER JOIN OF TABLES a_, b_" in lh.describe(OUTER)
    assert "  ROWS OF TABLE a_" in lh.describe(ALL)
    assert (topics_of(declaration_properties(OUTER)), tables_of(declaration_properties(OUTER))) == (
        {"a", "b"},
        {"a_", "b_"},
    )
    assert tables_of(declaration_properties(CHAIN)) == {"a_", "b_", "referring"}


def test_a_changed_join_of_tables_is_told() -> None:
    was = declaration_properties(A.join(B, on="to", prefix="b_").table("t"))
    assert change_of(was, A.join(B, on="to", prefix="b_").table("t")).kind == "same"
    now = change_of(was, A.join(B, on="to", how="left", prefix="b_").table("t"))
    assert (now.kind, now.reasons[0][:55]) == ("refold", "how of the join with a_ + b_: found inner, declared lef")
    assert "streams" in change_of(was, A.join(B, prefix="b_").table("t")).reasons[0]
    reasons = change_of(was, A.join(A, on="to", prefix="b_").table("t")).reasons
    assert any("table that is read: found a_ + b_, declared a_ + a_" in reason for reason in reasons)
    sums = A.group_by("g").agg(n=lh.count()).table("sums")
    assert (
        change_of(declaration_properties(sums), A.to_stream().group_by("g").agg(n=lh.count()).table("sums")).kind
        == "refold"
    )
