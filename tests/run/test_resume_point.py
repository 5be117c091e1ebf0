"""Whether a lake may publish to a topic, by the topic's newest cover."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

import lakehouse as lh
from lakehouse.errors import StorageError
from lakehouse.kafka.covers import Cover
from lakehouse.kafka.topics import TopicFacts
from lakehouse.plan.table import Sink
from lakehouse.run.start.resume_point import (
    OwnPublication,
    Restored,
    ResumePoint,
    check_key_formats,
    check_partitions,
    declaration_of,
    find_resume_point,
    restored_of,
    state_topic_id,
)

STREAM = lh.stream("in", key="id string", schema="amount bigint")
TABLE = STREAM.group_by("id").agg(n=lh.count()).table("totals")
COVER = Cover("T", "totals", "A", 5, {"s": {"0": 9}}, "table-a", declaration_of(TABLE))
A = OwnPublication(TABLE, "A", 5, "table-a")
B = OwnPublication(TABLE, "B", 1, "B", Restored("T", (("A", 5),)))


def stands(cover: Cover | None, mine: OwnPublication, *, has_records: bool = False) -> ResumePoint:
    return find_resume_point("out", "T", cover, mine, has_records=has_records)


def test_a_new_topic_begins_at_the_first_tick_and_gets_all_of_a_restored_table() -> None:
    for mine in (A, B):
        assert stands(None, mine) == stands(replace(COVER, topic="deleted since"), mine) == ResumePoint()
    assert ResumePoint().whole


def test_a_lake_goes_on_where_it_stopped() -> None:
    assert stands(COVER, A) == ResumePoint(5, 0, (), COVER.next)
    assert stands(COVER, replace(A, tick=9)).tick == 5
    second = replace(COVER, origin="B", table="B", tick=1, before=(("A", 5),))
    assert stands(second, B) == ResumePoint(1, 0, (("A", 5),), COVER.next)
    assert not stands(replace(second, tick=0, sent=3), B).whole


def test_a_restored_lake_goes_on_in_the_topic_that_it_was_restored_from() -> None:
    actual = stands(COVER, B)
    assert actual == ResumePoint(before=(("A", 5),))
    assert not actual.whole
    third = OwnPublication(TABLE, "C", 1, "C", Restored("T", (("A", 5), ("B", 1))))
    assert stands(replace(COVER, origin="B", tick=1, before=(("A", 5),)), third).before == (("A", 5), ("B", 1))


def test_two_lakes_do_not_publish_to_one_topic_by_turns() -> None:
    by_b = replace(COVER, origin="B", table="B", tick=1, before=(("A", 5),))
    with pytest.raises(StorageError, match="was taken over by a lake that was restored from it"):
        stands(by_b, A)
    with pytest.raises(StorageError, match="went on after table 'totals' was restored"):
        stands(replace(COVER, tick=6), B)
    with pytest.raises(StorageError, match="went on after table 'totals' was restored"):
        stands(by_b, replace(B, origin="B2", table="B2"))  # a second lake, restored from the same topic


def test_a_new_bronze_does_not_go_on_in_silence() -> None:
    with pytest.raises(StorageError, match=r"another lake \(or this one's bronze was recreated\).*delete 'out'"):
        stands(COVER, replace(A, origin="anew"))


def test_an_older_copy_of_the_lake_is_refused() -> None:
    with pytest.raises(StorageError, match="up to tick 5, and this lake ends at tick 4"):
        stands(COVER, replace(A, tick=4))


def test_a_copy_of_the_lake_that_has_diverged_is_refused() -> None:
    for exact in (True, False):
        assert (
            stands(COVER, replace(A, tick=9, next={"s": {"0": 9}, "of another topic": {"0": 5}}, exact=exact)).tick == 5
        )
        with pytest.raises(StorageError, match="whose tick 5 had other records"):
            stands(COVER, replace(A, tick=9, next={"s": {"0": 10}}, exact=exact))
    with pytest.raises(StorageError, match="whose tick 5 had other records"):
        stands(COVER, replace(A, next={"s": {"0": 8}}, exact=True))
    assert stands(COVER, replace(A, next={"s": {"0": 8}})).tick == 5  # from rows: the last offset held no record


def test_records_without_a_cover_are_refused() -> None:
    with pytest.raises(StorageError, match="nothing says"):
        stands(None, A, has_records=True)
    for cover in (None, replace(COVER, of="", topic="deleted since")):
        with pytest.raises(StorageError, match=r"or the topic of covers was deleted.*delete 'out'"):
            stands(cover, OwnPublication(STREAM, "A", 5), has_records=True)


def test_a_copy_of_the_lake_whose_tick_was_another_commit_is_refused() -> None:
    """A correction by hand has a tick and no records: the offsets after it are those of the copy's tick as well."""
    cover = replace(COVER, commit="nonce of the correction")
    assert stands(cover, replace(A, commit=cover.commit)).tick == 5
    assert stands(cover, A).tick == stands(COVER, replace(A, commit="any")).tick == 5  # a log lost the commit
    with pytest.raises(StorageError, match=r"whose tick 5 was another commit.*an older copy of it that has gone on"):
        stands(cover, replace(A, tick=9, next=COVER.next, exact=True, commit="nonce of other records"))
    stream = replace(cover, of="", table=None, declared=None)
    assert stands(stream, OwnPublication(STREAM, "A", 5, commit=cover.commit)).tick == 5
    assert stands(stream, OwnPublication(STREAM, "A", 5, commit="another")) == ResumePoint(covered=COVER.next)


def test_a_rebuilt_table_goes_on_only_under_its_declaration() -> None:
    assert stands(COVER, replace(A, table="made anew")).tick == 5
    other = STREAM.filter("amount > 0").group_by("id").agg(n=lh.count()).table("totals")
    assert stands(COVER, OwnPublication(other, "A", 5, "table-a")).tick == 5  # swapped: its changes are published
    with pytest.raises(StorageError, match="another declaration"):
        stands(COVER, OwnPublication(other, "A", 5, "made anew"))


def test_another_table_is_refused_in_the_topic() -> None:
    renamed = STREAM.group_by("id").agg(n=lh.count()).table("sums")
    with pytest.raises(StorageError, match="table 'totals', not of table 'sums'"):
        stands(COVER, replace(A, node=renamed))
    with pytest.raises(StorageError, match="table 'totals', not of a stream"):
        stands(COVER, OwnPublication(STREAM, "A", 5))


def test_a_stream_goes_on_by_offsets_whoever_published_before() -> None:
    cover = replace(COVER, of="", table=None, declared=None)
    assert stands(cover, OwnPublication(STREAM, "A", 5)) == ResumePoint(5, 0, (), COVER.next)
    for mine in (
        OwnPublication(STREAM, "B", 1),
        OwnPublication(STREAM, "A", 4),
        OwnPublication(STREAM, "A", 5, next={"s": {"0": 10}}),
    ):
        assert stands(cover, mine) == ResumePoint(covered=COVER.next)


def test_a_part_of_a_tick_is_finished_by_the_lake_that_began_it() -> None:
    """By offsets alone another lake would publish again those records of the tick that are already there."""
    part = replace(COVER, sent=7, at="[6, 0]")
    assert stands(part, A) == ResumePoint(5, 7, (), COVER.next, "[6, 0]")
    stream = replace(part, of="", table=None, declared=None)
    assert stands(stream, OwnPublication(STREAM, "A", 5)) == ResumePoint(5, 7, (), COVER.next, "[6, 0]")
    with pytest.raises(StorageError, match="from a lake that must finish it first"):
        stands(stream, OwnPublication(STREAM, "B", 1))


def test_the_origin_of_a_restored_table_is_read_back_from_its_property() -> None:
    restored = Restored("T", (("A", 5), ("B", 2)))
    assert restored_of(restored.text()) == restored
    assert restored_of(None) is None


def sink(*, net: bool = False, suppress: bool = False, having: bool = False) -> Sink:
    made = STREAM.group_by("id").agg(n=lh.count())
    return (
        (made.having("n > 1") if having else made).table("totals", suppress=suppress).changes(net=net).to_topic("out")
    )


class Counted:
    """A cluster that has topics with these numbers of partitions."""

    def __init__(self, **partitions: int) -> None:
        self._partitions = {name.replace("_", "-"): count for name, count in partitions.items()}

    def names(self) -> list[str]:
        return list(self._partitions)

    def topics(self, names: list[str]) -> dict[str, TopicFacts]:
        return {name: TopicFacts(name, "T", self._partitions[name]) for name in names}


def test_a_changelog_with_other_partitions_is_refused() -> None:
    """A key's later changes are in another partition than its earlier ones: a restore took any of them."""

    def check(cluster: Counted, cover: Cover | None, sink: Sink) -> None:
        check_partitions(cast(Any, cluster), sink, "T", cover)

    both = replace(COVER, partitions=2, state="S", state_partitions=2)
    kept = sink(having=True)
    check(Counted(out=2, out_state=2), both, kept)
    check(Counted(out=2), both, kept)  # that the other one is gone is said elsewhere
    for cover in (None, replace(both, topic="deleted since")):
        check(Counted(out=8, out_state=8), cover, kept)
    check(Counted(out=8), replace(both, of=""), STREAM.to_topic("out"))
    for cluster, name in ((Counted(out=8, out_state=2), "out"), (Counted(out=2, out_state=8), "out-state")):
        with pytest.raises(
            StorageError, match=f"'{name}' has 8 partitions, and its .* to 2: .*Delete 'out' and 'out-state', and"
        ):
            check(cluster, both, kept)


def test_a_changelog_does_not_go_on_with_keys_in_another_format() -> None:
    """To Kafka they are other keys: compaction kept the last record of both, and a restore had two rows of a key."""
    usual, kept = replace(COVER, key_formats=("kafka",)), sink(having=True)
    check_key_formats(kept, "T", usual, ("kafka",))
    for cover in (None, replace(usual, topic="deleted since")):
        check_key_formats(kept, "T", cover, ("json",))
    check_key_formats(STREAM.to_topic("out"), "T", replace(usual, of=""), ("json",))
    for before, now in (
        (("kafka",), ("json",)),
        (("json",), ("json+epoch",)),
        (("avro?id=7",), ("avro?id=9",)),
        (("json", "kafka"), ("json", "json")),
    ):
        with pytest.raises(
            StorageError, match=r"'out' has keys in the format .*Nothing was published\. Give"
        ) as refused:
            check_key_formats(kept, "T", replace(COVER, key_formats=before, state_partitions=2), now)
        told = [", its partition by ".join(formats) for formats in (before, now)]
        assert f"in the format '{told[0]}', and they would go on in '{told[1]}'" in str(refused.value)
        assert "delete 'out' and 'out-state', and it is published again in full" in str(refused.value)


def test_what_a_table_keeps_has_a_topic_where_the_changelog_leaves_some_out() -> None:
    for tells_all in (sink(), sink(net=True), sink(net=True, suppress=True)):
        assert state_topic_id("T", None, tells_all, None) == "T"
        assert state_topic_id("T", replace(COVER, state="T"), tells_all, None) == "T"
    for leaves_out in (sink(having=True), sink(suppress=True)):
        assert state_topic_id("T", None, leaves_out, "S") == "S"
        assert state_topic_id("T", replace(COVER, topic="deleted since", state="gone"), leaves_out, "S") == "S"
        assert state_topic_id("T", replace(COVER, state="S"), leaves_out, "S") == "S"
        for there in (None, "made anew"):
            with pytest.raises(StorageError, match=r"'out-state'.*'totals'.*deleted, or made anew.*Delete both"):
                state_topic_id("T", replace(COVER, state="S"), leaves_out, there)


def test_a_topic_that_lacks_some_of_the_state_never_claims_it_again() -> None:
    # The net changes of what is visible; one whose cover says nothing; one that suppressed for a while.
    assert state_topic_id("T", None, sink(net=True, having=True), None) == ""
    assert state_topic_id("T", COVER, sink(having=True), "S") == ""
    assert state_topic_id("T", replace(COVER, state="T"), sink(suppress=True), None) == ""
    assert state_topic_id("T", replace(COVER, state="S"), sink(), None) == ""
    assert state_topic_id("T", replace(COVER, state=""), sink(), None) == ""
    assert state_topic_id("T", COVER, sink(), None) == ""
    assert state_topic_id("T", COVER, STREAM.to_topic("copy"), None) is None
