"""Changed declarations: what each difference means for the table that exists, and what people are told."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lakehouse as lh
from lakehouse.errors import PlanError
from lakehouse.plan.evolution.change import (
    DECLARATION,
    change_of,
    compare_fingerprints,
    declaration_properties,
    explain_refusal,
)
from lakehouse.plan.evolution.fingerprint import fingerprint_text, table_fingerprint
from lakehouse.plan.operator import Expire
from lakehouse.plan.stream import Stream
from lakehouse.plan.table import Table
from lakehouse.plan.windows import DeclaredWindow
from lakehouse.testing import Replay

SCHEMA = "n bigint, at timestamp, word string, tags array<string>"
CLOSE = {"zero": 0, "add": lambda a, v: a + (v or 0), "accumulator": "bigint", "merge": lambda a, b: a + b}


def orders(schema: str = SCHEMA, key: str = "id string", **options: Any) -> Stream:
    return lh.stream("orders", key=key, schema=schema, **options)


def counts(stream: Stream | None = None, *group: str, **options: Any) -> Table:
    return (stream or orders()).group_by(*(group or ("id",))).agg(n=lh.count()).table("t", **options)


def hourly(window: DeclaredWindow | None = None, **options: Any) -> Table:
    made = lh.tumbling("1 hour", grace="10 minutes") if window is None else window
    return orders().group_by("id").window(made).agg(n=lh.count()).table("t", **options)


def final(**options: Any) -> Table:
    return hourly(emit="final", **options)


def having(predicate: str) -> Table:
    return orders().group_by("id").agg(n=lh.count()).having(predicate).table("t")


def agg(**aggregates: Any) -> Table:
    return orders().group_by("id").agg(**aggregates).table("t")


def kind(was: Table, now: Table) -> str:
    return compare_fingerprints(table_fingerprint(was), table_fingerprint(now)).kind


csv = "n bigint, word string"
merged = orders().merge(lh.stream("more", key="id string", schema=SCHEMA))


def history(track: list[str] | None = None, stream: Stream | None = None) -> Table:
    return (stream or orders()).latest("x").history("t", track=track)


def counted_headers(schema: str = SCHEMA, **options: Any) -> Table:
    return orders(schema, **options).group_by("id").agg(n=lh.count("h")).table("t")


HEADERS = "array<struct<key: string, value: binary>>"
more = f"{SCHEMA}, more int"

# (before, after, what the difference means, what people are told)
CASES: list[tuple[Table, Table, str, str]] = [
    # The key.
    (counts(), counts(None, "word"), "new_table", "key: found id string, declared word string; .* declare a new table"),
    (counts(None, "id", "word"), counts(None, "word", "id"), "new_table", "key: found id string, word string, decl"),
    (counts(), counts(None, "n AS id"), "new_table", "key: found id string, declared id bigint"),
    (orders().latest("t"), orders(key="id bigint").latest("t"), "new_table", "declared id bigint"),
    (counts(), hourly(), "new_table", r"window: found none, declared tumbling \(size 3600000 ms, grace 600000 ms\)"),
    (hourly(retention="1 day"), counts(), "new_table", "window: found tumbling .*, declared none"),
    (counts(None, "upper(word) AS w"), counts(None, "lower(word) AS w"), "refold", "group by w: found upper"),
    # What a row holds.
    (counts(), orders().latest("t"), "refold", "found aggregates, declared the latest value of each key"),
    (agg(n=lh.count()), agg(n=lh.count("word")), "refold", r"aggregate n: found count\(\*\), declared count\(word\)"),
    (agg(n=lh.count()), agg(n=lh.count(), m=lh.max("n")), "refold", r"aggregate m: found none, declared max\(n\)"),
    (agg(n=lh.count(), m=lh.max("n")), agg(n=lh.count()), "refold", r"aggregate m: found max\(n\), declared none"),
    (agg(x=lh.top_k("n", 3)), agg(x=lh.top_k("n", 4)), "refold", r"k=3\).*k=4\)"),
    (agg(x=lh.latest("n")), agg(x=lh.latest("n", ignore_nulls=False)), "refold", "ignore_nulls"),
    (agg(x=lh.reduce("n", lambda a, b: a + b)), agg(x=lh.reduce("n", lambda a, b: a * b)), "refold", "function #"),
    (agg(x=lh.aggregate("n", **CLOSE)), agg(x=lh.aggregate("n", **{**CLOSE, "zero": 1})), "refold", "zero=0.*zero=1"),
    (having("n > 1"), having("n > 2"), "refold", "having: found n > 1, declared n > 2; .* refold the table"),
    (counts(), having("n > 2"), "refold", "having: found none"),
    (hourly(), hourly(lh.tumbling("2 hours", grace="10 minutes")), "refold", "window: found .*3600000.*7200000"),
    (hourly(), hourly(lh.tumbling("1 hour")), "refold", "grace 600000 ms.*grace 82800000 ms"),
    (hourly(), hourly(lh.session("1 hour", grace="10 minutes")), "refold", "declared session"),
    (hourly(), hourly(lh.sliding("1 hour", grace="10 minutes")), "refold", "declared sliding"),
    (hourly(), hourly(lh.hopping("1 hour", "1 minute", grace="10 minutes")), "refold", "declared hopping"),
    (hourly(), final(), "refold", "emit: found changes, declared final"),
    (orders().latest("t"), orders().latest("t", order_by="at"), "refold", "order_by: found none, declared at"),
    (orders().latest("t", order_by="n"), orders().latest("t", order_by="at"), "refold", "found n, declared at"),
    (
        orders().latest("t", order_by="n"), orders().latest("t", order_by="n", tombstones="newest"),
        "refold", "tombstones: found by order, declared newest",
    ),
    (orders().latest("t"), orders().select("n").latest("t"), "refold", "columns: found at, n, tags, word, declared n"),
    (orders().latest("t"), orders(f"{SCHEMA}, more int").latest("t"), "refold", "columns: found .* declared at, more"),
    # What it reads.
    (counts(orders().filter("n > 1")), counts(orders().filter("n > 2")), "refold", "filter n > 1, declared filter n >"),
    (counts(), counts(orders().filter("n > 2")), "refold", "steps of stream orders: found none, declared filter"),
    (
        agg(x=lh.sum("n")), orders().select("n + 1 AS n").group_by("id").agg(x=lh.sum("n")).table("t"),
        "refold", r"declared select n \+ 1 AS n",
    ),
    (
        orders().rekey("word").latest("t"), orders().rekey("lower(word) AS word2").latest("t"),
        "new_table", "key: found word string, declared word2 string",
    ),
    (
        counts(orders().retime("at")), counts(orders().retime("at + interval 1 day")),
        "refold", r"retime at, declared retime at \+ interval",
    ),
    (counts(), counts(orders().retime("at")), "refold", "steps of stream orders: found none, declared retime at"),
    (
        counts(orders().explode("tags", "tag"), "tag"), counts(orders().explode("array(word)", "tag"), "tag"),
        "refold", "explode tags AS tag, declared explode array",
    ),
    (
        counts(orders().map("m", lambda a: a, "n", type="bigint"), "m"),
        counts(orders().map("m", lambda a: a + 1, "n", type="bigint"), "m"),
        "refold", r"map m bigint = function #\w{8}\(n\)",
    ),
    (
        counts(orders().filter("n > 1").explode("tags", "tag"), "id"),
        counts(orders().explode("tags", "tag").filter("n > 1"), "id"),
        "refold", "found filter n > 1, explode tags AS tag, declared explode tags AS tag, filter n > 1",
    ),
    (counts(), counts(merged), "refold", r"streams: found orders, declared orders \+ more"),
    (counts(merged), counts(orders().filter("n > 1").merge(orders())), "refold", "topic of stream orders: found more"),
    (counts(), counts(lh.stream("other", key="id string", schema=SCHEMA, name="orders")), "refold", "topic of stream"),
    (counts(), counts(orders(event_time="at")), "refold", "event time of stream orders: found none, declared at"),
    (counts(), counts(orders().expect("positive", "n > 0")), "refold",
     "what is expected of stream orders: found nothing, declared n > 0"),
    (counts(), counts(orders(key_format="json")), "refold", "key format of stream orders: found kafka, declared json"),
    (counts(orders(csv)), counts(orders(csv, format="csv")), "refold", "value format of stream orders: found json"),
    (agg(x=lh.sum("n")), orders("n int, at timestamp").group_by("id").agg(x=lh.sum("n")).table("t"),
     "refold", "column n of stream orders: found bigint, declared int"),
    (counts(None, "word"), counts(orders(key="id bigint"), "word"), "refold", "key of stream orders: found id string"),
    (counts(orders(csv, format="csv")), counts(orders(f"{csv}, x int", format="csv")), "refold", "schema of stream"),
    # The table goes on.
    (counts(), counts(orders(f"{SCHEMA}, more int")), "compatible", "columns .* found none, declared more int; .*qu"),
    (counts(), counts(orders("n bigint")), "compatible", "found at timestamp, tags array<string>, word string, decl"),
    (counts(), counts(orders("n int")), "compatible", "found .*n bigint.*, declared n int"),
    (counts(), counts(orders(name="renamed")), "compatible", "go to quarantine.renamed .* stay in quarantine.orders"),
    (counts(), counts(suppress=True), "compatible", "suppress: found no suppress, declared suppress; only the changel"),
    (hourly(), hourly(retention="1 day"), "compatible", "found none, declared 86400000 ms; .* are removed with"),
    (hourly(retention="2 days"), hourly(retention="1 day"), "compatible", "are removed with the next records"),
    (hourly(retention="1 day"), hourly(retention="2 days"), "compatible", "rows that were removed do not"),
    (hourly(retention="1 day"), hourly(), "refold", r'or declare a long retention \("36500 days"\)'),
    (hourly(retention="1 day"), hourly(retention="36500 days"), "compatible", "rows that were removed do not"),
    (final(retention="1 day"), final(), "compatible", "rows that were removed do not"),
    (final(), final(idle="1 hour"), "compatible", "idle: found none, declared 3600000 ms; from now on final results"),
    (
        orders().latest("t", order_by="at", retention="1 day"), orders().latest("t", order_by="at"),
        "refold", "which deletes are remembered",
    ),
    # What has no rule of its own, alone and beside what lets a table go on.
    (history(["n"]), history(["word"]), "refold", 'track: found n, declared word; .* refold the table'),
    (history(["n"]), history(["n", "word"]), "refold", r'track: found \["n"\], declared \["n", "word"\]'),
    (history(), history(["n"]), "refold", r'track: found none, declared \["n"\]'),
    (history(["n"]), history(["n"], orders(name="renamed")), "compatible", "go to quarantine.renamed"),
    (
        history(["n"]), history(["word"], orders(name="renamed")),
        "refold", "(?s)track: found n, declared word.*quarantine.renamed",
    ),
    (history(["n"], orders().select("n", "word")), history(["word"], orders(more).select("n", "word")),
     "refold", "(?s)track: .*columns of stream"),
    (counted_headers(headers="h"), counted_headers(f"{SCHEMA}, h {HEADERS}", name="renamed"),
     "refold", "(?s)stream headers: found h, declared none.*renamed"),
    (orders().latest("t"), history(), "new_table", "history: found one row of each key, declared the rows of history"),
    (history(), orders(name="renamed").latest("t"), "new_table", "history: found .*valid_from in the key, decl"),
    # Several differences: the gravest one counts.
    (
        counts(orders().filter("n > 1"), suppress=True), counts(None, "word"),
        "new_table", "(?s)key: .*steps of stream .*suppress: ",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("was", "now", "means", "said"), CASES)
def test_a_difference_is_found_and_named(was: Table, now: Table, means: str, said: str) -> None:
    change = compare_fingerprints(json.loads(fingerprint_text(table_fingerprint(was))), table_fingerprint(now))
    assert change.kind == means
    assert re.search(said, "\n".join(change.reasons)), change.reasons
    assert change.can_go_on == (means == "compatible")
    for reason in change.reasons:
        assert re.search(r": found .+, declared .+; .*(refold|new table|nothing to do)", reason)


def squares(values: Any) -> Any:
    return values * values


# Pairs: one declaration, written in two ways.
SAME: list[tuple[Table, Table]] = [
    (counts(), counts()),
    (having("n>1 AND  n < 5"), having("n > 1 and n < 5 -- few")),
    (counts(orders().filter("upper( word )='A'")), counts(orders().filter("UPPER(`word`) = 'A'"))),
    (agg(a=lh.count(), b=lh.max("n")), agg(b=lh.max("n"), a=lh.count())),
    (hourly(lh.tumbling("1 hour", grace="0 minutes")), hourly(lh.hopping("60 minutes", "1 hour", grace="0 seconds"))),
    (counts(orders("n bigint, word string")), counts(orders("word STRING,n BIGINT"))),
    (counts(), counts(orders(own_table=True))),
    (counts(orders().expect("positive", "n > 0")), counts(orders().expect("more", "n  > 0"))),
    # Columns that nothing reads.
    (counts(), counts(orders().select("n", "word"))),
    (counts(), counts(orders().with_columns(twice="n * 2"))),
    (counts(), counts(orders().map("m", squares, "n", type="bigint"))),
    (counts(), counts(orders().rekey("word"))),
    (counts(orders().drop("at").filter("n > 1")), counts(orders().filter("n > 1").drop("n"))),
    # A function is what it does, whatever its name and wherever it stands.
    (agg(x=lh.aggregate("n", **CLOSE)), agg(x=lh.aggregate("n", **CLOSE))),
    (agg(x=lh.reduce("n", lambda a, b: a + b)), agg(x=lh.reduce("n", lambda a, b: a  +  b))),
]  # fmt: skip


@pytest.mark.parametrize(("was", "now"), SAME)
def test_what_has_no_effect_is_the_same(was: Table, now: Table) -> None:
    assert table_fingerprint(was) == table_fingerprint(now)
    assert kind(was, now) == "same"


# The model would have to know the rows that left, and when the declaration changed.
GO_ON = [
    (was, now) for was, now, *_ in CASES if kind(was, now) == "compatible" and was.find(Expire) == now.find(Expire)
]
EQUAL = [*SAME, *[(was, now) for was, now in GO_ON if was.idle == now.idle]]

RECORDS = st.lists(
    st.tuples(
        st.sampled_from([None, "a", "b"]),
        st.one_of(
            st.none(),
            st.fixed_dictionaries(
                {}, optional={"n": st.integers(0, 3), "word": st.sampled_from("aB"), "tags": st.just(["x", "y"])}
            ),
        ),
        st.integers(0, 8_000_000),
    ),
    max_size=8,
)


@pytest.mark.parametrize(("was", "now"), EQUAL)
@given(records=RECORDS)
def test_a_table_that_goes_on_has_the_rows_of_a_rebuild(was: Table, now: Table, records: list[Any]) -> None:
    rows = []
    for table in (was, now):
        replay = Replay(lh.app(table))
        for key, value, time in records:
            replay.send("orders", key=key, value=value, timestamp=time)
        rows.append(replay.run().rows("t"))
    assert rows[0] == rows[1]


# Parts by which a table may go on, or that say the same under another name.
HARMLESS = {("beside", "suppress"), ("beside", "retention"), ("beside", "idle"), ("version",)}
OTHER_WORDS = {"json": "csv", "kafka": "json", "changes": "final"}
WINDOW = {"kind": "hopping", "size": 2, "advance": 1, "grace": 0}


def parts_of(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of all parts of a fingerprint that are not made of others."""
    if isinstance(value, dict | list) and value:
        items = value.items() if isinstance(value, dict) else enumerate(value)
        return [path_below for key, item in items for path_below in parts_of(item, (*path, key))]
    return [path]


def other_part(part: Any, name: Any) -> Any:
    match part:
        case None:
            return WINDOW if name == "window" else {"$sql": "n"}
        case bool():
            return not part
        case int():
            return part + 1
        case str():
            return OTHER_WORDS.get(part, f"{part}_2")
    return {"a": "int"} if part == {} else [{"filter": {"$sql": "n > 1"}}]


def changed_at(plan: Any, path: tuple[Any, ...], change: str) -> Any:
    """Return a fingerprint with another part at a path, or without it."""
    plan = json.loads(fingerprint_text(plan))
    outer = plan
    for key in path[:-1]:
        outer = outer[key]
    if change == "other":
        outer[path[-1]] = other_part(outer[path[-1]], path[-1])
    else:
        outer["new part"] = 1
    return plan


clicks = lh.stream("clicks", key="id string", schema="page string")
customers = lh.stream("customers", key="name string", schema="town string").latest("customers")
joined = orders().join(customers, on="word", how="left", prefix="c_", indicator="known")
WHOLE = [
    history(["n"]), counted_headers(headers="h", event_time="at", max_ahead="1 day"), hourly(),
    counts(merged.filter("n > 1")),
    joined.latest("t"), counts(joined.filter("known = 'a'").map("m", squares, "n", type="bigint"), "m"),
    orders().latest("t", order_by="at", tombstones="newest"), having("n > 1"),
    orders().join(clicks, how="left", within="1 hour").latest("t"),
]  # fmt: skip


@pytest.mark.parametrize("table", WHOLE)
@pytest.mark.parametrize("change", ["other", "added"])
def test_what_lets_a_table_go_on_hides_no_other_difference(table: Table, change: str) -> None:
    """Each part of a fingerprint is changed, together with what is compatible alone."""
    plan = table_fingerprint(table)
    renamed = json.loads(fingerprint_text(plan))
    renamed["beside"]["suppress"] = not renamed["beside"]["suppress"]
    assert compare_fingerprints(plan, renamed).kind == "compatible"
    for path in parts_of(plan):
        is_harmless = path in HARMLESS or path[-2:] == ("beside", "name") or "unread" in path
        is_item = isinstance(path[-1], int)  # of a list: nothing is added to it
        if is_harmless or (path[0] == "key" and path[-1] == 1) or (is_item and change == "added"):
            continue
        evolution = compare_fingerprints(plan, changed_at(renamed, path, change))
        assert evolution.kind in ("refold", "new_table"), (path, evolution)


def test_rekeying_counts_where_the_key_is_read() -> None:
    # A key whose value is null counts as a null key only after `rekey`.
    assert kind(orders().latest("t"), orders().rekey("id").latest("t")) == "refold"


TABLES = [table for was, now, *_ in CASES for table in (was, now)]


@given(st.sampled_from(TABLES), st.sampled_from(TABLES))
def test_a_fingerprint_is_equal_where_nothing_differs(one: Table, other: Table) -> None:
    equal = fingerprint_text(table_fingerprint(one)) == fingerprint_text(table_fingerprint(other))
    there, back = (
        compare_fingerprints(table_fingerprint(one), table_fingerprint(other)),
        compare_fingerprints(table_fingerprint(other), table_fingerprint(one)),
    )
    assert (there.kind == "same") == (back.kind == "same") == equal
    assert bool(there.reasons) == (not equal)
    assert (there.kind == "new_table") == (back.kind == "new_table")


def test_what_a_table_carries_is_compared() -> None:
    table = counts()
    carried = declaration_properties(table)
    assert change_of(carried, table).kind == "same"
    assert change_of(carried, counts(suppress=True)).kind == "compatible"
    assert change_of({}, table).kind == "new_table", "another program wrote it"


@pytest.mark.parametrize("version", [0, 2])
def test_the_fingerprint_of_another_release_is_refused_with_what_to_do(version: int) -> None:
    other_properties = declaration_properties(counts()) | {DECLARATION: fingerprint_text({"version": version})}
    refusal = rf"version {version}, by another release of lakehouse; this one reads version 1\. Use that release, or"
    with pytest.raises(PlanError, match=refusal):
        change_of(other_properties, counts())


def test_a_refusal_names_the_way_out() -> None:
    text = explain_refusal("t", compare_fingerprints(table_fingerprint(counts()), table_fingerprint(having("n > 1"))))
    assert text.splitlines() == [
        "table 't' exists in the lake under another declaration, and needs a refold:",
        "  having: found none, declared n > 1; its rows were computed the earlier way, so refold the table.",
        "`lakehouse repair backfill t` builds it from bronze beside the live table, and swaps it in; --plan says "
        "what would change. Or give the new declaration another table name: it is built from bronze, while t stays.",
    ]
