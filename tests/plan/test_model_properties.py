"""What holds for every input: batching changes nothing, and a changelog is its table."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

import lakehouse as lh
from lakehouse.formats.decode import decode
from lakehouse.plan.model import Result, run
from lakehouse.semantics.changelog import Change, apply
from lakehouse.semantics.position import order_times
from lakehouse.semantics.record import Record

numbers = lh.stream("numbers", key="id string", schema="n bigint, label string")
APP = lh.app(
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
    assert without_tick(run(APP, one, decode)) == without_tick(run(APP, reversed(many), decode))


@given(INPUTS)
def test_a_changelog_applied_to_an_empty_table_is_the_table(
    inputs: list[tuple[int, int, bytes | None, bytes | None]],
) -> None:
    result = run(APP, in_one_tick(inputs), decode)
    for name, table in result.tables.items():
        assert apply(result.changelogs[name]) == table


@given(INPUTS, st.integers(0, 25))
def test_a_table_after_some_records_is_that_of_those_records_alone(
    inputs: list[tuple[int, int, bytes | None, bytes | None]], cut: int
) -> None:
    records = in_one_tick(inputs)
    whole, part = run(APP, records, decode), run(APP, records[:cut], decode)
    for name, changes in part.changelogs.items():
        assert whole.changelogs[name][: len(changes)] == changes


@given(INPUTS)
def test_every_record_is_accounted_for(inputs: list[tuple[int, int, bytes | None, bytes | None]]) -> None:
    result = run(APP, in_one_tick(inputs), decode)
    assert len(result.topics["out"]) + len(result.quarantine["numbers"]) == len(inputs)
    kept = len(result.changelogs["newest"]) + result.null_keys["newest"] + len(result.quarantine["numbers"])
    assert kept == len(inputs)
