"""`lakehouse past diff` and `show`; over tables written without Spark."""

from __future__ import annotations

import json
import shutil
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from lakehouse.errors import ConfigError
from lakehouse.lake.moment import rows_at
from lakehouse.lake.moment.rows_at import Snapshot
from lakehouse.lake.row.difference import change_cells, difference
from lakehouse.semantics.difference import Difference
from lakehouse.semantics.moment import At, AtTick, AtVersion

from .versioned import Story, VersionedTable, position, visit
from .written import TIME, at


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    return Story(tmp_path_factory.mktemp("lake"))


@pytest.fixture(scope="module")
def fed(tmp_path_factory: pytest.TempPathFactory) -> Story:
    """The same, with a change data feed that has updates."""
    return Story(tmp_path_factory.mktemp("fed"), feed=True)


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture
def diff(story, lakehouse):
    """Compare visits at two moments; return the changes (kind, user, before, after), and the counts."""

    def run(a: str, b: str, *options: str) -> tuple[list[Any], dict[str, int]]:
        outcome = lakehouse("diff", "visits", a, b, *options, "--json", "--lake", str(story.root))
        assert outcome.code == 0, outcome.err
        _, *changes, counts = lines(outcome.out)
        return [
            (c["change"], c["key"]["user"], *((c[s] or {}).get("n") for s in ("before", "after"))) for c in changes
        ], counts

    return run


def test_added_removed_and_changed_keys(diff):
    assert diff("2", "5") == (
        [("changed", "ann", 1, 2), ("removed", "bob", 1, None), ("added", "cat", None, 1), ("added", "dan", None, 1)],
        {"added": 2, "removed": 1, "changed": 1},
    )
    assert diff("5", "2")[0] == [
        ("changed", "ann", 2, 1), ("added", "bob", None, 1), ("removed", "cat", 1, None), ("removed", "dan", 1, None),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("a", "b", "users"),
    [
        ("now", "now", []), ("3", "version:3", []), ("tick:1", "tick:2", []), ("tick:3", "now", ["bob", "cat", "dan"]),
        ("1970-01-01T00:00:00.299Z", "1970-01-01T00:00:00.3Z", ["ann"]), ("0", "2", ["ann", "bob"]),
        ("offsets:clicks/0=3,clicks/1=2", "now", ["dan"]), ("event:1970-01-01", "1", []),
    ],
)  # fmt: skip
def test_each_way_to_name_a_moment(diff, a, b, users):
    assert [change[1] for change in diff(a, b)[0]] == users


def test_both_sides_are_named(story, lakehouse):
    outcome = lakehouse("diff", "visits", "tick:2", "now", "--json", "--lake", str(story.root))
    assert lines(outcome.out)[0] == {
        "from": {"moment": "tick 2", "version": 2}, "to": {"moment": "now", "version": 5},
    }  # fmt: skip


def test_one_key_and_a_limit(diff):
    assert diff("2", "5", "--key", "ann") == ([("changed", "ann", 1, 2)], {"added": 0, "removed": 0, "changed": 1})
    assert diff("2", "5", "--key", "nobody") == ([], {"added": 0, "removed": 0, "changed": 0})
    assert diff("2", "5", "--limit", "2") == (
        [("changed", "ann", 1, 2), ("removed", "bob", 1, None)],
        {"added": 2, "removed": 1, "changed": 1},
    )


def test_a_person_reads_only_the_columns_that_differ(story, lakehouse):
    out = lakehouse("diff", "visits", "2", "tick:3", "--lake", str(story.root)).out
    assert out.startswith("visits, from version 2 to tick 3 (version 3)\n")
    assert "│ changed │ user=ann │ n=1, place=p1 │ n=2, place=p2 │" in out
    assert out.endswith("0 added, 0 removed, 1 changed.\n")
    assert lakehouse("diff", "visits", "2", "2", "--lake", str(story.root)).out.endswith("No row differs.\n")


def test_the_exit_code(story, lakehouse):
    lake = ("--lake", str(story.root))
    assert lakehouse("diff", "visits", "2", "3", *lake).code == 0
    assert lakehouse("diff", "visits", "2", "3", "--exit-code", *lake).code == 1
    assert lakehouse("diff", "visits", "3", "3", "--exit-code", *lake).code == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["visits", "tick:4", "now"], "tick 4 lies between versions. The nearest are version 3 (tick 3) and version 4"),
        (["visits", "now", "9"], "has no version 9. It has versions 0 to 5"),
        (["visits", "June", "now"], "'June' is not a moment; expected one of: 3 or version:3"),
        (["bronze.clicks", "1", "2"], "bronze.clicks: expected a keyed table, such as visits"),
        (["nix", "1", "2"], "table 'nix' does not exist"),
        (["../visits", "1", "2"], "table '../visits': expected a letter"),
    ],
)
def test_what_cannot_be_compared(story, lakehouse, arguments, said):
    outcome = lakehouse("diff", *arguments, "--lake", str(story.root))
    assert (outcome.code, outcome.out) == (2, "")
    assert said in outcome.err


def test_composite_keys_nulls_and_values_of_every_kind(tmp_path, lakehouse):
    """A key with null columns, a row with null values, and values that only look alike."""
    columns = {
        "a": pa.string(), "b": pa.int64(), "odd name": pa.float64(), "price": pa.decimal128(10, 2),
        "tags": pa.list_(pa.string()), "s": pa.struct({"x": pa.int64()}), "m": pa.map_(pa.string(), pa.int64()),
    }  # fmt: skip
    table = VersionedTable(tmp_path, "t", columns, ("a", "b"))
    empty = dict.fromkeys(columns) | {"_event_time": at(0), "_position": position(1, 0)}
    full = {
        **empty, "a": "x,y", "b": 1, "odd name": float("nan"), "price": Decimal("1.50"), "tags": ["p", None],
        "s": {"x": None}, "m": [("k", 1)],
    }  # fmt: skip
    table.commit(1, full, empty, {**empty, "a": "gone"})
    table.commit(2, {**full, "_position": position(2, 1)}, {**empty, "b": 0}, gone=[{"a": "gone", "b": None}])
    table.commit(3, {**full, "tags": ["p", ""], "s": None, "m": [("k", 2)]})
    actual = compared(tmp_path, "t", AtVersion(1), AtVersion(2))
    assert [(c["change"], c["key"]) for c in actual.changes] == [
        ("removed", {"a": "gone", "b": None}), ("added", {"a": None, "b": 0}),
    ]  # fmt: skip
    actual = compared(tmp_path, "t", AtVersion(2), AtVersion(3))
    (change,) = actual.changes
    assert {n: (v, change["after"][n]) for n, v in change["before"].items() if n in ("tags", "s", "m")} == {
        "tags": (["p", None], ["p", ""]), "s": ({"x": None}, None), "m": ({"k": 1}, {"k": 2}),
    }  # fmt: skip
    for key, changes in (('"x,y",1', 1), ("gone,", 0), (",", 0)):
        assert len(compared(tmp_path, "t", AtVersion(2), AtVersion(3), key=key).changes) == changes
    with pytest.raises(ConfigError, match="found 3 values"):
        compared(tmp_path, "t", AtVersion(2), AtVersion(3), key="x,y,1")
    assert compared(tmp_path, "t", AtVersion(1), AtVersion(2), key="gone,").removed == 1
    out = lakehouse("diff", "t", "2", "3", "--lake", str(tmp_path)).out
    assert "a=x,y, b=1" in out
    assert 'tags=["p", ""]' in out


def test_a_windowed_key_is_named_without_its_window(tmp_path):
    columns = {"user": pa.string(), "window_start": TIME, "window_end": TIME, "n": pa.int64()}
    table = VersionedTable(tmp_path, "hourly", columns, ("user", "window_start", "window_end"))
    hidden = {"_event_time": at(0), "_position": None}
    rows = [
        {"user": user, "window_start": at(ms), "window_end": at(ms + 10), "n": 1, **hidden}
        for user in ("ann", "bob")
        for ms in (0, 10)
    ]
    table.commit(1, *rows)
    actual = compared(tmp_path, "hourly", AtVersion(0), None, key="ann")
    assert [c["key"]["window_start"] for c in actual.changes] == [at(0), at(10)]
    assert actual.versions == (0, 1)


def test_keys_that_are_times_numbers_and_truths(tmp_path):
    columns = {"k": TIME, "b": pa.bool_(), "d": pa.decimal128(10, 2), "n": pa.int64()}
    table = VersionedTable(tmp_path, "t", columns, ("k", "b", "d"))
    table.commit(1, {"k": at(1500), "b": True, "d": Decimal("2.50"), "n": 1, "_event_time": at(0), "_position": None})
    actual = compared(tmp_path, "t", AtVersion(0), None, key="1970-01-01T00:00:01.5Z,true,2.50")
    assert actual.added == 1


def test_a_column_that_one_side_lacks(tmp_path):
    """Spark's fold gives the columns of today's declaration."""
    story = Story(tmp_path)
    fold = pa.table({"user": ["ann"], "n": [2], "place": ["p2"], "more": ["x"], "_event_time": [1]})
    sides = [rows_at.snapshot(story.layout, "visits", at, lambda name, at: fold) for at in (AtTick(4), AtVersion(3))]
    actual = difference(*sides)
    assert [(c["change"], c["key"]["user"]) for c in actual.changes] == [("changed", "ann"), ("added", "bob")]
    assert actual.changes[0]["after"] == {"n": 2, "place": "p2", "more": None}
    assert actual.versions == (None, 3)


def test_files_that_both_versions_have_are_not_read(tmp_path):
    table = VersionedTable(tmp_path)
    table.commit(1, visit("ann", 1, 1, 0), times=(100, 100))
    (old,) = DeltaTable(table.path).file_uris()
    table.commit(2, visit("bob", 1, 2, 1), times=(200, 200))
    Path(old).write_bytes(b"")
    assert compared(tmp_path, "visits", AtVersion(1), AtVersion(2)).added == 1


def test_the_changes_of_one_version(fed, lakehouse):
    outcome = lakehouse("show", "visits", "4", "--json", "--lake", str(fed.root))
    commit, *changes, counts = lines(outcome.out)
    assert (commit["version"], commit["tick"], commit["from_tick"]) == (4, 5, 3)
    assert changes == [
        {"change": "removed", "key": {"user": "bob"}, "before": {"n": 1, "place": "p1"}, "after": None},
        {"change": "added", "key": {"user": "cat"}, "before": None, "after": {"n": 1, "place": "p1"}},
    ]
    assert counts == {"added": 1, "removed": 1, "changed": 0}
    out = lakehouse("show", "visits", "3", "--lake", str(fed.root)).out
    assert out.startswith("visits, version 3: MERGE, tick 3, committed 2")
    assert "│ changed │ user=ann │ n=1, place=p1 │ n=2, place=p2 │" in out


@pytest.mark.parametrize("version", ["0", "1"])
def test_a_version_without_changes(fed, lakehouse, version):
    outcome = lakehouse("show", "visits", version, "--lake", str(fed.root))
    assert (outcome.code, outcome.out.splitlines()[-1]) == (0, "No row differs.")


def test_one_key_of_a_version(fed, lakehouse):
    outcome = lakehouse("show", "visits", "2", "--key", "bob", "--json", "--lake", str(fed.root))
    assert [row["key"] for row in lines(outcome.out)[1:-1]] == [{"user": "bob"}]


def test_a_state_has_changes_too(tmp_path, lakehouse):
    state = VersionedTable(tmp_path, layer="state", feed=True)
    state.commit(1, visit("ann", 1, 1, 0), times=(100, 100))
    outcome = lakehouse("show", "state.visits", "1", "--json", "--lake", str(tmp_path))
    assert [row["key"] for row in lines(outcome.out)[1:-1]] == [{"user": "ann"}]
    assert "1 added" in lakehouse("diff", "state.visits", "0", "now", "--lake", str(tmp_path)).out


def test_show_refuses(tmp_path, lakehouse):
    story = Story(tmp_path, feed=True)
    story.visits.vacuum()
    shutil.rmtree(Path(story.visits.path, "_change_data"))  # Spark's VACUUM removes it, too
    for arguments, said in (
        (["visits", "9"], "has no version 9. It has versions "),
        (["visits", "3"], "version 3: its changes are gone (VACUUM). It has versions "),
        (["late.visits", "1"], "rows of late never change"),
        (["visits", "-1"], "No such option"),
    ):
        outcome = lakehouse("show", *arguments, "--lake", str(tmp_path))
        assert (outcome.code, outcome.out) == (2, "")
        assert said in outcome.err
    outcome = lakehouse("changes", "visits", "--lake", str(tmp_path))
    assert (outcome.code, outcome.out) == (2, "")
    assert "can't be read; VACUUM" in outcome.err


def compared(root: Path, name: str, a: At | None, b: At | None, key: str | None = None) -> Difference:
    before, after = (rows_at.snapshot(_layout(root), name, at) for at in (a, b))
    return difference(before, after, key=key)


def _layout(root: Path) -> Any:
    from lakehouse.lake.layout import Layout

    return Layout(str(root))


def shown(before: pa.Table, after: pa.Table) -> list[tuple[Any, ...]]:
    """Return what a person reads of each key that differs between two contents of a table."""
    history: Any = SimpleNamespace(key=("k",), label="table 't'")
    return [change_cells(c) for c in difference(Snapshot(history, 1, before), Snapshot(history, 2, after)).changes]


def test_what_is_not_a_number_is_no_difference_in_a_column():
    nan = float("nan")
    values = {"k": [1.0, nan], "number": [nan, nan], "inside": [[nan, None], [nan]]}
    before, after = (pa.table({**values, "w": w}) for w in ([1, 2], [3, 2]))
    assert shown(before, after) == [("changed", "k=1.0", "w=1", "w=3")]


def test_maps_with_their_entries_in_another_order_are_shown_whole():
    kind = pa.map_(pa.string(), pa.int64())
    maps = [[("a", 1), ("b", 2)], [("b", 2), ("a", 1)]]
    before, after = (pa.table({"k": [1], "w": [1], "m": pa.array([entries], kind)}) for entries in maps)
    assert shown(before, after) == [("changed", "k=1", 'm={"a": 1, "b": 2}', 'm={"b": 2, "a": 1}')]


def test_a_name_in_another_case_is_the_same_column():
    before, after = pa.table({"K": [1, 2], "Name": ["x", "y"]}), pa.table({"k": [1, 2], "name": ["x", "z"]})
    assert shown(before, after) == [("changed", "k=2", "name=y", "name=z")]
