"""Output for people and for programs."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

import pytest

from lakehouse.cli.terminal import show


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (True, "yes"),
        (1234567, "1,234,567"),
        (0.5, "0.5"),
        (datetime(2013, 6, 1, 12, 30, tzinfo=UTC), "2013-06-01 12:30:00Z"),
        (datetime(2013, 6, 1, 12, 30, tzinfo=timezone(timedelta(hours=2))), "2013-06-01 10:30:00Z"),
        (datetime(2013, 6, 1, 12, 30, 0, 7000, tzinfo=UTC), "2013-06-01 12:30:00.007Z"),
        (b"N14228", "N14228"),
        (b"\xff", "\\xff"),
        ("[red]no markup[/red]", "[red]no markup[/red]"),
    ],
)
def test_a_cell(value, text):
    assert show.cell(value) == text


def test_json_has_no_numbers_that_json_lacks(capsys):
    values = {"nan": float("nan"), "sums": [float("inf"), Decimal("2.50")], "at": datetime(2013, 6, 1, tzinfo=UTC)}
    show.print_json(values)
    assert json.loads(capsys.readouterr().out) == {
        "nan": "NaN",
        "sums": ["Infinity", "2.50"],
        "at": "2013-06-01T00:00:00Z",
    }


def test_markup_in_a_cell_is_shown_as_it_is(capsys):
    show.print_table("title", ("a",), [("[bold]x[/bold]",)])
    assert "[bold]x[/bold]" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (1999, "1999"),
        (Decimal("12345.50"), "12345.50"),
        ({"id": 12345, "paid": Decimal("21.50"), "tags": ["a", None, True]},
         '{"id": 12345, "paid": 21.50, "tags": ["a", null, true]}'),
        ("null", "null"),
    ],
)  # fmt: skip
def test_a_value_of_a_row_is_shown_as_it_is(value, text):
    assert show.value(value) == text


def test_a_number_that_names_something_has_no_commas(capsys):
    show.print_table("", ("version", "rows", "offset"), [(12345, 12345, None)])
    assert [cell.strip() for cell in capsys.readouterr().out.splitlines()[3].split("│")[1:-1]] == [
        "12345", "12,345", "-",
    ]  # fmt: skip
