"""A topic's records from bronze: all of them, in order, up to any kind of moment, in any slices and sorted runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.errors import ConfigError, NotFound
from lakehouse.lake.layout import Layout
from lakehouse.lake.record import bronze_rows, sorted_rows
from lakehouse.lake.record.bronze_rows import BronzeRows
from lakehouse.semantics.moment import At, AtCommit, AtEvent, AtOffsets, AtTick, AtVersion
from lakehouse.semantics.record import Record

from ..written_bronze import append, committed, write_bronze

T = 1_700_000_000_000


def record(tick: int, partition: int, offset: int, ms: int = T, topic_id: str = "id-1", **more: object) -> Record:
    of = {"key": b"k", "value": f"{tick}/{partition}/{offset}".encode(), "order_time": ms} | more
    return Record(topic="t", topic_id=topic_id, partition=partition, offset=offset, timestamp=ms, tick=tick, **of)


def places(rows: BronzeRows, skip: dict[int, int] | None = None) -> list[tuple[int, int, int]]:
    return [(row.tick, row.partition, row.offset) for some in rows.read(skip) for row in some]


@pytest.fixture
def lake(tmp_path: Path) -> Layout:
    """Three ticks of topic t in two partitions; partition 1 lacks offsets 1 and 2; recreated before tick 3."""
    write_bronze(
        tmp_path,
        [
            record(1, 0, 0), record(1, 1, 0), record(1, 0, 1, T + 10),
            record(2, 1, 3, T + 20), record(2, 0, 2, T + 5, order_time=T + 10), record(2, 0, 3, T + 30),
            record(3, 0, 0, T + 40, "id-2"), record(3, 1, 0, T + 1, "id-2"), record(3, 1, 1, T + 41, "id-2"),
            Record("other", "id-9", 0, 0, T, None, b"", 2, T),
        ],
    )  # fmt: skip
    return Layout(str(tmp_path))


OLD = [(1, 0, 0), (1, 1, 0), (1, 0, 1), (2, 0, 2), (2, 1, 3), (2, 0, 3)]
NEW = [(3, 1, 0), (3, 0, 0), (3, 1, 1)]


@pytest.mark.parametrize(
    ("at", "from_tick", "found"),
    [
        (None, None, OLD + NEW),
        (AtTick(1), None, OLD[:3]),
        (AtTick(0), None, []),
        (None, 2, OLD[3:] + NEW),
        (AtTick(2), 2, OLD[3:]),
        (AtEvent(T + 5), None, [(1, 0, 0), (1, 1, 0), (2, 0, 2), (3, 1, 0)]),
        (AtEvent(T - 1), None, []),
        # The offsets are those of the present topic: the old topic's records came before.
        (AtOffsets({"t": {0: 0, 1: 1}, "elsewhere": {7: 7}}), None, [*OLD, (3, 1, 0)]),
        (AtOffsets({"t": {0: 1, 1: 2}}), 3, NEW),
    ],
    ids=str,
)
def test_what_a_moment_means(lake: Layout, at: At | None, from_tick: int | None, found: list[tuple[int, ...]]) -> None:
    rows = BronzeRows(lake, "t", at, from_tick)
    assert places(rows) == found
    assert rows.records == len(found)
    assert (rows.partitions, rows.ids) == (2, {"id-1", "id-2"})


def test_a_commit_time_is_the_last_tick_committed_by_then(lake: Layout) -> None:
    times = committed(Path(lake.root))
    assert places(BronzeRows(lake, "t", AtCommit(times[3]))) == OLD + NEW
    assert places(BronzeRows(lake, "t", AtCommit(times[2]))) == OLD
    with pytest.raises(NotFound, match=r"has no tick of that time or before; it begins at 20\d\d"):
        BronzeRows(lake, "t", AtCommit(T))
    with pytest.raises(NotFound, match="in the future"):
        BronzeRows(lake, "t", AtCommit(times[3] + 3_600_000))


def test_offsets_are_known_from_the_rows_if_the_log_no_longer_has_them(tmp_path: Path) -> None:
    """The last tick's commit is gone from the log: offsets were refused, though bronze has every record of them."""
    write_bronze(tmp_path, [Record("t", "id-1", 0, n, T + n, b"k", b"v", n + 1, T + n) for n in range(3)])
    table = DeltaTable(str(tmp_path / "bronze" / "records"))
    table.optimize.compact()
    table.create_checkpoint()
    for version in range(table.version()):
        (tmp_path / "bronze" / "records" / "_delta_log" / f"{version:020}.json").unlink()
    layout = Layout(str(tmp_path))
    assert len(places(BronzeRows(layout, "t", AtOffsets({"t": {0: 2}})))) == 2
    with pytest.raises(NotFound, match="up to offset 3, exclusive"):
        BronzeRows(layout, "t", AtOffsets({"t": {0: 4}}))


@pytest.mark.parametrize(
    ("topic", "at", "from_tick", "error", "said"),
    [
        ("none", None, None, NotFound, "'none' is not in bronze. There are: other, t"),
        ("t", AtTick(4), None, NotFound, "bronze is at tick 3"),
        ("t", None, 4, NotFound, "bronze is at tick 3"),
        ("t", AtTick(1), 2, ConfigError, "from tick 2 to tick 1"),
        ("t", AtVersion(1), None, ConfigError, "versions are of tables"),
        ("t", AtOffsets({"t": {0: 1}}), None, ConfigError, "partition 1 .* expected .*: t/0=1,t/1=2"),
        ("t", AtOffsets({"other": {0: 1}}), None, ConfigError, "partition 0 of topic 't' is not among them"),
        ("t", AtOffsets({"t": {0: 2, 1: 2}}), None, NotFound, "up to offset 1, exclusive"),
    ],
    ids=str,
)
def test_moments_that_cannot_be_read(lake, topic, at, from_tick, error, said) -> None:
    with pytest.raises(error, match=said):
        BronzeRows(lake, topic, at, from_tick)


def test_what_is_told_of_them(lake: Layout) -> None:
    rows = BronzeRows(lake, "t", AtTick(2))
    assert [(p.topic_id, p.partition, p.records, p.first_offset, p.last_offset) for p in rows.parts] == [
        ("id-1", 0, 4, 0, 3), ("id-1", 1, 2, 0, 3),
    ]  # fmt: skip
    assert (rows.oldest_ms, rows.newest_ms, rows.untimed) == (T, T + 30, 0)
    whole = BronzeRows(lake, "t")
    assert whole.counts == {0: 5, 1: 4}
    assert [p.topic_id for p in whole.parts] == ["id-1", "id-1", "id-2", "id-2"]


def test_an_incomplete_tick_is_left_out(tmp_path: Path) -> None:
    write_bronze(tmp_path, [record(1, 0, 0)], own=["t"])
    append(tmp_path / "bronze" / "own" / "t", 2, [record(2, 0, 1)], "{}")  # killed before the shared table's commit
    assert places(BronzeRows(Layout(str(tmp_path)), "t")) == [(1, 0, 0)]


def test_a_record_is_complete(tmp_path: Path) -> None:
    headers = (("a", b"\xff"), ("a", None), ("ü", b""))
    made = [
        record(1, 0, 0, -1, key=None, value=b"\x00\xff", headers=headers, order_time=-1),
        record(1, 0, 1, 0, key=b"", value=None),
    ]
    write_bronze(tmp_path, made)
    rows = BronzeRows(Layout(str(tmp_path)), "t")
    first, second = (row for some in rows.read() for row in some)
    assert (first.key, first.value, first.timestamp, first.topic_id) == (None, b"\x00\xff", -1000, "id-1")
    assert [(h["key"], h["value"]) for h in first.headers or []] == list(headers)
    assert (second.key, second.value, second.timestamp, second.headers) == (b"", None, 0, None)
    assert rows.untimed == 2
    assert rows.find([(0, 1), (0, 0), (0, 2), (5, 0)]) == {(0, 0): first, (0, 1): second}


@st.composite
def histories(draw: st.DrawFn) -> list[Record]:
    """Ticks of three partitions, with holes in the offsets; a topic that may be recreated; rows in any order."""
    made = []
    following: dict[int, int] = {}
    order: dict[int, int] = {}
    topic_id = 1
    for tick in range(1, draw(st.integers(1, 5)) + 1):
        if draw(st.booleans()) and draw(st.booleans()):
            topic_id, following, order = topic_id + 1, {}, {}
        for partition in draw(st.lists(st.integers(0, 2), max_size=12)):
            offset = following.get(partition, 0) + draw(st.integers(0, 1))
            ms = T + draw(st.integers(0, 9))
            order[partition] = max(ms, order.get(partition, ms))
            following[partition] = offset + 1
            made.append(record(tick, partition, offset, ms, f"id-{topic_id}", order_time=order[partition]))
    return draw(st.permutations(made))


@given(histories(), st.data())
def test_any_slices_and_runs_give_the_lakes_order(tmp_path_factory, made: list[Record], data: st.DataObject) -> None:
    if not made:
        return
    root = tmp_path_factory.mktemp("lake")
    write_bronze(root, made, files=data.draw(st.integers(1, 2)))
    wanted = sorted(made, key=lambda one: one.position)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bronze_rows, "SLICE_ROWS", data.draw(st.integers(1, 20)))
        patch.setattr(bronze_rows, "BATCH_ROWS", data.draw(st.integers(1, 8)))
        patch.setattr(sorted_rows, "RUN_BYTES", data.draw(st.sampled_from([1, 300, 10**6])))
        patch.setattr(sorted_rows, "ROWS_AT_ONCE", data.draw(st.integers(1, 8)))
        rows = BronzeRows(Layout(str(root)), "t")
        assert places(rows) == [(one.tick, one.partition, one.offset) for one in wanted]
        counts = {p: sum(one.partition == p for one in wanted) for p in range(3)}
        assert rows.counts == {p: n for p, n in counts.items() if n}
        skip = {p: data.draw(st.integers(0, n)) for p, n in counts.items()}
        seen = dict.fromkeys(range(3), 0)
        left = []
        for one in wanted:
            if seen[one.partition] >= skip[one.partition]:
                left.append((one.tick, one.partition, one.offset))
            seen[one.partition] += 1
        assert places(rows, skip) == left
        at = {(p, n) for p, count in counts.items() for n in (0, count - 1) if count}
        actual = rows.find(at)
        for (partition, n), row in actual.items():
            of = [one for one in wanted if one.partition == partition][n]
            assert (row.tick, row.offset, row.value) == (of.tick, of.offset, of.value)
        assert set(actual) == at
