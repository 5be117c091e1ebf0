"""`lakehouse repair backfill --plan` shows some of the rows that would change, before and after."""

from __future__ import annotations

import json
import shlex
from decimal import Decimal

import lakehouse as lh
from lakehouse.cli.repair.backfill import change_as_json, say_what_changed
from lakehouse.cli.terminal import show
from lakehouse.run.repair.backfill import Backfilled
from lakehouse.semantics.difference import Difference, RowDifference

VISITS = lh.stream("visits", key="id string", schema="n int, city string").latest("visits")
CHANGES: list[RowDifference] = [
    {"change": "added", "key": {"id": "a"}, "before": None, "after": {"n": 1, "city": "Rome"}},
    {
        "change": "changed",
        "key": {"id": "b"},
        "before": {"n": 1, "city": "Rome"},
        "after": {"n": 2, "city": "Rome", "sum": Decimal("0.10")},
    },
]


def test_a_plan_shows_the_first_rows_with_the_columns_that_differ(capsys):
    say_what_changed("app.py", VISITS, Backfilled(Difference(1, 0, 7, CHANGES), None))
    lines = capsys.readouterr().out.splitlines()
    (added,) = [line for line in lines if "added" in line and "id=a" in line]
    (changed,) = [line for line in lines if "id=b" in line]
    assert ("n=1, city=Rome" in added, "null" in added) == (True, False)
    assert ("n=1 " in changed, "n=2, sum=0.10" in changed, "Rome" in changed) == (True, True, False)
    assert "the first 2 of 8 rows; --limit shows more" in "\n".join(lines)
    assert "visits: 1 row added, 0 removed, 7 changed, if applied. Nothing was changed." in lines


def test_a_plan_has_them_as_json_and_a_change_that_was_made_has_not(capsys):
    show.print_json(change_as_json(VISITS, Backfilled(Difference(1, 0, 7, CHANGES), None), plan=True))
    data = json.loads(capsys.readouterr().out)
    assert (data["changed"], data["changes"][1]["after"]) == (7, {"n": 2, "city": "Rome", "sum": "0.10"})
    assert "changes" not in change_as_json(VISITS, Backfilled(Difference(1, 0, 7), 4), plan=False)


def test_the_way_back_can_be_pasted_into_a_shell(capsys):
    say_what_changed("my apps/app's.py", VISITS, Backfilled(Difference(1, 0, 0), 4, before=3))
    (back,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("The way back: ")]
    assert shlex.split(back)[3:] == [
        "lakehouse", "repair", "revert", "visits", "--tick", "3", "--app", "my apps/app's.py",
    ]  # fmt: skip
