"""Calls that would take all the memory or the whole stack of the process for some record: null, and the job goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import lakehouse as lh
from lakehouse.semantics.record import Record

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = "s string, p string, f string, many string, n int, xs array<string>"
MAP = "map_from_entries(transform(xs, (x, i) -> struct(i, x)))"
FEW = {"s": "aa", "p": "^(a|b)*$", "f": "%5s", "many": "%1$s%1$s", "n": 2, "xs": ["x", "y"]}
# What each gives for the small record. For the large one it would be larger than the memory, or deeper than the stack.
CALLS: dict[str, Any] = {
    "length(replace(s, 'a', s))": 4, "length(replace(s, s, 'xyz'))": 3, "length(regexp_replace(s, 'a', s))": 4,
    "length(regexp_replace(left(s, 20000), '(?=(.*))', '$1'))": 5, "length(array_join(xs, s))": 4,
    "length(concat_ws(s, xs))": 4, "length(concat_ws(s, 'b', xs, s))": 11, "length(format_string(f, s))": 5,
    "length(printf(many, s))": 4, "format_string(left(f, 1) || '1$s 123456789', left(s, 2))": "aa 123456789",
    "length(format_number(n, n))": 4,
    "length(replace(replace(replace(upper(s), 'A', s), 'a', s), 'a', s))": 16, "length(repeat(lower(s), n))": 4,
    "s RLIKE '^(a|b)*$'": True, "s RLIKE p": True, "regexp_like(upper(s), '^(A|B)+$')": True,
    "size(split(s, '(a|b)*c'))": 1, "regexp_replace(s, '(a|b)*c', '')": "aa", "regexp_extract(s, '(a|b)*', 1)": "a",
    "regexp_substr(s, '(a|b)+')": "aa", "size(str_to_map(s, p))": 1, "regexp_count(s, '(a|b){2,}')": 1,
    "size(regexp_extract_all(left(s, 20000), '(?=(.*))', 1))": 3, "size(regexp_extract_all(left(s, 9), p))": 1,
    "CASE WHEN s RLIKE p THEN ksql_regexp_group(s, p, 1) END": "a",
    "length(ksql_json_pointer(concat('$', replace(s, 'a', '.a'))))": 4,
    "size(transform(xs, x -> concat(x, s)))": 2, "size(transform(xs, (x, i) -> repeat(s, i)))": 2,
    "transform(xs, (x, i) -> concat(s, x, i))[1]": "aay1",
    f"transform_values({MAP}, (k, v) -> concat(v, s))[1]": "yaa",
    f"transform_keys({MAP}, (k, v) -> concat(k, s))['1aa']": "y",
    "zip_with(xs, array(1, 2), (x, y) -> concat(x, s))[1]": "yaa",
    f"map_zip_with({MAP}, {MAP}, (k, x, y) -> x || s || y || k)[1]": "yaay1",
    "length(aggregate(split(left(s, 2000), ''), 'a', (made, x) -> concat(made, made)))": 4,
    "transform(slice(xs, 1, 2), x -> transform(xs, y -> x || y || s))[1][0]": "yxaa",
}  # fmt: skip
LONG = 2_000_000
MANY = {
    "s": "a" * LONG, "p": "(a|b)*", "f": "%2000000000s", "many": "%1$s" * 2_000, "n": 2_000_000_000,
    "xs": ["x"] * 10_000,
}  # fmt: skip
SMALL = {
    "length(replace(s, s, 'xyz'))": 3,
    "format_string(left(f, 1) || '1$s 123456789', left(s, 2))": "aa 123456789",
    "size(regexp_extract_all(left(s, 9), p))": 2,
    "length(ksql_json_pointer(concat('$', replace(s, 'a', '.a'))))": 2 * LONG,
}  # these do not make the value far larger, so they are computed


def run(spark: SparkSession, folder: Path, calls: dict[str, Any], values: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what the calls give on each record."""
    from lakehouse.run.scenario.replay import SparkReplay

    events = lh.stream("events", key="id string", schema=SCHEMA)
    made = events.select(**{f"c{number}": text for number, text in enumerate(calls)})
    records = [
        Record("events", "id", 0, n, n, str(n).encode(), json.dumps(value).encode(), 1, n)
        for n, value in enumerate(values)
    ]
    result = SparkReplay(spark, folder)(lh.app(made.latest("made")), records)
    assert not result.quarantine["events"]
    rows = result.tables["made"]
    return [dict(zip(calls, rows[(str(n),)].values(), strict=True)) for n in range(len(values))]


@pytest.mark.rotated
def test_a_value_larger_than_the_memory_or_deeper_than_the_stack_is_null(spark: SparkSession, tmp_path: Path) -> None:
    first, large, last = run(spark, tmp_path, CALLS, [FEW, MANY, FEW])
    assert first == last == CALLS
    # Spark gives -1 as the size of a null.
    assert {call: value for call, value in large.items() if value not in (None, -1)} == SMALL


@pytest.mark.rotated
def test_a_pattern_that_repeats_a_group_matches_twenty_thousand_characters(spark: SparkSession, tmp_path: Path) -> None:
    """A thread's default stack ends at 1,700."""
    calls = {"s RLIKE '^(a|b)*$'": True, "s RLIKE p": True, "length(replace(s, 'a', '123456789'))": 180_000}
    assert run(spark, tmp_path, calls, [FEW | {"s": "a" * 20_000}]) == [calls]
