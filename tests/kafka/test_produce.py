"""Producing: each record goes to the partition that Java's producer would choose; text lines become records."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, Message, TopicPartition

from lakehouse.errors import KafkaUnavailable, LakehouseError, NotFound
from lakehouse.kafka.embedded.broker import Broker
from lakehouse.kafka.produce import ProducerRecord, parse_lines, produce
from lakehouse.kafka.topics import Cluster


def read(broker: Broker, topic: str, count: int, partition: int = 0) -> list[Message]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "test"})
    consumer.assign([TopicPartition(topic, partition, 0)])
    try:
        result: list[Message] = []
        while len(result) < count:
            batch = consumer.consume(count - len(result), timeout=10.0)
            assert batch, f"only {len(result)} of {count} records came"
            result += batch
        return result
    finally:
        consumer.close()


def test_a_record_arrives_as_it_is(broker: Broker) -> None:
    Cluster(broker.bootstrap_servers).create("whole")
    headers = (("h", b"1"), ("h", None))
    records = [
        ProducerRecord(b"k", b"v", 1_370_000_000_000, headers),
        ProducerRecord(None, b""),
        ProducerRecord(b"k", None),
    ]
    assert produce(broker.bootstrap_servers, {}, "whole", records) == 3
    first, second, third = read(broker, "whole", 3)
    assert (first.key(), first.value(), first.timestamp()[1]) == (b"k", b"v", 1_370_000_000_000)
    assert first.headers() == list(headers)
    assert (second.key(), second.value()) == (None, b"")
    assert (third.key(), third.value()) == (b"k", None)


def test_keys_go_where_java_puts_them(broker: Broker) -> None:
    cluster = Cluster(broker.bootstrap_servers)
    cluster.create("spread", partitions=10)
    # Java: Utils.toPositive(Utils.murmur2(key)) % 10, as in Kafka's UtilsTest: murmur2("21") = -973932308,
    # murmur2("foobar") = -790332482.
    for key, hashed in ((b"21", -973932308), (b"foobar", -790332482)):
        partition = (hashed & 0x7FFFFFFF) % 10
        before = cluster.offsets([("spread", partition)])["spread", partition][1]
        produce(broker.bootstrap_servers, {}, "spread", [ProducerRecord(key, b"v")])
        assert cluster.offsets([("spread", partition)])["spread", partition][1] == before + 1


def test_a_partition_can_be_named(broker: Broker) -> None:
    cluster = Cluster(broker.bootstrap_servers)
    cluster.create("named", partitions=2)
    produce(broker.bootstrap_servers, {}, "named", [ProducerRecord(b"k", b"v", partition=1)] * 5)
    assert cluster.offsets([("named", 1)]) == {("named", 1): (0, 5)}
    with pytest.raises(LakehouseError, match="Record 1: found partition 2; expected 0 to 1"):
        produce(broker.bootstrap_servers, {}, "named", [ProducerRecord(b"k", b"v", partition=2)])


def test_more_records_than_the_client_queues(broker: Broker) -> None:
    Cluster(broker.bootstrap_servers).create("many")
    count = 5_000
    options = {"queue.buffering.max.messages": "100"}
    sent = produce(broker.bootstrap_servers, options, "many", (ProducerRecord(b"k", b"%d" % i) for i in range(count)))
    assert sent == count
    assert [message.value() for message in read(broker, "many", count)] == [b"%d" % i for i in range(count)]


def test_an_error_names_the_record_or_how_many_failed(broker: Broker) -> None:
    cluster = Cluster(broker.bootstrap_servers)
    with pytest.raises(NotFound):
        produce(broker.bootstrap_servers, {}, "absent", [ProducerRecord(b"k", b"v")])
    cluster.create("small", config={"max.message.bytes": "1000"})
    with pytest.raises(KafkaUnavailable, match=r"1 of 1 records were not delivered .*too large"):
        produce(broker.bootstrap_servers, {}, "small", [ProducerRecord(b"k", b"v" * 5000)])
    with pytest.raises(LakehouseError, match="Record 2: found the timestamp 0"):
        produce(broker.bootstrap_servers, {}, "small", [ProducerRecord(b"k", b"v"), ProducerRecord(b"k", b"v", 0)])
    assert cluster.offsets([("small", 0)]) == {("small", 0): (0, 1)}
    refused = [
        (ProducerRecord(b"k", b"v", 10**20), "Record 1: found the timestamp 1000.*Kafka's largest"),
        (ProducerRecord(b"k", b"v", headers=(("a\ud800", b"x"),)), "Record 1: found the header .*surrogate"),
    ]
    for record, reason in refused:
        with pytest.raises(LakehouseError, match=reason):
            produce(broker.bootstrap_servers, {}, "small", [record])


def test_json_lines() -> None:
    lines = [
        '{"key": "a", "value": "text", "timestamp": 5, "headers": {"h": "x", "n": null}, "partition": 2}\n',
        "\n",
        '{"key": {"id": 1}, "value": {"é": [1, null]}, "timestamp": "2013-06-01T00:00:00Z"}',
        '{"value": null}',
        '{"key": 7, "value": true}',
    ]
    assert list(parse_lines(lines, "json")) == [
        ProducerRecord(b"a", b"text", 5, (("h", b"x"), ("n", None)), 2),
        ProducerRecord(b'{"id":1}', '{"é": [1, null]}'.encode(), 1_370_044_800_000),
        ProducerRecord(None, None),
        ProducerRecord(b"7", b"true"),
    ]


@pytest.mark.parametrize(
    "value",
    [
        "1234567890.12345678901234",
        '{"n": 1234567890.12345678901234, "m": 1.10, "e": 1E+400, "z": -0.0, "big": 123456789012345678901234567890}',
        '[ 0.1000,\t{"a" : "x,y}\\"]" } ]',
        '{"n": 1e999999999, "m": -1e-99999999999999999999}',
        "9" * 5000,
        '{"a": 1, "a": 2.50}',
        '"\\u00e9"',
    ],
)
def test_a_value_goes_through_as_it_stands_with_all_its_digits(value: str) -> None:
    text = "é" if value.startswith('"') else value
    (actual,) = parse_lines([f'{{ "headers": {{"h": {value}}} ,"value" :{value}, "timestamp": 5 }}'], "json")
    assert actual == ProducerRecord(None, text.encode(), 5, (("h", text.encode()),))


def test_a_key_has_one_form_whatever_the_blanks_in_its_line() -> None:
    lines = ['{"key": {"id": 1.10, "a": "x y"}, "value": 1}', '{"key":{"id":1.10,"a":"x y"},"value":1}']
    assert {record.key for record in parse_lines(lines, "json")} == {b'{"id":1.10,"a":"x y"}'}


def test_tab_separated_lines() -> None:
    lines = ["a\t1\t5\n", "a\n", "\t2\n", "a\t\t2013-06-01\r\n"]
    assert list(parse_lines(lines, "tsv")) == [
        ProducerRecord(b"a", b"1", 5),
        ProducerRecord(b"a", None),
        ProducerRecord(None, b"2"),
        ProducerRecord(b"a", b"", 1_370_044_800_000),
    ]


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("{", "not JSON"),
        ("[1]", 'with a "value"'),
        ('{"key": "a"}', 'with a "value"'),
        ('{"value": 1, "time": 2}', "'time'. Did you mean 'timestamp'?"),
        ('{"value": 1, "timestamp": "noon"}', "'noon'; expected milliseconds"),
        ('{"value": 1, "partition": "0"}', "partition '0'"),
        ('{"value": 1, "headers": [1]}', "expected an object"),
        ('{"value": "\\ud800"}', "half of a surrogate pair"),
        ('{"value": 1, "headers": {"a\\ud800": "x"}}', "the header 'a\\ud800', with half of a surrogate pair"),
        ('{"value": 1, "headers": {"a\\u0000b": "x"}}', "a name without the character"),
        ('{"value": ' + "[" * 100_000 + "]" * 100_000 + "}", "nested too deeply"),
    ],
)
def test_a_wrong_line_is_named(line: str, part: str) -> None:
    with pytest.raises(LakehouseError) as caught:
        list(parse_lines(['{"value": 1}', line], "json"))
    assert str(caught.value).startswith("Line 2: ")
    assert part in str(caught.value)


def test_a_wrong_line_of_columns_is_named() -> None:
    with pytest.raises(LakehouseError, match="Line 1: found 4 columns"):
        list(parse_lines(["a\tb\tc\td"], "tsv"))
