"""Which version and which records a moment is, decided over a lake that a test describes: no files, no Spark."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterable
from typing import Any

import pytest

from lakehouse.errors import ConfigError, LakehouseError, NotFound
from lakehouse.lake.moment.commits import version_before_swap
from lakehouse.lake.moment.cut import Cut, cut_from_details
from lakehouse.lake.moment.past_subject import TableInputs, visible_subject
from lakehouse.lake.moment.timeline import Timeline, common_tick
from lakehouse.semantics.moment import At, AtCommit, AtEvent, AtOffsets, AtTick, AtVersion
from lakehouse.semantics.time.named_moment import moment_from_text

from .written_moments import CREATED, EPOCH, OPTIMIZED, Opened, Written, took


def line(lake: Written, topics: Iterable[str] | None = ("t",)) -> Timeline:
    return Timeline(lake, visible_subject(lake.layout, "v", None if topics is None else TableInputs(frozenset(topics))))


def story(decided: Collection[int] = (4,), **more: Any) -> Written:
    """
    tick  t/0, t/1      u      version of v
    0                          0 created, 1 open epoch
    1     2             -      2; 3 is OPTIMIZE
    2                   1
    3     3             -      4: ticks 2 and 3
    4     (a revert)           5
    5     4, 1          -      not taken in
    6                   2
    """
    ticks = [{"t/0": 2}, {"u/0": 1}, {"t/0": 3}, {}, {"t/0": 4, "t/1": 1}, {"u/0": 2}]
    commits = [
        CREATED, EPOCH, took(1, 0, 10, 20), OPTIMIZED, took(3, 1, 30, 30),
        took(4, 3, None, 30, operation="revert"),
    ]  # fmt: skip
    return Written(ticks, Opened("v", commits, 4), decided, **more)


@pytest.mark.parametrize(("tick", "version"), [(0, 1), (1, 3), (2, 3), (3, 4), (4, 5)])
def test_ticks(tick: int, version: int) -> None:
    assert line(story()).version(AtTick(tick)) == version
    assert line(story()).cut(AtTick(tick)) == Cut(tick)


@pytest.mark.parametrize(
    ("at", "said"),
    [
        (AtTick(5), "table 'v' at tick 5: it has not taken that in yet, and is at tick 4. It has versions 0 to 5"),
        (AtTick(6), "has not taken that in yet"),
        (AtTick(7), "table 'v' at tick 7: bronze has ticks up to 6. It is at tick 4."),
        (AtVersion(6), "table 'v' has no version 6. It has versions 0 to 5, committed from 1970-01-01T00:00:00Z to"),
        (AtCommit(-1), "that is before the log begins. It has versions 0 to 5"),
        (
            moment_from_text("offsets:t/0=9"),
            "offsets t/0=9: bronze has t/0 up to 4; expected at most that. Run the application",
        ),
        (
            moment_from_text("offsets:t/0=4"),
            r"offsets t/0=4: table 'v' has taken in t/0 up to 3 \(tick 4\), of 4 that bronze",
        ),
        (
            moment_from_text("offsets:t/0=1,t/1=1"),
            r"table 'v' has taken in t/1 up to 0 \(tick 4\), of 1 that bronze has",
        ),
        (moment_from_text("offsets:t/7=1"), "t/7 up to 0; .* There are records of other partitions, too: add t/0=3 "),
        (moment_from_text("offsets:u/0=1"), r"one for every partition with records; add t/0=3 \(or smaller ones\)"),
        (moment_from_text("offsets:t/0=1,nix/0=1"), "bronze has t, u; and table 'v' does not read topic 'nix', but t"),
    ],
)
def test_what_cannot_be_read(at: At, said: str) -> None:
    """Version and records are refused alike, and the message says what can be read."""
    for asked in (line(story()).cut, line(story()).version):
        with pytest.raises(LakehouseError, match=said) as actual:
            asked(at)
        assert isinstance(actual.value, NotFound | ConfigError)


def test_a_time_in_the_future() -> None:
    far = AtCommit(int(time.time() * 1000) + 60_000)
    for asked in (line(story()).cut, line(story()).version):
        with pytest.raises(NotFound, match=r"is in the future.*It has versions 0 to 5"):
            asked(far)


@pytest.mark.parametrize(("ms", "version", "tick"), [(0, 0, 0), (2999, 2, 1), (3000, 3, 1), (4000, 4, 3), (9999, 5, 4)])
def test_commit_times(ms: int, version: int, tick: int) -> None:
    assert line(story()).version(AtCommit(ms)) == version
    assert line(story()).cut(AtCommit(ms)) == line(story()).cut(AtVersion(version)) == Cut(tick)


def test_a_waiting_intervention_is_waited_for() -> None:
    """Only Spark waited: without a JVM a table was reported at the tick of an intervention that nobody had applied."""
    ticks: list[dict[str, int]] = [{"t/0": 2}, {}, {}]
    table = Opened("v", [CREATED, took(1, 0, 10, 20)], 1)
    free, waits = line(Written(ticks, table)), line(Written(ticks, table, decided=[2]))
    assert (free.applied_tick, waits.applied_tick) == (3, 1)
    assert (free.cut(None), waits.cut(None)) == (Cut(3), Cut(1))
    assert (free.cut(AtEvent(5)), waits.cut(AtEvent(5))) == (Cut(3, event_ms=5), Cut(1, event_ms=5))
    at = AtOffsets({"t": {0: 1}})
    assert (free.cut(at).tick, waits.cut(at).tick) == (3, 1)
    assert (free.version(AtTick(2)), waits.version(AtTick(1))) == (1, 1)
    with pytest.raises(NotFound, match="has not taken that in yet"):
        waits.version(AtTick(2))


def test_ticks_before_the_first_waiting_intervention_are_taken_in() -> None:
    """Spark refused them if any intervention was waiting."""
    asked = line(Written([{"t/0": 2}, {"u/0": 1}, {"t/0": 3}], Opened("v", [CREATED, took(1, 0, 10, 20)], 1)))
    assert asked.version(AtTick(2)) == 1
    assert asked.cut(AtTick(2)) == Cut(2)
    with pytest.raises(NotFound, match="has not taken that in yet"):
        asked.cut(AtTick(3))


def test_event_times_and_offsets_that_are_versions() -> None:
    """Later interventions about the records count for both: no version before them is the table."""
    plain = Written([{"t/0": 2}, {"u/0": 1}, {"t/0": 3}], Opened("v", story()._tables["lake/silver/v"].commits[:5], 3))
    assert [line(plain).version(AtEvent(ms)) for ms in (9, 10, 20, 29, 30)] == [0, None, 2, 2, 4]
    actual = [line(plain).version(moment_from_text(f"offsets:t/0={n}")) for n in (0, 1, 2, 3)]
    assert actual == [1, None, 3, 4]
    assert line(plain).version(moment_from_text("offsets:t/0=2,u/0=1")) == 3, "of a topic that it does not read"
    assert [line(story()).version(AtEvent(ms)) for ms in (20, 30)] == [None, 5]
    assert [line(story()).version(moment_from_text(f"offsets:t/0={n}")) for n in (2, 3)] == [None, 5]


def test_a_table_that_was_created_and_never_written() -> None:
    ticks = [{"u/0": 2}, {"t/0": 1}]
    asked = line(Written(ticks, Opened("v", [CREATED], 0)))
    assert [asked.version(at) for at in (AtTick(0), AtTick(1), AtEvent(5), AtVersion(0))] == [0, 0, 0, 0]
    assert (asked.applied_tick, asked.cut(AtVersion(0))) == (0, Cut(0))
    assert asked.span().startswith("version 0 alone, committed from 1970")
    with pytest.raises(NotFound, match="has not taken that in yet, and is at tick 0"):
        asked.version(AtTick(2))
    foreign = line(Written(ticks, Opened("v", [CREATED, ("WRITE", 0, None)], 0)), topics=None)
    assert foreign.version(AtTick(0)) is None, "nobody knows what it reads"


def test_a_restored_table_is_none_of_its_versions_by_event_time_or_offsets() -> None:
    table = Opened("v", [CREATED, took(1, 0, 10, 20)], 1, settings={"lakehouse.skip": "{}"})
    asked = line(Written([{"t/0": 2}], table))
    assert [asked.version(at) for at in (AtEvent(20), moment_from_text("offsets:t/0=2"), AtTick(0))] == [
        None,
        None,
        None,
    ]
    assert asked.version(AtTick(1)) == 1


def test_a_log_whose_beginning_is_gone() -> None:
    """Commits of tick 1 are gone: a version keeps its tick, because the next commit says where it went on."""
    commits = [CREATED, took(1, 0, 10, 20), OPTIMIZED, OPTIMIZED, took(3, 1, 30, 30)]
    asked = line(Written([{"t/0": 2}, {"u/0": 1}, {"t/0": 3}], Opened("v", commits, 3, gone=2)))
    assert (asked.cut(AtVersion(3)), asked.cut(AtVersion(4))) == (Cut(1), Cut(3))
    assert (asked.version(AtTick(3)), asked.version(AtTick(1))) == (4, None)
    for at in (AtVersion(1), AtCommit(1500)):
        with pytest.raises(NotFound, match="It has versions 2 to 4"):
            asked.cut(at)
    optimized = Opened("v", [*commits, OPTIMIZED], 3, gone=5)
    assert line(Written([{"t/0": 3}, {}, {}], optimized)).cut(AtVersion(5)) == Cut(3)


def test_where_bronzes_log_has_no_offsets_its_rows_have_them() -> None:
    lake = Written([{"t/0": 2}, {"t/0": 3}], Opened("v", [CREATED, took(2, 0, 10, 20)], 2), gone=2)
    assert line(lake).cut(moment_from_text("offsets:t/0=3")) == Cut(2, offsets={"t": {0: 3}}, ids={"t": "id-t"})
    with pytest.raises(NotFound, match="bronze has t/0 up to 3"):
        line(lake).cut(moment_from_text("offsets:t/0=4"))


def test_offsets_are_those_of_the_present_topic() -> None:
    """All records of an earlier topic of that name came before; Spark mistook the offsets for the present topic's."""
    lake = Written(
        [{"t/0": 5}, {"t/0": 1}, {"t/0": 2}], Opened("v", [CREATED, took(1, 0), took(2, 1), took(3, 2)], 3),
        ids={1: "old", 2: "new"},
    )  # fmt: skip
    assert [line(lake).version(moment_from_text(f"offsets:t/0={n}")) for n in (1, 2)] == [2, 3]
    cut = line(lake).cut(moment_from_text("offsets:t/0=1"))
    assert [cut.lies_before("t", of, 0, n) for of, n in (("old", 4), ("new", 0), ("new", 1))] == [True, True, False]
    assert cut.lies_before("u", "any", 0, 99)
    assert cut_from_details(json.loads(json.dumps(cut.details()))) == cut
    with pytest.raises(NotFound, match="bronze has t/0 up to 2"):
        line(lake).cut(moment_from_text("offsets:t/0=3"))


def test_a_revert_to_offsets_of_an_earlier_topic_keeps_its_meaning_later() -> None:
    then = Cut(1, offsets={"t": {0: 3}}, ids={"t": "old"})
    now = Cut(3, offsets={"t": {0: 1}, "u": {0: 7}}, ids={"t": "new", "u": "id-u"})
    assert then.within(now) == Cut(1, offsets={"t": {0: 3}, "u": {0: 7}}, ids={"t": "old", "u": "id-u"})
    assert then.within(Cut(3, offsets={"t": {0: 2}}, ids={"t": "old"})).offsets == {"t": {0: 2}}


def test_the_version_before_a_swap_is_found_behind_commits_of_others() -> None:
    """Without a JVM an OPTIMIZE after the swap hid the swap: ticks before it were shown with the new logic's rows."""
    log = Opened("late.v", [CREATED, took(1, 0), took(3, 2, operation="swap"), OPTIMIZED, took(4, 3)], 4).log
    assert [version_before_swap(log, "late.v", tick) for tick in (1, 2, 3, 4)] == [1, 1, None, None]


def test_the_common_tick_of_tables() -> None:
    ticks = [{"t/0": 2}, {"t/0": 3}, {"t/0": 4}, {"u/0": 1}]
    one = [took(1, 0), took(2, 1), took(3, 2)]
    for commits, done, common in ((one, 3, 4), (one[:2], 2, 2), ([took(1, 0), took(3, 1)], 3, 4)):
        assert common_tick([line(Written(ticks, Opened("v", [CREATED, *commits], done)))], 4) == common
    lines = [
        line(Written(ticks, Opened("v", [CREATED, *commits], done)))
        for commits, done in ((one[:2], 2), ([took(1, 0), took(3, 1)], 3))
    ]
    assert common_tick(lines, 4) == 1, "the second has no version of tick 2"


def test_an_intervention_in_a_table_that_is_read_is_waited_for() -> None:
    lake, reads = story(of="above"), TableInputs(frozenset({"t"}), frozenset({"above"}))
    lines = Timeline(lake, visible_subject(lake.layout, "v", reads)), line(lake)
    assert [item.may_differ(3, 4) for item in lines] == [True, False]


def test_a_version_before_an_intervention_in_a_table_that_is_read_is_no_event_time() -> None:
    """It reaches this table as records without a time, and counts like an intervention in the table itself."""
    commits = [CREATED, took(1, 0, 10, 20), took(3, 1, 30, 30), took(4, 3, None, 30)]
    above = Opened("above", [CREATED, took(1, 0, 10, 20), took(4, 1, None, 20, operation="revert")], 4)
    lake = Written([{"t/0": 2}, {}, {"t/0": 3}, {}], Opened("v", commits, 4), [4], of="above", above=above)
    reads = TableInputs(frozenset({"t"}), frozenset({"above"}))
    lines = Timeline(lake, visible_subject(lake.layout, "v", reads)), line(lake)
    assert [item.version(AtEvent(20)) for item in lines] == [None, 1]
    assert [item.version(AtEvent(30)) for item in lines] == [3, 3]
    assert [item.version(moment_from_text("offsets:t/0=2")) for item in lines] == [None, 1]


@pytest.mark.parametrize(
    ("commits", "tick", "versions"),
    [
        ([took(1, 0, 10, 15), took(3, 1, 18, 19)], 3, [2, 3]),
        ([took(1, 0, 10, 15), took(3, 1, 18, 25)], 3, [None, 3]),
        ([took(1, 0, 10, 15), took(3, 1, 18, 40)], 3, [None, None]),
        ([took(1, 0, 10, 15)], 1, [None, None]),
        (None, 0, [None, None]),
    ],
    ids=["no later record", "one between", "one later than both", "behind", "gone"],
)
def test_rows_may_be_made_of_later_records_of_a_table_that_is_read(
    commits: list[Any] | None, tick: int, versions: list[int | None]
) -> None:
    above = None if commits is None else Opened("above", [CREATED, *commits], tick)
    table = Opened("v", [CREATED, took(1, 0, 10, 20), took(2, 1, None, 20), took(3, 2, 30, 30)], 3)
    lake = Written([{"t/0": 2}, {}, {"t/0": 3}], table, above=above)
    past = Timeline(lake, visible_subject(lake.layout, "v", TableInputs(frozenset({"t"}), frozenset({"above"}))))
    assert [past.version(AtEvent(20)), past.version(AtEvent(30))] == versions
