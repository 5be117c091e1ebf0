"""The metadata of commits: what is written is read again, and nothing that lakehouse did not write is believed."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakehouse.errors import StorageError
from lakehouse.lake.commit_metadata import (
    FORMAT_VERSION,
    KINDS,
    NO_NUMBER,
    BronzeTick,
    CommitContent,
    CommitMetadata,
    CommitNumber,
    EventTimes,
    RecordCounts,
    TopicState,
    UnchangedRows,
    VisibleCommit,
    parse_metadata,
    sum_counts,
    write_metadata,
)
from lakehouse.semantics.failures import FunctionFailures
from lakehouse.semantics.time.clock import ClockState

from ..written_commits import batch, commit_text, tick_text

# Also lone surrogates, which an error of a user's function may hold.
TEXTS = st.text(st.characters(codec=None), max_size=8)
NUMBERS = st.integers(-(2**63), 2**63 - 1)
PARTITIONS = st.dictionaries(st.integers(0, 2**31 - 1), NUMBERS, max_size=3)
TIMES = st.dictionaries(TEXTS, NUMBERS, max_size=3)
MAYBE_TEXT, MAYBE_NUMBER = st.none() | TEXTS, st.none() | NUMBERS
TOPICS = st.dictionaries(TEXTS, st.builds(TopicState, TEXTS, PARTITIONS, PARTITIONS, PARTITIONS), max_size=2)
COUNTS = st.builds(RecordCounts, NUMBERS, NUMBERS, NUMBERS, NUMBERS)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "operation": MAYBE_TEXT,
    "topics": TOPICS,
    "from_tick": NUMBERS,
    "run": TEXTS,
    "keys": NUMBERS,
    "counts": COUNTS,
    "times": st.builds(EventTimes, MAYBE_NUMBER, MAYBE_NUMBER, MAYBE_NUMBER),
    "clock": st.none() | st.builds(ClockState, TIMES, TIMES, MAYBE_NUMBER),
    "failures": st.lists(st.builds(FunctionFailures, TEXTS, NUMBERS, TEXTS, TEXTS), max_size=2).map(tuple),
    "null_keys_so_far": NUMBERS,
    "swap_counts": st.none() | COUNTS,
}
CONTENTS = st.sampled_from(list(KINDS.values())).flatmap(
    lambda kind: st.builds(kind, **{field.name: VALUES[field.name] for field in fields(kind)})
)
COMMIT_NUMBERS = st.builds(CommitNumber, TEXTS.map("lakehouse.{}".format), NUMBERS, NUMBERS, TEXTS)

FULL = batch(
    operation="swap", times=EventTimes(1, 2, 3), clock=ClockState({"t/i/0": 7}, {"t/i/0": 8}, None),
    counts=RecordCounts(9), null_keys_so_far=7, failures=(FunctionFailures("map price", 1, "t/0/4", "ValueError: x"),),
    swap_counts=RecordCounts(5, 4, 3, 2),
)  # fmt: skip


@given(CONTENTS, COMMIT_NUMBERS)
@example(FULL, CommitNumber("lakehouse.visits", 1, 2, "n"))
def test_what_is_written_is_read(content: CommitContent, number: CommitNumber) -> None:
    metadata = CommitMetadata(content, number)
    assert parse_metadata(write_metadata(metadata), "a commit") == metadata


@given(MAYBE_TEXT)
def test_a_commit_that_sets_properties_has_no_number(operation: str | None) -> None:
    metadata = CommitMetadata(UnchangedRows(operation=operation))
    assert parse_metadata(write_metadata(metadata), "a commit") == metadata
    assert (metadata.number, metadata.app, metadata.tick) == (NO_NUMBER, "", 0)


def test_the_form_on_disk() -> None:
    """A change of these texts is a change of the format: it needs the next version, and docs/commits.md."""
    assert FORMAT_VERSION == 1
    assert commit_text("visits", 7, VisibleCommit(from_tick=6, run="r", keys=2), 3) == (
        '{"lakehouse": 1, "kind": "visible", "app": "lakehouse.visits", "epoch": 3, "tick": 7, "nonce": "3-7", '
        '"from_tick": 6, "run": "r", "keys": 2}'
    )
    assert write_metadata(CommitMetadata(UnchangedRows(operation="retention"))) == (
        '{"lakehouse": 1, "kind": "unchanged rows", "operation": "retention"}'
    )
    assert json.loads(tick_text(7, {"flights": TopicState("KzT", {0: 120}, {0: 7}, {0: 1357})}))["topics"] == {
        "flights": {"id": "KzT", "next": {"0": 120}, "last": {"0": 7}, "order": {"0": 1357}}
    }
    assert {name: value for name, value in json.loads(commit_text("visits", 7, FULL)).items() if name != "nonce"} == {
        "lakehouse": 1, "kind": "table", "app": "lakehouse.visits", "epoch": 1, "tick": 7, "operation": "swap",
        "from_tick": 0, "run": "run", "keys": 1, "counts": {"records": 9, "bad": 0, "null_keys": 0, "late": 0},
        "times": {"first": 1, "last": 2, "through": 3},
        "clock": {"stream_times": {"t/i/0": 7}, "order_times": {"t/i/0": 8}, "watermark": None},
        "failures": [{"function": "map price", "records": 1, "first": "t/0/4", "error": "ValueError: x"}],
        "null_keys_so_far": 7, "swap_counts": {"records": 5, "bad": 4, "null_keys": 3, "late": 2},
    }  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        None, "", "an import by ann", "{", "[1]", '{"job": 7}', '{"topics": "of another commit"}', "{}",
        '{"tick": 1, "topics": {}}', '{"owner": "lakehouse", "lakehouse": 1}', {"lakehouse": 1}, 7, "[" * 100_000,
    ],
)  # fmt: skip
def test_a_text_of_another_writer_is_none(text: object) -> None:
    assert parse_metadata(text, "a commit") is None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"lakehouse": 2, "kind": "a kind of tomorrow"}', "version 2"), ('{"lakehouse": 0}', "version 0"),
        ('{"lakehouse": "1"}', "version '1'"), ('{"lakehouse": true}', "version True"),
        ('{"app": "lakehouse.visits", "epoch": 1, "tick": 3}', "no version, from an earlier release"),
    ],
)  # fmt: skip
def test_another_version_is_refused(text: str, found: str) -> None:
    with pytest.raises(StorageError) as refused:
        parse_metadata(text, "version 4 of lake/silver/visits")
    message = str(refused.value)
    assert message.startswith(f"version 4 of lake/silver/visits: found lakehouse's metadata of a commit with {found};")
    assert "this release reads version 1. Read the lake with the release that wrote it" in message


def changed(content: CommitContent = FULL, **values: Any) -> str:
    """The text of a commit with other values of its fields; None leaves one out."""
    known = json.loads(commit_text("visits", 7, content)) | values
    return json.dumps({name: value for name, value in known.items() if value is not None})


def with_next(offsets: dict[str, int]) -> str:
    """The text of a tick with these offsets by partition."""
    return changed(BronzeTick(topics={}), topics={"t": {"id": "i", "next": offsets}})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"lakehouse": 1', "it is not JSON that can be read"),
        ('{"lakehouse": 1} {}', "it is not JSON that can be read"),
        ('{"lakehouse": 1, "kind": ' + "[" * 100_000, "it is not JSON that can be read"),
        ('{"lakehouse": 1, "kind": ' + "9" * 100_000 + "}", "it is not JSON that can be read"),
        ('{"lakehouse": 1, "lakehouse": 1}', "a field stands there twice"),
        ('{"lakehouse": 1, "kind": "tick", "topics": {"t": {"next": {"0": 1, "0": 2}}}}', "a field stands there twice"),
        ('{"lakehouse": 1}', "kind: expected unchanged rows, tick, "),
        ('{"lakehouse": 1, "kind": ["tick"]}', "kind: expected"),
        ('{"lakehouse": 1, "kind": "tick", "topics": {}}', "app: expected a value; found none"),
        (changed(kind="a table"), "visible, table; found 'a table'"),
        (changed(app="visits"), "app: expected lakehouse.<table>; found 'visits'"),
        (changed(tick="7"), "tick: expected a whole number of 64 bits; found '7'"),
        (changed(tick=True), "tick: expected a whole number of 64 bits; found True"),
        (changed(tick=7.0), "tick: expected a whole number"),
        (changed(epoch=2**63), "epoch: expected a whole number of 64 bits"),
        (changed(nonce=None), "nonce: expected a value; found none"),
        (changed(run=None), "run: expected a value; found none"),
        (changed(runs="x"), "'runs': expected no such field"),
        (changed(counts={"records": "x"}), "counts: records: expected a whole number of 64 bits; found 'x'"),
        (changed(counts=[1, 2, 3, 4]), "counts: expected an object; found [1, 2, 3, 4]"),
        (changed(times={"first": 1, "second": 2}), "times: 'second': expected no such field"),
        (changed(clock={"stream_times": {"t": None}}), "clock: stream_times: expected an object of whole numbers"),
        (changed(clock={"stream_times": {"t": 2**64}}), "an object of whole numbers of 64 bits"),
        (changed(failures={}), "failures: expected a list"),
        (changed(failures=[{"function": "f"}]), "failures: error: expected a value"),
        (changed(operation=7), "operation: expected a text; found 7"),
        (changed(counts=float("nan")), "counts: expected an object; found nan"),
        (changed(clock={"stream_times": {"t": True}}), "clock: stream_times: expected an object of whole numbers"),
        (changed(clock={"stream_times": [1]}), "clock: stream_times: expected an object of whole numbers"),
        (changed(clock={"stream_times": 1}), "clock: stream_times: expected an object of whole numbers"),
        (changed(BronzeTick(topics={}), topics=[]), "topics: expected an object; found []"),
        (with_next({"x": 1}), "expected a partition as name"),
        (with_next({"07": 1}), "expected a partition as name"),
        (with_next({"\u0663": 1}), "expected a partition as name"),
        (with_next({"\u00b2": 1}), "expected a partition as name"),
        (with_next({"9" * 5000: 1}), "expected a partition as name"),
    ],
)  # fmt: skip
def test_damage_is_refused(text: str, reason: str) -> None:
    with pytest.raises(StorageError) as refused:
        parse_metadata(text, "version 4 of lake/silver/visits")
    message = str(refused.value)
    assert message.startswith(
        "version 4 of lake/silver/visits: found lakehouse's metadata of a commit, which is damaged: "
    )
    assert reason in message
    assert "Expected version 1 of the format in docs/commits.md. Put the commit's file in _delta_log back" in message
    assert len(message) < 700


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


def paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The places in a JSON value, the whole one first."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for name, item in inner for place in paths(item, (*path, name)))]


@given(st.data(), CONTENTS, COMMIT_NUMBERS)
def test_any_other_value_at_any_place_is_read_or_refused(
    data: st.DataObject, content: CommitContent, number: CommitNumber
) -> None:
    """It never ends with another error than the one that says what to do."""
    values = json.loads(write_metadata(CommitMetadata(content, number)))
    *above, name = data.draw(st.sampled_from(paths(values)[1:]))
    place = values
    for part in above:
        place = place[part]
    place[name] = data.draw(JSON)
    text = json.dumps(values)
    try:
        metadata = parse_metadata(text, "a commit")
    except StorageError:
        return
    assert metadata is not None
    assert parse_metadata(write_metadata(metadata), "a commit") == metadata


@given(st.text() | st.text().map('{{"lakehouse": 1, {}'.format) | JSON.map(json.dumps))
def test_any_text_is_none_or_refused(text: str) -> None:
    if text.startswith(('{"lakehouse": ', '{"app": "lakehouse.')):
        with pytest.raises(StorageError):
            parse_metadata(text, "a commit")
    else:
        assert parse_metadata(text, "a commit") is None


def test_counts_are_summed_by_name() -> None:
    assert sum_counts([]) == RecordCounts()
    assert sum_counts([RecordCounts(1, 2, 3, 4), RecordCounts(10, 0, 0, 1)]) == RecordCounts(11, 2, 3, 5)


def test_the_page_of_the_format_has_each_kind_and_each_field() -> None:
    page = (Path(__file__).parents[2] / "docs" / "commits.md").read_text()
    headings = {name for line in re.findall(r"^## (.+)$", page, re.MULTILINE) for name in line.split(", ")}
    assert set(KINDS) <= headings
    types = (*KINDS.values(), CommitNumber, TopicState, EventTimes, RecordCounts, ClockState, FunctionFailures)
    missing = {field.name for kind in types for field in fields(kind) if f"`{field.name}`" not in page}
    assert missing == set()
