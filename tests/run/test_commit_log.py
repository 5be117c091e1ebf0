"""The log of a table with thousands of commits: only the commits that are asked for are read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.lake.commit_log import CommitInfo, CommitLog, open_log
from lakehouse.lake.commit_metadata import TopicState
from lakehouse.lake.moment.commits import Commit, walk_own_commits
from lakehouse.lake.moment.offsets import last_tick_before

from ..written_commits import batch, commit_text, tick_text

COMMITS = 20_000


def commit(version: int, ours: bool = True) -> str:
    """A commit of the table "t": tick 2 * version, going on from the tick of the version before."""
    said = commit_text("t", 2 * version, batch(from_tick=2 * version - 2))
    info = {"operation": "WRITE" if ours else "OPTIMIZE", "inCommitTimestamp": 1000 + version}
    return json.dumps({"commitInfo": info | ({"userMetadata": said} if ours else {})}, separators=(",", ":"))


class Counted:
    """A log in memory whose first versions may be gone; counts the files that are opened."""

    def __init__(self, newest: int, first: int = 0, others: frozenset[int] = frozenset()) -> None:
        self.opened, self._first, self._others = 0, first, others
        self.log = CommitLog(self._read, newest, "t")

    def _read(self, version: int) -> Iterator[str]:
        self.opened += 1
        if version < self._first:
            raise FileNotFoundError
        yield commit(version, version not in self._others)
        yield "what it adds and removes"

    def ours(self, back_to: int, up_to: int) -> list[Commit]:
        result = []
        for item in walk_own_commits(self.log, "t", lambda metadata: metadata.tick > up_to):
            result.append(item)
            if item.tick <= back_to:
                break
        return result[::-1]


@pytest.mark.parametrize(("tick", "files"), [(2 * COMMITS, 10), (2 * COMMITS - 6, 15), (20_001, 45), (2, 45), (0, 45)])
def test_a_tick_is_found_without_reading_the_whole_log(tick: int, files: int) -> None:
    """Each folded read of the past took 88 s to read 20,000 commits."""
    counted = Counted(COMMITS)
    actual = counted.ours(tick, tick)
    before = [item for item in actual if item.tick <= tick]
    assert [item.version for item in before] == [tick // 2]
    assert before[-1].last == tick // 2
    assert counted.opened <= files


def test_a_time_is_found_without_reading_the_whole_log() -> None:
    counted = Counted(COMMITS, first=5_000)
    assert counted.log.find_first(lambda said: said.time_ms > 1000 + 7_000) == 7_001
    assert counted.log.oldest_version() == 5_000
    assert counted.opened <= 60
    assert counted.log.find_first(lambda said: said.time_ms > 10**6) is None
    assert counted.log.commit_at(4_999) is None


def test_only_the_newest_commits_are_read_if_they_are_enough() -> None:
    counted = Counted(COMMITS)
    assert [said.version for said in islice(counted.log.walk_back(), 3)] == [COMMITS, COMMITS - 1, COMMITS - 2]
    assert counted.opened == 3


@given(st.data(), st.integers(0, 40))
def test_commits_that_are_not_read_change_no_answer(data: st.DataObject, newest: int) -> None:
    """Whatever others commit in between, and wherever the log begins."""
    others = data.draw(st.frozensets(st.integers(0, newest)))
    first = data.draw(st.integers(0, newest))
    tick = data.draw(st.integers(-1, 2 * newest + 3))
    every = list(walk_own_commits(Counted(newest, first, others).log, "t"))[::-1]
    some = Counted(newest, first, others).ours(tick, tick)
    past = [item for item in every if item.tick > tick][:1]
    upto = [item for item in every if item.tick <= tick][-1:]
    assert some == upto + past


def test_offsets_of_a_recreated_topic_lie_after_all_of_the_earlier_one() -> None:
    """Ticks 1 and 2 are of a deleted topic, 3 and 4 of the present one: its offset 1 lies between 2 and 4."""
    ends = [("old", 1), ("old", 30), ("new", 1), ("new", 3)]
    texts = [
        json.dumps({"commitInfo": {"userMetadata": tick_text(tick, {"t": TopicState(topic_id, {0: end}, {0: tick})})}})
        for tick, (topic_id, end) in enumerate(ends, 1)
    ]
    log = CommitLog(lambda version: iter([texts[version]]), len(texts) - 1, "ingest")
    assert [last_tick_before(log, {"t": {0: offset}}) for offset in (0, 1, 2, 3, 30)] == [2, 3, 3, 4, 4]


def test_a_commit_of_others_says_nothing_of_ours_and_a_missing_table_has_no_log(tmp_path) -> None:
    folder = tmp_path / "_delta_log"
    folder.mkdir()
    (folder / f"{0:020}.json").write_text('{"add":{}}\n{"commitInfo":{"operation":"WRITE","timestamp":7}}\n')
    log = open_log(str(tmp_path), 0)
    assert list(log.walk_back()) == [CommitInfo(0, "WRITE", 7)]
    assert list(walk_own_commits(log, "t")) == []
    assert list(open_log(str(tmp_path / "none"), -1).walk_back()) == []
