"""A fingerprint: every part of a declaration is judged, and how it is written does not matter."""

from __future__ import annotations

import json
from dataclasses import fields
from decimal import Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import lakehouse as lh
from lakehouse.plan.alert import Crossings
from lakehouse.plan.evolution.change import compare
from lakehouse.plan.evolution.fingerprint import as_text, fingerprint
from lakehouse.plan.expression import canonical
from lakehouse.plan.function import value_text
from lakehouse.plan.operator import Aggregate, Expire, Final, Having, Latest, LatestBy, Suppress
from lakehouse.plan.origin import ChangesOf, Merge, Source, TableJoin
from lakehouse.plan.rows import ForeignKeyJoin, RowsJoin, RowsOf
from lakehouse.plan.step import Explode, Filter, Map, Rekey, Select
from lakehouse.plan.stream import Stream
from lakehouse.plan.stream_join import StreamJoin
from lakehouse.plan.table import Table
from lakehouse.semantics.operators.stream_join import Within


@given(st.lists(st.sampled_from(["  ", "\n", "\t", " /* so */ "]), min_size=6, max_size=6), st.booleans())
def test_the_formatting_of_sql_does_not_matter(spaces: list[str], lower: bool) -> None:
    words = ["COALESCE(", "word", ",", "'A  b'", ") !=", "'x'"]
    text = "".join(space + (w.lower() if lower and "'" not in w else w) for space, w in zip(spaces, words, strict=True))
    assert canonical(text) == canonical("coalesce(word, 'A  b') <> 'x'")
    assert canonical(text) != canonical("coalesce(word, 'A b') <> 'x'")
    assert canonical(canonical(text)) == canonical(text)


def test_sql_in_the_form_of_another_sqlglot_is_the_same() -> None:
    stream = lh.stream("orders", key="id string", schema="sql string, n int")  # a column may be called sql
    table = stream.filter("sql <> 'x'").group_by("sql").agg(n=lh.max("n")).table("t")
    was = json.loads(as_text(fingerprint(table)).replace("`", "").replace("<>", "!="))
    assert was != fingerprint(table)
    assert compare(was, fingerprint(table)).kind == "same"


def test_every_field_of_a_declaration_has_been_judged() -> None:
    """A field that is added must be taken into the fingerprint, or left out on purpose."""
    judged = {
        # name: a table of any name; key: of the stream, or of the fold; is_time: of the order's type.
        Table: "name stream key fold behind",
        Latest: "", LatestBy: "order is_time remembers", Aggregate: "by aggregations window", Final: "idle",
        Having: "predicate", Expire: "after", Suppress: "", ChangesOf: "table",
        Crossings: "alert table when on",
        TableJoin: "stream table on how prefix as_of broadcast indicator",
        StreamJoin: "left right how within prefix", Within: "before after grace eager",
        RowsOf: "table", RowsJoin: "left right how prefix indicator",
        ForeignKeyJoin: "left right on how prefix indicator",
        Stream: "source key columns steps",
        Source: "name topic key value key_format value_format event_time own_table headers",
        Merge: "streams", Filter: "predicate", Select: "columns", Rekey: "columns", Explode: "column",
        Map: "name type arguments function",
    }  # fmt: skip
    assert {kind: " ".join(field.name for field in fields(kind)) for kind in judged} == judged


def test_values_of_options_are_the_same_in_every_process() -> None:
    numbers = lh.stream("numbers", key="id string", schema="n bigint").group_by("id")

    def zero(value: Any, kind: str) -> str:
        added = lh.aggregate("n", zero=value, add=max, accumulator=kind)
        return as_text(fingerprint(numbers.agg(x=added).table("t")))

    both = "struct<a: int, b: array<decimal(2, 1)>>"
    assert zero({"a": 1, "b": [Decimal("1.0")]}, both) == zero({"b": [Decimal("1.0")], "a": 1}, both)
    assert zero(0.0, "double") != zero(-0.0, "double")
    assert len({value_text(value) for value in (0, 0.0, -0.0, "0", None, False, Decimal(0))}) == 7
