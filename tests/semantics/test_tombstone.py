"""Null keys and null values, by the table of meanings in lakehouse/semantics/tombstone.py."""

from __future__ import annotations

import pytest

from lakehouse.semantics.tombstone import Effect, Row, effect_on_table, is_tombstone, takes_part_in_aggregates


@pytest.mark.parametrize(
    ("null_key", "value", "expected"),
    [
        (False, {"city": "Paris"}, Effect.UPSERT),
        (False, {"city": None}, Effect.UPSERT),  # a row of nulls is a row
        (False, None, Effect.DELETE),
        (True, {"city": "Paris"}, Effect.IGNORE),
        (True, None, Effect.IGNORE),
    ],
)
def test_what_a_record_does_to_a_table(null_key: bool, value: Row | None, expected: Effect) -> None:
    assert effect_on_table(null_key, value) is expected


def test_only_a_null_value_is_a_tombstone() -> None:
    assert is_tombstone(None)
    assert not is_tombstone({"city": None})
    assert not is_tombstone({})


def test_a_null_in_any_group_column_leaves_the_record_out_and_a_struct_of_nulls_does_not() -> None:
    assert takes_part_in_aggregates(("a", 1), {"n": None})
    assert not takes_part_in_aggregates(("a", None), {"n": 1})
    assert takes_part_in_aggregates(({"first": None},), {"n": 1})
    assert not takes_part_in_aggregates(("a",), None)
