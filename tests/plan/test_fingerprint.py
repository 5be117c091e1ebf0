"""A fingerprint: every part of a declaration is judged, and how it is written does not matter."""

from __future__ import annotations

import json
from dataclasses import fields
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import lakehouse as lh
from lakehouse.plan.alert import Crossings
from lakehouse.plan.evolution.change import compare_fingerprints
from lakehouse.plan.evolution.fingerprint import fingerprint_text, table_fingerprint
from lakehouse.plan.expression.function import value_text
from lakehouse.plan.operator import Aggregate, Expire, Final, Having, Latest, LatestBy, Suppress
from lakehouse.plan.origin import ChangesOf, Merge, Source, TableJoin
from lakehouse.plan.rows import ForeignKeyJoin, RowsJoin, RowsOf
from lakehouse.plan.step import Explode, Filter, Map, Rekey, Retime, Select
from lakehouse.plan.stream import Stream
from lakehouse.plan.stream_join import StreamJoin
from lakehouse.plan.table import Table
from lakehouse.plan.written.canonical import canonical_sql
from lakehouse.semantics.operators.stream_join import JoinWindow


@given(st.lists(st.sampled_from(["  ", "\n", "\t", " /* so */ "]), min_size=6, max_size=6), st.booleans())
def test_the_formatting_of_sql_does_not_matter(spaces: list[str], lower: bool) -> None:
    words = ["COALESCE(", "word", ",", "'A  b'", ") !=", "'x'"]
    text = "".join(space + (w.lower() if lower and "'" not in w else w) for space, w in zip(spaces, words, strict=True))
    assert canonical_sql(text) == canonical_sql("coalesce(word, 'A  b') <> 'x'")
    assert canonical_sql(text) != canonical_sql("coalesce(word, 'A b') <> 'x'")
    assert canonical_sql(canonical_sql(text)) == canonical_sql(text)


def test_sql_in_the_form_of_another_sqlglot_is_the_same() -> None:
    stream = lh.stream("orders", key="id string", schema="sql string, n int")  # a column may be called sql
    table = stream.filter("sql <> 'x'").group_by("sql").agg(n=lh.max("n")).table("t")
    was = json.loads(fingerprint_text(table_fingerprint(table)).replace("`", "").replace("<>", "!="))
    assert was != table_fingerprint(table)
    assert compare_fingerprints(was, table_fingerprint(table)).kind == "same"


# Spark gives other values for the second: a parser that knows all dialects has one tree for both of most pairs.
OTHER = [
    ("to_char(at, 'yyyy')", "to_char(at, 'MM')"), ("to_char(n, '9999')", "cast(n AS string)"),
    ("date_format(at, 'yyyy-MM')", "date_format(at, 'YYYY-MM')"), ("array_size(xs)", "size(xs)"),
    ("cast(x AS int)", "try_cast(x AS int)"), ("get(xs, 1)", "try_element_at(xs, 1)"), ("xs[1]", "element_at(xs, 1)"),
    ("ceil(n)", "ceil(n, 1)"), ("to_number(x, '99')", "to_number(x, '99.9')"),
    ("substring(x, 0)", "substring(x, 1)"), ("'a  b'", "'a b'"), ("'A'", "'a'"), ("struct(n AS A)", "struct(n AS a)"),
    ("struct(N)", "struct(n)"), ("struct(n AS End)", "struct(n AS end)"), ("1", "1L"), ("1.5", "1.50"), ("1.5", "1.5D"),
    ("n + 1 * 2", "(n + 1) * 2"), ("r'\\n'", "'\\n'"), ("x LIKE 'a'", "x RLIKE 'a'"), ("a - -b", "a - b"),
    ("to_timestamp(x)", "try_to_timestamp(x)"), ("datediff(a, b)", "datediff(b, a)"), ("trim(x)", "ltrim(x)"),
    ("x = '--y'", "x = ''"), ("from_json(x, 'A int')", "from_json(x, 'a int')"), ("array_sort(xs)", "sort_array(xs)"),
    ("`current_date`", "current_date"), ("nvl(a, b)", "nvl2(a, b, b)"), ("to_date(x)", "to_date(x, 'yyyy')"),
    ("date_trunc('week', at)", "date_trunc('day', at)"), ("levenshtein(a, b)", "levenshtein(a, b, 2)"),
    ("x || 'a/*b*/'", "x || 'a'"), ("a.b", "a .5"), ("named_struct('A', n)", "named_struct('a', n)"),
    ("tags.Date", "tags.date"), ("tags . Year = '1'", "tags . year = '1'"), ("a.b.End", "a.b.end"),
]  # fmt: skip
SAME = [
    ("n + 1", "n+1"), ("CAST(n AS BIGINT)", "cast( n as bigint )"), ("Upper(x)", "upper ( x )"), ("a != b", "a <> b"),
    ("a == b", "a = b"), ("`a` + 1", "a + 1"), ('x = "y"', "x = 'y'"), ("n -- so\n + 1", "n + 1"),
    ("/* a /* b */ c */ n", "n"), ("CASE WHEN a THEN b END", "case when a then b end"), ("xs [ 0 ]", "xs[0]"),
    ("a . b", "a.b"), ("-n", "- n"), ("x IS NOT NULL AND y", "x is not null and y"),
]  # fmt: skip


@pytest.mark.parametrize(("was", "now"), OTHER)
def test_what_gives_other_values_is_another_text(was: str, now: str) -> None:
    assert canonical_sql(was) != canonical_sql(now)


@pytest.mark.parametrize(("was", "now"), SAME)
def test_what_is_written_otherwise_is_the_same_text(was: str, now: str) -> None:
    assert canonical_sql(was) == canonical_sql(now)


@given(st.lists(st.sampled_from([
    "a", "B", "-", "+", ".", ".5", "1", "1.", "'x'", "'--'", '"y"', "`c d`", "`e`", "(", ")", "[", "]", ",", "/", "*",
    " ", "\n", "--", "=", "<", ">", "!", "AND", "r'q'", "r", "x", ":", "and", "->", "|", "1e", "e5", "L",
]), max_size=12).map("".join))  # fmt: skip
@example("-`e`")  # a name that loses its quotes stands behind a sign as any name does
def test_one_form_is_taken_apart_into_itself(text: str) -> None:
    assert canonical_sql(canonical_sql(text)) == canonical_sql(text)


def test_a_column_that_only_an_argument_reads_is_read() -> None:
    """The format of to_char is none of sqlglot's."""
    stream = lh.stream("orders", key="id string", schema="at timestamp, f string")
    tables = [stream.select("at", f=f"concat(f, '{end}')").select(v="to_char(at, f)").latest("t") for end in "ab"]
    assert compare_fingerprints(*map(table_fingerprint, tables)).kind == "refold"


def test_every_field_of_a_declaration_has_been_judged() -> None:
    """A field that is added must be taken into the fingerprint, or left out on purpose."""
    judged = {
        # name: a table of any name; key: of the stream, or of the fold; is_time: of the order's type.
        # expectations and watched_rules of a table, and snapshots of a source: they change no row.
        Table: "name stream key fold later_operators expectations watched_rules",
        Latest: "", LatestBy: "order is_time remembers tombstones", Aggregate: "grouping aggregations window",
        Final: "idle", Having: "predicate", Expire: "after", Suppress: "", ChangesOf: "table",
        Crossings: "alert table when direction",
        TableJoin: "stream table key_expressions join_type prefix as_of broadcast indicator",
        StreamJoin: "left right join_type within prefix", JoinWindow: "before after grace eager",
        RowsOf: "table", RowsJoin: "left right join_type prefix indicator",
        ForeignKeyJoin: "left right key_expressions join_type prefix indicator",
        Stream: "source key columns steps",
        Source: "name topic key value key_format value_format event_time own_table headers max_ahead expectations "
        "snapshots",
        Merge: "streams", Filter: "predicate", Select: "columns", Rekey: "columns before", Retime: "time",
        Explode: "column",
        Map: "name type arguments function",
    }  # fmt: skip
    assert {kind: " ".join(field.name for field in fields(kind)) for kind in judged} == judged


def test_values_of_options_are_the_same_in_every_process() -> None:
    numbers = lh.stream("numbers", key="id string", schema="n bigint").group_by("id")

    def zero(value: Any, kind: str) -> str:
        added = lh.aggregate("n", zero=value, add=max, accumulator=kind)
        return fingerprint_text(table_fingerprint(numbers.agg(x=added).table("t")))

    both = "struct<a: int, b: array<decimal(2, 1)>>"
    assert zero({"a": 1, "b": [Decimal("1.0")]}, both) == zero({"b": [Decimal("1.0")], "a": 1}, both)
    assert zero(0.0, "double") != zero(-0.0, "double")
    assert len({value_text(value) for value in (0, 0.0, -0.0, "0", None, False, Decimal(0))}) == 7


def test_a_key_loses_the_sign_of_zero() -> None:
    stream = lh.stream("s", key="k string", schema="c string, d double, n bigint")
    for column, is_equal in (("d", False), ("n", True)):
        rekeyed, plain = (
            origin.group_by("c").agg(x=lh.collect_list(column)).table("t") for origin in (stream.rekey(column), stream)
        )
        assert (table_fingerprint(rekeyed) == table_fingerprint(plain)) is is_equal


@pytest.mark.parametrize(
    ("computed", "is_equal"),
    [
        ("-d", False),
        ("cast(n AS float)", False),
        ("s.d", False),
        ("d * 1.5", False),
        ("n + 1", True),
        ("upper(c)", True),
    ],
)
def test_a_computed_key_loses_the_sign_of_zero(computed: str, is_equal: bool) -> None:
    """Also one whose type only Spark can tell."""
    stream = lh.stream("s", key="k string", schema="c string, d double, n bigint, s struct<d: double>")
    rekeyed, selected = (
        origin.group_by("c").agg(x=lh.latest("x")).table("t")
        for origin in (stream.rekey(f"{computed} AS x"), stream.select("c", f"{computed} AS x"))
    )
    assert (compare_fingerprints(*map(table_fingerprint, (rekeyed, selected))).kind == "same") is is_equal
