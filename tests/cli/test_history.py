"""Which version is a table at a moment; over tables written without Spark."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from lakehouse.errors import LakehouseError, NotFound, StorageError
from lakehouse.lake import reader, store
from lakehouse.lake.commit_log import open_log
from lakehouse.lake.commit_metadata import EventTimes, LateCommit, RecordCounts, VisibleCommit
from lakehouse.lake.layout import Layout
from lakehouse.lake.moment.history import History
from lakehouse.semantics.epoch_time import moment_text
from lakehouse.semantics.moment import AtCommit, AtEvent, AtOffsets, AtTick, AtVersion
from lakehouse.semantics.time.named_moment import moment_from_text

from ..written_commits import batch
from .versioned import Story, VersionedTable, visit
from .written import WrittenLake


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    return Story(tmp_path_factory.mktemp("a lake, 50%é"))


@pytest.mark.parametrize(
    ("tick", "version"), [(0, 1), (1, 2), (2, 2), (3, 3), (4, None), (5, 4), (6, 4), (7, 5), (8, 5)]
)
def test_a_version_stands_for_its_ticks(story, tick, version):
    """Tick 4 was taken in together with 5; ticks 2, 6 and 8 have no record for the table."""
    assert History(story.layout, "visits").at(AtTick(tick)) == version
    assert History(story.layout, "silver.visits").at(AtTick(tick)) == version


def test_a_future_tick(story):
    with pytest.raises(NotFound, match=r"table 'visits' at tick 9: bronze has ticks up to 8\."):
        History(story.layout, "visits").at(AtTick(9))


def test_a_table_whose_topics_are_unknown_is_known_at_its_own_ticks_alone(tmp_path):
    """A table that another program wrote."""
    lake = WrittenLake(tmp_path)
    lake.tick(1, ("clicks", "ann", 0, 100, "a0"))
    lake.tick(2, ("views", "x", 0, 250, "x0"))
    lake.tick(3, ("clicks", "ann", 0, 300, "a1"))
    for name, properties in (("plain", {}), ("declared", None)):
        VersionedTable(tmp_path, name, properties=properties).commit(1, visit("ann", 1, 1, 0), times=(100, 100))
    layout = Layout(str(tmp_path))
    assert [History(layout, "plain").at(AtTick(n)) for n in (1, 2, 3)] == [1, None, None]
    assert [History(layout, "declared").at(AtTick(n)) for n in (1, 2)] == [1, 1]
    with pytest.raises(NotFound, match="is at tick 1"):
        History(layout, "declared").at(AtTick(3))
    assert History(layout, "plain").at(moment_from_text("offsets:clicks/0=1")) == 1


def test_the_topics_of_a_merged_stream(tmp_path):
    lake = WrittenLake(tmp_path)
    lake.tick(1, ("clicks", "ann", 0, 100, "a0"))
    lake.tick(2, ("views", "x", 0, 250, "x0"))
    VersionedTable(tmp_path, topics=["clicks", "views"]).commit(1, visit("ann", 1, 1, 0), times=(100, 100))
    layout = Layout(str(tmp_path))
    assert History(layout, "visits").at(AtTick(1)) == 1
    with pytest.raises(NotFound, match=r"tick 2: it has not taken that in yet, and is at tick 1\. It has versions 0"):
        History(layout, "visits").at(AtTick(2))


def test_commit_times(story):
    for version, ms in enumerate(story.times):
        last = max(n for n, other in enumerate(story.times) if other <= ms)
        assert History(story.layout, "visits").at(AtCommit(ms)) == last >= version
    assert History(story.layout, "visits").at(AtCommit(int(time.time() * 1000))) == 5


def test_a_commit_time_without_a_version(story):
    with pytest.raises(
        NotFound, match=f"before the log begins.*versions 0 to 5.*from {moment_text(story.times[0])} to"
    ):
        History(story.layout, "visits").at(AtCommit(story.times[0] - 1))
    with pytest.raises(NotFound, match="in the future"):
        History(story.layout, "visits").at(AtCommit(int(time.time() * 1000) + 60_000))


@pytest.mark.parametrize(
    ("ms", "version"),
    [
        (0, 0), (99, 0), (100, None), (199, None), (200, 2), (299, 2), (300, 3), (349, 3), (350, None), (450, None),
        (500, 5), (9999, 5),
    ],
)  # fmt: skip
def test_event_times(story, ms, version):
    """Version 4 has 500 and lacks 350, so it is the table at no event time at all."""
    assert History(story.layout, "visits").at(AtEvent(ms)) == version


def test_an_intervention_and_a_commit_without_times_hide_what_was_before(tmp_path):
    layout = Layout(str(tmp_path))
    swapped, untimed = LateCommit(from_tick=0, operation="swap"), VisibleCommit(from_tick=0, run="run", keys=1)
    for name, content in (("swapped", swapped), ("untimed", untimed)):
        table = VersionedTable(tmp_path, name)
        table.commit(1, visit("ann", 1, 1, 0), times=(100, 100))
        table.commit(2, visit("ann", 2, 2, 0), content=content)
        assert [History(layout, name).at(AtEvent(ms)) for ms in (50, 100)] == [None, None]
        table.open_epoch()
        table.commit(3, visit("ann", 3, 3, 0), times=(300, 300))
        assert [History(layout, name).at(AtEvent(ms)) for ms in (100, 299, 300)] == [None, None, 4]


def test_after_an_intervention_that_says_its_times(tmp_path):
    table = VersionedTable(tmp_path)
    table.commit(1, visit("ann", 1, 1, 0), times=(100, 100))
    table.commit(2, visit("ann", 2, 2, 0), content=batch(operation="late correction", times=EventTimes(through=100)))
    table.commit(3, visit("ann", 3, 3, 0), times=(300, 300))
    assert [History(Layout(str(tmp_path)), "visits").at(AtEvent(ms)) for ms in (50, 100, 299, 300)] == [None, 2, 2, 3]


def test_a_commit_without_records_after_the_filter_is_no_intervention(tmp_path):
    table = VersionedTable(tmp_path)
    table.commit(1, visit("ann", 1, 1, 0), times=(100, 100))
    table.say(2, batch(from_tick=1, counts=RecordCounts(3), times=EventTimes(through=100)))
    assert History(Layout(str(tmp_path)), "visits").at(AtEvent(100)) == 2


def test_a_restored_table_has_no_event_times_and_no_offsets(tmp_path):
    """Its restored rows may contain any record: a version before the first record was mistaken for offset 0."""
    table = VersionedTable(tmp_path, properties={"lakehouse.skip": "{}"})
    table.commit(1, visit("ann", 1, 1, 0), times=(100, 100))
    assert [History(Layout(str(tmp_path)), "visits").at(AtEvent(ms)) for ms in (50, 100)] == [None, None]
    assert History(Layout(str(tmp_path)), "visits").at(AtOffsets({"clicks": {0: 0}})) is None


def test_versions(story):
    assert [History(story.layout, "visits").at(AtVersion(n)) for n in range(6)] == list(range(6))
    assert History(story.layout, "visits").at(None) == 5
    with pytest.raises(
        NotFound, match=r"table 'visits' has no version 6\. It has versions 0 to 5, committed from 2.*7\.$"
    ):
        History(story.layout, "visits").at(AtVersion(6))


def test_a_version_that_vacuum_removed_is_not_found_and_the_error_names_the_others(tmp_path):
    story = Story(tmp_path)
    story.visits.vacuum()
    history = History(story.layout, "visits")
    newest = history.newest
    with pytest.raises(
        NotFound, match=rf"version 3: some of its files are gone \(VACUUM\)\. It has versions 4 to {newest}"
    ):
        history.at(AtVersion(3))
    # Spark can fold these from bronze, so they are between versions.
    assert history.at(AtTick(3)) is None
    assert history.at(AtEvent(300)) is None
    assert history.at(AtCommit(story.times[3])) is None
    assert history.at(AtTick(5)) == 4
    assert history.explain_missing(AtTick(3)) == (
        "table 'visits' at tick 3 is version 3, whose files are gone (VACUUM). "
        "The nearest are version 1 (tick 0) and version 4 (tick 5)."
    )


def test_rows_that_optimize_rewrote_are_read_from_its_files(tmp_path):
    WrittenLake(tmp_path).tick(1, ("clicks", "ann", 0, 100, "a0"))
    table = VersionedTable(tmp_path)
    table.commit(1, visit("ann", 1, 1, 0), times=(100, 100), after=0)
    table.commit(1, visit("bob", 1, 1, 1), times=(100, 100), after=0)
    layout = Layout(str(tmp_path))
    assert table.optimize() == 3
    moments = [AtTick(1), AtEvent(100), AtCommit(next(v.time_ms for v in History(layout, "visits") if v.version == 2))]
    assert [History(layout, "visits").at(at) for at in moments] == [3, 2, 2]
    table.vacuum()
    assert [History(layout, "visits").at(at) for at in moments] == [5, 5, 5]
    assert History(layout, "visits").at(AtVersion(3)) == 3


@pytest.mark.parametrize(
    ("moment", "near"),
    [
        ("tick:4", "version 3 (tick 3) and version 4 (tick 5)"),
        ("offsets:clicks/0=2,clicks/1=2", "version 3 (tick 3) and version 4 (tick 5)"),
        ("offsets:clicks/0=3,clicks/1=1", "version 3 (tick 3) and version 4 (tick 5)"),
        (
            "1970-01-01T00:00:00.150",
            "event time 1970-01-01T00:00:00.099Z (version 0) and event time 1970-01-01T00:00:00.200Z (version 2)",
        ),
        (
            "1970-01-01T00:00:00.400",
            "event time 1970-01-01T00:00:00.349Z (version 3) and event time 1970-01-01T00:00:00.500Z (version 5)",
        ),
    ],
)
def test_the_versions_around_a_moment_between_versions(story, moment, near):
    at = moment_from_text(moment)
    assert at is not None
    assert History(story.layout, "visits").at(at) is None
    assert (
        History(story.layout, "visits").explain_missing(at)
        == f"table 'visits' at {at} lies between versions. The nearest are {near}."
    )


def test_a_state_has_versions_of_its_own(tmp_path):
    WrittenLake(tmp_path).tick(1, ("clicks", "ann", 0, 100, "a0"))
    state = VersionedTable(tmp_path, layer="state")
    state.commit(1, visit("ann", 1, 1, 0), times=(100, 100))
    layout = Layout(str(tmp_path))
    assert [History(layout, "state.visits").at(at) for at in (AtTick(1), AtEvent(99), AtEvent(100))] == [1, 0, 1]
    with pytest.raises(NotFound, match="table 'visits' does not exist"):
        History(layout, "visits").at(AtTick(1))


def test_the_visible_table_follows_the_state(tmp_path):
    """Only the commits of the state have the times; after a crash one visible commit may follow several of them."""
    state, seen = VersionedTable(tmp_path, layer="state"), VersionedTable(tmp_path)
    for tick, (first, last) in enumerate(((100, 120), (200, 200), (300, 310), (305, 305)), 1):
        state.commit(tick, visit("ann", tick, tick, 0), times=(first, last))
        if tick != 2:
            seen.commit(tick, visit("ann", tick, tick, 0), content=VisibleCommit(from_tick=0, run="run", keys=1))
        state.open_epoch()
    layout = Layout(str(tmp_path))
    actual = {ms: History(layout, "visits").at(AtEvent(ms)) for ms in (99, 100, 120, 199, 200, 304, 310)}
    assert actual == {99: 0, 100: None, 120: 1, 199: 1, 200: None, 304: None, 310: 3}
    state.commit(5, visit("ann", 5, 5, 0), content=batch(operation="late", times=EventTimes(through=310)))
    seen.commit(5, visit("ann", 5, 5, 0), content=VisibleCommit(from_tick=0, run="run", keys=1))
    assert [History(layout, "visits").at(AtEvent(ms)) for ms in (120, 310)] == [None, 4]


def test_an_intervention_that_a_table_has_not_taken_in_yet(tmp_path):
    """Its tick has no records, and yet the table at that tick differs from the one before."""
    import pyarrow as pa
    from deltalake import write_deltalake

    lake = WrittenLake(tmp_path)
    lake.tick(1, ("clicks", "ann", 0, 100, "a0"))
    lake.tick(2)
    VersionedTable(tmp_path).commit(1, visit("ann", 1, 1, 0), times=(100, 100))
    layout = Layout(str(tmp_path))
    assert History(layout, "visits").at(AtTick(2)) == 1
    Path(layout.interventions).mkdir(parents=True)
    write_deltalake(layout.interventions, pa.table({"at": [2], "table": ["visits"]}))
    assert History(layout, "visits").at(AtTick(1)) == 1
    with pytest.raises(NotFound, match="has not taken that in yet"):
        History(layout, "visits").at(AtTick(2))


@pytest.mark.parametrize("ahead", [1, 2, 4])
def test_a_long_log_is_read_piece_by_piece(story, ahead):
    log = open_log(story.visits.path, 5)
    assert [version for version, _ in reader._walk_infos(log, ahead)] == [5, 4, 3, 2, 1, 0]
    assert [commit["version"] for commit in reader.walk_commits(story.visits.path, "visits")] == [5, 4, 3, 2, 1, 0]
    assert History(story.layout, "visits").at(AtTick(1)) == 2
    assert [row["version"] for row in reader.read_log_rows(story.layout, "visits", 3)] == [5, 4, 3]


def test_a_commit_during_the_read_does_not_shift_the_numbers(tmp_path):
    story = Story(tmp_path)
    commits = reader.walk_commits(story.visits.path, "visits")
    actual = [next(commits)]
    story.visits.commit(8, visit("eve", 1, 8, 3), times=(800, 800))
    actual += commits
    metadata = [reader.parse_commit(commit, story.visits.path) for commit in actual]
    assert [(commit["version"], item and item.tick) for commit, item in zip(actual, metadata, strict=True)] == [
        (5, 7), (4, 5), (3, 3), (2, 1), (1, 0), (0, None),
    ]  # fmt: skip


def test_a_table_without_bronze(tmp_path):
    VersionedTable(tmp_path).open_epoch()
    layout = Layout(str(tmp_path))
    assert History(layout, "visits").at(AtTick(0)) == 1
    assert History(layout, "visits").at(AtEvent(0)) == 0
    with pytest.raises(NotFound, match="bronze has ticks up to 0"):
        History(layout, "visits").at(AtTick(1))
    with pytest.raises(LakehouseError, match="bronze has no topics yet"):
        History(layout, "visits").at(moment_from_text("offsets:clicks/0=1"))


def test_a_store_that_does_not_answer_is_told_with_its_settings():
    options = {"endpoint": "http://127.0.0.1:9", "path_style": "true", "access_key": "me", "secret_key": "hush"}
    store.use_store("s3a://bucket/lake", options)
    with pytest.raises(
        StorageError, match=r"s3a://bucket/lake/.* can't be read: .*Look at \[lake\] options"
    ) as refusal:
        History(Layout("s3a://bucket/lake"), "visits").at(AtTick(1))
    assert "hush" not in str(refusal.value)
