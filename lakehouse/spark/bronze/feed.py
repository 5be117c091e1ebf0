"""The feed of an ingest: the topics, the limits, and how Spark and lakehouse read the records."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader

from lakehouse.kafka.ranges import RawRecord
from lakehouse.semantics.moment import Offsets
from lakehouse.spark.bronze.gaps import KafkaTopic

# How many records a client hands over in one poll: with Kafka's 500, reading small records takes half as long again.
POLLED_RECORDS = 2_000
# How long the broker delays its answer if it has no record yet. Spark's reader asks for a partition's last offsets
# after each poll; the client has by then asked for more records, and the broker answers a connection in order: with
# Kafka's 500, each partition at its end cost a tick half a second, one after the other.
WAIT_MS = 10

Reader = TypeVar("Reader", DataFrameReader, DataStreamReader)
# Returns what Kafka has now of the feed's topics: those in its list, those that match its pattern, and the given ones.
LookUpTopics = Callable[[Iterable[str]], Mapping[str, KafkaTopic]]
# Yields the records at the offsets [start, end) of each partition, one by one.
ReadRanges = Callable[[Offsets, Offsets], Iterator[RawRecord]]


@dataclass(frozen=True, slots=True)
class Feed:
    """The topics to ingest, and how.

    options: of Kafka's clients. look_up_topics: asks Kafka what it has now. own_topics: those that get a physical table
    of their own. max_bytes_per_tick: the bytes of keys and values, estimated from the ticks before. max_record_bytes:
    ingest does not take in a larger record: it stops, or leaves the record out and records a gap (`on_data_loss`).
    """

    bootstrap_servers: str
    options: Mapping[str, str]
    topics: tuple[str, ...]
    look_up_topics: LookUpTopics
    read_ranges: ReadRanges
    pattern: str | None = None
    own_topics: tuple[str, ...] = ()
    max_records_per_tick: int = 5_000_000
    max_bytes_per_tick: int = 2**30
    max_record_bytes: int = 2**25
    on_data_loss: str = "fail"

    def stream(self, reader: DataStreamReader, starts: Offsets) -> DataFrame:
        """Return the stream of all topics, from these offsets on."""
        reader = self._kafka(reader, self._subscription()).option("startingOffsets", _format_offsets(starts))
        return reader.option("maxOffsetsPerTrigger", str(self.max_records_per_tick)).load()

    def ranges(self, spark: SparkSession, starts: Offsets, ends: Offsets) -> DataFrame:
        """Return the rows at the offsets [start, end) of each partition that `ends` names."""
        assigned_partitions = json.dumps({name: list(partitions) for name, partitions in ends.items()})
        reader = self._kafka(spark.read, {"assign": assigned_partitions})
        return reader.options(startingOffsets=_format_offsets(starts), endingOffsets=_format_offsets(ends)).load()

    def _kafka(self, reader: Reader, subscription: Mapping[str, str]) -> Reader:
        kafka_options = {"kafka.max.poll.records": str(POLLED_RECORDS), "kafka.fetch.max.wait.ms": str(WAIT_MS)}
        kafka_options |= {f"kafka.{name}": value for name, value in self.options.items()}
        kafka_options |= {
            "kafka.bootstrap.servers": self.bootstrap_servers,
            "kafka.isolation.level": "read_committed",
            "includeHeaders": "true",
            "failOnDataLoss": "true",
        }
        return reader.format("kafka").options(**kafka_options, **subscription)

    def _subscription(self) -> dict[str, str]:
        if self.pattern:
            # Spark looks for the pattern anywhere in a name; here a pattern matches whole names.
            any_name = "|".join([*map(re.escape, self.topics), self.pattern])
            return {"subscribePattern": f"^(?:{any_name})$"}
        return {"subscribe": ",".join(self.topics)}


def _format_offsets(starts: Offsets) -> str:
    return json.dumps(
        {
            name: {str(partition): offset for partition, offset in partitions.items()}
            for name, partitions in starts.items()
        }
    )
