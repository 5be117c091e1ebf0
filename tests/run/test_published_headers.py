"""Headers of published records, and covers: any bytes are read, or refused with the record's place."""

from __future__ import annotations

import json
import zlib
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import Message
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.errors import ConfigError, KafkaUnavailable, NotFound
from lakehouse.kafka.covers import Cover, covers_topic, parse_cover
from lakehouse.kafka.headers import (
    ACCUMULATORS,
    DEFLATED,
    EVENT_TIME,
    FORMAT,
    LEFT_OUT,
    ORIGIN,
    POSITION,
    fit_record,
    parse_headers,
    record_room,
    record_size,
)
from lakehouse.kafka.produce import ProducerRecord
from lakehouse.semantics.position import Position

GOOD = {POSITION: b'[3, 1000, "t", 0, 7, [1, 0]]', EVENT_TIME: b"-5", ORIGIN: b"lake/totals"}
COVER = Cover(
    "topic-id", "totals", "lake", 7, {"source-id": {"0": 12}}, "table-id", "{}",
    {"stream_times": {"t/id/0": 5}, "order_times": {"t/id/0": 6}, "watermark": None}, (("older", 3),),
    partitions=4, state_partitions=4, commit="nonce", key_formats=("json", "kafka"),
)  # fmt: skip


def message(headers: dict[str, bytes | None]) -> Message:
    return Message(topic="out", partition=2, offset=41, key=b"k", value=None, headers=list(headers.items()))


def test_headers_are_read() -> None:
    said = parse_headers(message({**GOOD, ACCUMULATORS: b"{}", "another": None}))
    assert (said.position, said.event_ms, said.origin, said.of) == (
        Position(3, 1000, "t", 0, 7, (1, 0)), -5, "lake", "totals",
    )  # fmt: skip
    assert said.accumulators == b"{}"
    assert parse_headers(message({**GOOD, DEFLATED: zlib.compress(b"{}")})).accumulators == b"{}"
    assert parse_headers(message({**GOOD, LEFT_OUT: b"123"})).left_out == 123
    assert said.formats == ("json", "")
    assert parse_headers(message({**GOOD, FORMAT: b'["json+epoch", "json_bare"]'})).formats == (
        "json+epoch",
        "json_bare",
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {FORMAT: b"json"}, {FORMAT: b"[1]"}, {FORMAT: b"[" * 100_000}, {FORMAT: b"\xff"},
        {POSITION: None}, {ORIGIN: None}, {EVENT_TIME: b"soon"}, {EVENT_TIME: b"true"}, {EVENT_TIME: b"9" * 30},
        {POSITION: b"[]"}, {POSITION: b'["3", 1000, "t", 0, 7, []]'}, {POSITION: b'[3, 1000, "t", 0, 7, [0], 0]'},
        {POSITION: b"[3, 1000, 5, 0, 7, []]"}, {POSITION: b'[true, 1000, "t", 0, 7, []]'}, {POSITION: b"\xff"},
        {POSITION: b"[" * 100_000}, {DEFLATED: b"no"}, {LEFT_OUT: b""}, {POSITION: b'[3.0, 1000, "t", 0, 7, []]'},
        {POSITION: b'[3, 1000, "t", 0, 7, 0]'},
        {POSITION: b'[3, 1000, "t", 0, 7, [true]]'}, {POSITION: b'[3, 1000, "t", 0, 7, ["0"]]'},
        {POSITION: b'[3, 1000, "t", 0, 7, [9223372036854775808]]'}, {POSITION: b'[3, 1000, "t", 0, 7, {}]'},
    ],
)  # fmt: skip
def test_a_record_without_our_headers_is_refused_with_its_place(wrong: dict[str, bytes | None]) -> None:
    with pytest.raises(NotFound, match="record out/2@41"):
        parse_headers(message({**GOOD, **wrong}))


@given(st.dictionaries(st.sampled_from([POSITION, EVENT_TIME, ORIGIN, DEFLATED, LEFT_OUT]), st.binary(max_size=40)))
def test_headers_of_any_bytes_are_read_or_refused(headers: dict[str, bytes]) -> None:
    with suppress(NotFound):
        assert parse_headers(message({**GOOD, **headers})).where == "out/2@41"


def test_a_cover_is_read_back_unchanged() -> None:
    assert parse_cover(COVER.data(), "") == COVER
    assert parse_cover(replace(COVER, table=None, declared=None, clock=None, before=()).data(), "").clock is None
    assert COVER.ends() == {"older": 3, "lake": 7}


@pytest.mark.parametrize(
    "wrong",
    [
        {"version": 1}, {"partitions": 0}, {"partitions": None}, {"state_partitions": "4"}, {"commit": 5},
        {"tick": -1}, {"tick": True}, {"tick": "7"}, {"next": []}, {"next": {"t": {"0": -1}}},
        {"next": {"t": {"zero": 1}}}, {"next": {"t": {"0": 1.5}}}, {"next": {"t": {"0": 2**63}}}, {"clock": {}},
        {"clock": {"stream_times": {"a": "b"}, "order_times": {}}}, {"before": [["older"]]}, {"before": [[1, 2]]},
        {"topic": None}, {"origin": 5}, {"sent": None}, {"declared": 5}, {"key_formats": None}, {"key_formats": [1]},
    ],
)  # fmt: skip
def test_a_cover_of_another_shape_is_refused_with_its_place(wrong: dict[str, Any]) -> None:
    data = json.dumps({**json.loads(COVER.data()), **wrong}).encode()
    with pytest.raises(NotFound, match="record out-covers/0@3"):
        parse_cover(data, "out-covers/0@3")


@given(st.binary() | st.none())
def test_a_cover_of_any_bytes_is_refused(data: bytes | None) -> None:
    with pytest.raises(NotFound):
        parse_cover(data, "here")


def test_the_name_of_the_covers_topic_must_be_valid_in_kafka() -> None:
    assert covers_topic("t" * 242) == "t" * 242 + "-covers"
    with pytest.raises(ConfigError, match="243 characters; expected at most 242"):
        covers_topic("t" * 243)


def record(value: bytes, kept: bytes | None) -> ProducerRecord:
    headers = tuple(GOOD.items()) if kept is None else (*GOOD.items(), (ACCUMULATORS, kept))
    return ProducerRecord(b"k", value, 1, headers)


def test_accumulators_that_do_not_fit_are_deflated_and_then_left_out() -> None:
    as_it_is = record(b"{}", b"x" * 5000)
    assert fit_record(as_it_is, "out", 10_000) == as_it_is
    deflated = dict(fit_record(record(b"{}", b"x" * 500_000), "out", 10_000).headers)
    assert zlib.decompress(deflated[DEFLATED] or b"") == b"x" * 500_000
    assert ACCUMULATORS not in deflated
    noise = bytes(n * n * 7919 % 251 ^ (n >> 3) % 256 for n in range(60_000))
    left_out = fit_record(record(b"{}", noise), "out", 10_000)
    assert dict(left_out.headers) == {**GOOD, LEFT_OUT: b"60000"}
    assert record_size(left_out) <= record_room(10_000)


@pytest.mark.parametrize("kept", [None, b"y" * 100])
def test_a_value_that_is_too_large_names_the_setting_to_raise(kept: bytes | None) -> None:
    with pytest.raises(KafkaUnavailable, match=r"topic 'out'.*b'k'.*10,000.*max\.message\.bytes to 2[23],\d\d\d or"):
        fit_record(record(b"v" * 20_000, kept), "out", 10_000)
