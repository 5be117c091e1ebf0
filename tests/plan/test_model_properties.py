"""Properties of every input: batching changes nothing, and a changelog gives its table."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import lakehouse as lh
from lakehouse.formats.decode import decode_record
from lakehouse.model.model import Result, run
from lakehouse.plan.operator import Expire
from lakehouse.semantics.changelog import Change
from lakehouse.semantics.position import order_times
from lakehouse.semantics.record import Record
from tests.changelogs import apply

numbers = lh.stream("numbers", key="id string", schema="n bigint, label string")
by_id = numbers.group_by("id")
made = {"records": lh.count(), "total": lh.sum("n"), "values": lh.collect_list("n"), "newest": lh.latest("n")}


def ms(number: int) -> str:
    return f"{number} milliseconds"


WINDOWS = {
    "tumbled": lh.tumbling(ms(5), grace=ms(3)),
    "hopped": lh.hopping(ms(5), ms(2), grace=ms(3)),
    "slid": lh.sliding(ms(4), grace=ms(3)),
    "sessions": lh.session(ms(2), grace=ms(3)),
}
windowed = {name: by_id.window(window).agg(**made) for name, window in WINDOWS.items()}
APP = lh.app(
    *[rows.table(name) for name, rows in windowed.items()],
    *[rows.table(f"{name}_final", emit="final") for name, rows in windowed.items()],
    *[rows.table(f"{name}_kept", retention=ms(11)) for name, rows in windowed.items()],
    windowed["sessions"].having("records > 1").table("long_sessions"),
    windowed["hopped"].having("total > 2").table("rich_hops", emit="final", idle=ms(4)),
    by_id.window(WINDOWS["slid"]).agg(most=lh.max("n")).table("quiet_slides", suppress=True),
    by_id.agg(total=lh.sum("n")).having("total < 4").table("poor", suppress=True),
    numbers.latest("ordered", order_by="n"),
    numbers.latest("timed", order_by="rowtime", retention=ms(6), suppress=True),
    numbers.filter("n < 3").merge(numbers.filter("n > 1")).latest("twice"),
    numbers.latest("newest"),
    numbers.rekey("label").latest("by_label"),
    numbers.group_by("id").agg(records=lh.count(), numbers=lh.count("n"), total=lh.sum("n")).table("totals"),
    numbers.filter("n > 1").group_by("label").agg(records=lh.count()).table("labels"),
    numbers.select("n + 1 AS next").to_topic("out"),
)

KEYS = st.sampled_from([None, b"a", b"b", b"\xff"])
VALUES = st.sampled_from(
    [None, b"null", b"{}", b'{"n":1}', b'{"n":2,"label":"x"}', b'{"n":3,"label":"y"}', b'{"n":"bad"}', b"text"]
)
INPUTS = st.lists(st.tuples(st.integers(0, 2), st.integers(-5, 20), KEYS, VALUES), max_size=25)


def in_one_tick(inputs: list[tuple[int, int, bytes | None, bytes | None]]) -> list[Record]:
    """The inputs as one batch: (partition, timestamp, key, value), in the order of the lake."""
    made = []
    for partition in {item[0] for item in inputs}:
        own = [item for item in inputs if item[0] == partition]
        times = order_times([item[1] for item in own])
        for offset, ((_, timestamp, key, value), time) in enumerate(zip(own, times, strict=True)):
            made.append(Record("numbers", "id", partition, offset, timestamp, key, value, tick=1, order_time=time))
    return sorted(made, key=lambda record: record.position)


def without_tick(result: Result) -> Result:
    def plain(changes: list[Change]) -> list[Change]:
        return [replace(change, position=change.position._replace(tick=0)) for change in changes]

    result.changelogs = {name: plain(changes) for name, changes in result.changelogs.items()}
    result.topics = {name: plain(changes) for name, changes in result.topics.items()}
    result.late = {
        name: [replace(late, position=late.position._replace(tick=0)) for late in kept]
        for name, kept in result.late.items()
    }
    result.quarantine = {
        name: [(replace(record, tick=0), reason) for record, reason in kept] for name, kept in result.quarantine.items()
    }
    return result


@given(INPUTS, st.lists(st.booleans(), min_size=25, max_size=25))
def test_any_batching_gives_the_same(
    inputs: list[tuple[int, int, bytes | None, bytes | None]], cuts: list[bool]
) -> None:
    one = in_one_tick(inputs)
    many = [replace(record, tick=1 + sum(cuts[: number + 1])) for number, record in enumerate(one)]
    assert without_tick(run(APP, one, decode_record)) == without_tick(run(APP, reversed(many), decode_record))


def in_ticks(inputs: list[tuple[int, int, bytes | None, bytes | None]], steps: list[int]) -> list[Record]:
    """The inputs as ingest may have read them: each moves its partition on by a number of ticks."""
    ticks: dict[int, list[int]] = {}
    for (partition, *_), step in zip(inputs, steps, strict=False):
        seen = ticks.setdefault(partition, [])
        seen.append((seen[-1] if seen else 1) + step)
    return [replace(record, tick=ticks[record.partition][record.offset]) for record in in_one_tick(inputs)]


TICKS = st.lists(st.sampled_from([0, 0, 0, 1, 2]), min_size=25, max_size=25)


@given(INPUTS, TICKS)
def test_ticks_change_nothing_for_one_partition(
    inputs: list[tuple[int, int, bytes | None, bytes | None]], steps: list[int]
) -> None:
    inputs = [(0, *item[1:]) for item in inputs]
    assert without_tick(run(APP, in_one_tick(inputs), decode_record)) == without_tick(
        run(APP, in_ticks(inputs, steps), decode_record)
    )


def late_of(result: Result, name: str) -> Counter[Any]:
    return Counter((late.identity, late.position.ordinals, late.span) for late in result.late[name])


def by_key(changes: list[Change]) -> dict[Any, list[Any]]:
    result: dict[Any, list[Any]] = {}
    for change in changes:
        result.setdefault(change.key, []).append((change.value, change.timestamp))
    return result


# Records are judged by their own partition's time: no result is final here, and no row expires.
OWN_TIME = (*WINDOWS, "long_sessions", "quiet_slides", "poor", "ordered", "twice", "newest", "totals")


@given(INPUTS, TICKS)
def test_ticks_change_nothing_where_a_key_keeps_its_partition(
    inputs: list[tuple[int, int, bytes | None, bytes | None]], steps: list[int]
) -> None:
    home = {None: 0, b"a": 0, b"b": 1, b"\xff": 2}
    inputs = [(home[key], time, key, value) for _, time, key, value in inputs]
    one, many = run(APP, in_one_tick(inputs), decode_record), run(APP, in_ticks(inputs, steps), decode_record)
    for name in OWN_TIME:
        assert one.tables[name] == many.tables[name]
        assert late_of(one, name) == late_of(many, name)
        assert by_key(one.changelogs[name]) == by_key(many.changelogs[name])


SUMMED = lh.app(
    *[by_id.window(WINDOWS[name]).agg(n=lh.count(), total=lh.sum("n")).table(name) for name in ("tumbled", "hopped")],
    by_id.agg(n=lh.count(), total=lh.sum("n"), most=lh.max("n"), kinds=lh.count_distinct("label")).table("totals"),
)


@given(INPUTS, TICKS)
def test_ticks_change_no_sum_and_nothing_late_of_tumbling_and_hopping_windows(
    inputs: list[tuple[int, int, bytes | None, bytes | None]], steps: list[int]
) -> None:
    one, many = run(SUMMED, in_one_tick(inputs), decode_record), run(SUMMED, in_ticks(inputs, steps), decode_record)
    assert one.tables == many.tables
    assert all(late_of(one, name) == late_of(many, name) for name in one.late)


def test_a_partition_that_comes_later_loses_only_what_is_final_or_gone() -> None:
    # partition 0   0   3   9  12        watermark 12 when it is alone, 3 when partition 1 is read in the same tick
    # partition 1         3   4          not late by its own time; [0, 5) with a grace of 3 is final at 8
    inputs: list[tuple[int, int, bytes | None, bytes | None]] = [
        *[(0, time, b"a", b'{"n":1}') for time in (0, 3, 9, 12)], *[(1, time, b"b", b'{"n":1}') for time in (3, 4)],
    ]  # fmt: skip
    together, apart = in_one_tick(inputs), in_ticks(inputs, [0, 0, 0, 0, 1, 0])
    counts = [(len(r.late["tumbled"]), len(r.late["tumbled_final"]), len(r.late["tumbled_kept"]))
              for r in (run(APP, together, decode_record), run(APP, apart, decode_record))]  # fmt: skip
    # Rows of [0, 5) are kept until 16: a record is late for a final row, and not for a kept one.
    assert counts == [(0, 0, 0), (0, 2, 0)]


@given(INPUTS)
def test_a_changelog_applied_to_an_empty_table_is_the_table(
    inputs: list[tuple[int, int, bytes | None, bytes | None]],
) -> None:
    result = run(APP, in_one_tick(inputs), decode_record)
    for name, table in result.tables.items():
        if APP.table(name).find(Expire) is None:
            assert apply(result.changelogs[name]) == table
        else:  # rows past their retention leave without a change
            assert apply(result.changelogs[name]).items() >= table.items()


@given(INPUTS, st.integers(0, 25))
def test_a_table_after_some_records_is_that_of_those_records_alone(
    inputs: list[tuple[int, int, bytes | None, bytes | None]], cut: int
) -> None:
    records = in_one_tick(inputs)
    whole, part = run(APP, records, decode_record), run(APP, records[:cut], decode_record)
    for name, changes in part.changelogs.items():
        assert whole.changelogs[name][: len(changes)] == changes
        assert whole.late[name][: len(part.late[name])] == part.late[name]


@given(INPUTS)
def test_every_record_is_accounted_for(inputs: list[tuple[int, int, bytes | None, bytes | None]]) -> None:
    result = run(APP, in_one_tick(inputs), decode_record)
    assert len(result.topics["out"]) + len(result.quarantine["numbers"]) == len(inputs)
    kept = len(result.changelogs["newest"]) + result.null_keys["newest"] + len(result.quarantine["numbers"])
    assert kept == len(inputs)


@given(INPUTS)
def test_a_record_counts_in_its_tumbling_window_or_is_late_for_it(
    inputs: list[tuple[int, int, bytes | None, bytes | None]],
) -> None:
    result = run(APP, in_one_tick(inputs), decode_record)
    counted = sum(change.value is not None for change in result.changelogs["totals"])
    assert len(result.changelogs["tumbled"]) + len(result.late["tumbled"]) == counted
    sessions = [change for change in result.changelogs["sessions"] if change.value is not None]
    assert len(sessions) + len(result.late["sessions"]) == counted


@given(INPUTS)
def test_final_results_appear_once_and_equal_the_last_changes(
    inputs: list[tuple[int, int, bytes | None, bytes | None]],
) -> None:
    # One partition: with several, a partition that comes later is judged by what is already final. Sessions are
    # left out: a closed one takes nothing more where results are final.
    result = run(APP, in_one_tick([(0, *item[1:]) for item in inputs]), decode_record)
    for name in ("tumbled", "hopped", "slid"):
        finals = result.changelogs[f"{name}_final"]
        assert len({change.key for change in finals}) == len(finals)
        assert result.tables[f"{name}_final"].items() <= result.tables[name].items()
        assert [late.span for late in result.late[f"{name}_final"]] == [late.span for late in result.late[name]]


@given(INPUTS)
def test_every_record_is_in_at_most_one_session(
    inputs: list[tuple[int, int, bytes | None, bytes | None]],
) -> None:
    result = run(APP, in_one_tick(inputs), decode_record)
    counted = sum(change.value is not None for change in result.changelogs["totals"])
    for name in ("sessions", "sessions_final"):
        assert sum(row["records"] for row in result.tables[name].values()) + len(result.late[name]) <= counted
    records = sum(row["records"] for row in result.tables["sessions"].values())
    assert records + len(result.late["sessions"]) == counted


@given(INPUTS)
def test_retention_changes_what_is_kept_and_nothing_before(
    inputs: list[tuple[int, int, bytes | None, bytes | None]],
) -> None:
    # One partition: with several, one that comes later is judged by what has already expired.
    result = run(APP, in_one_tick([(0, *item[1:]) for item in inputs]), decode_record)
    for name in WINDOWS:
        assert result.changelogs[f"{name}_kept"] == result.changelogs[name]
        assert result.late[f"{name}_kept"] == result.late[name]
