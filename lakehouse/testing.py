"""Testing an application: records in, tables and changelogs out. In milliseconds on the model, or on Spark.

    from lakehouse.testing import Replay

    def test_totals():
        replay = Replay(app)
        replay.send("orders", key="1", value={"customer": "ann", "amount": 2.5}, timestamp=10)
        replay.send("orders", key="1", value=None, timestamp=20)      # a tombstone
        result = replay.run()
        assert result.row("totals", "ann") == {"customer": "ann", "orders": 1}

No Kafka is needed. With engine="spark" the records go through a bronze of their own and the code of a real run.
"""

from __future__ import annotations

import atexit
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from lakehouse.errors import ConfigError
from lakehouse.formats.values.unfit import Unfit
from lakehouse.formats.written_form import encode_written_key as to_key_bytes
from lakehouse.formats.written_form import encode_written_value as to_value_bytes
from lakehouse.model.model import Result
from lakehouse.plan.app import App
from lakehouse.run.scenario.outcome import Replayed, Sent
from lakehouse.run.scenario.scenario import on_model
from lakehouse.semantics.epoch_time import to_milliseconds
from lakehouse.semantics.record import Record
from lakehouse.semantics.time import kafka_time

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Replay", "Replayed"]

Headers = Mapping[str, str | bytes | None] | Iterable[tuple[str, str | bytes | None]]


class Replay:
    """Records for an application: `send` them, `run` it, check the results.

    engine: "model" is plain Python and takes milliseconds; it raises NeedsSpark for an expression that only Spark can
    evaluate. "spark" gives the result that counts. All replays of a process share one Spark session, which the first
    starts.
    """

    def __init__(self, app: App, *, engine: Literal["model", "spark"] = "model") -> None:
        if not isinstance(app, App):
            raise ConfigError(f"Replay({app!r}): expected an application: Replay(lh.app(...)).")
        if engine not in ("model", "spark"):
            raise ConfigError(f'Replay: engine={engine!r}; expected "model" or "spark".')
        self.app = app
        self._on_spark = engine == "spark"
        self._sent: list[Sent] = []
        self._tick = 1
        self._offsets: Counter[tuple[str, int]] = Counter()
        self._order_times: dict[tuple[str, int], int] = {}

    def send(
        self,
        topic: str,
        *,
        key: Any = None,
        value: Any = None,
        timestamp: int | datetime = 0,
        partition: int = 0,
        headers: Headers = (),
        key_bytes: bytes | None = None,
        value_bytes: bytes | None = None,
    ) -> Replay:
        """Send a record to a topic that the application reads; return the replay, so that sends can be chained.

        key, value: in the stream's format: for JSON any value (a dict to fit the schema; values that do not fit can be
        sent too), for CSV the line, or a dict of columns, for primitives the value itself. A key of several columns is
        a dict, or a tuple. A value of None is a tombstone, a key of None a null key. key_bytes, value_bytes: the bytes
        themselves instead. timestamp: milliseconds since 1970, any number that Kafka can hold, or a datetime with a
        zone. headers: names with text or bytes.

        The records of a partition keep the order in which they are sent. Those of several partitions or topics, inside
        one tick, are put in the order of their order times, as in a lake (see `lakehouse.semantics.position`); equal
        ones stay in the order in which they are sent.

        Raises ConfigError for a topic that the application does not read, and for values that can't be encoded.
        """
        subject = f"send({topic!r})"
        for part_name, data in (("key_bytes", key_bytes), ("value_bytes", value_bytes)):
            if data is not None and not isinstance(data, bytes | bytearray):
                raise ConfigError(f"{subject}: {part_name} is a {type(data).__name__}; expected bytes, such as b'...'.")
        source = next((source for source in self.app.sources if source.topic == topic), None)
        if source is None:
            raise ConfigError(f"{subject}: the application does not read it; it reads {', '.join(self.app.topics)}.")
        if (key is not None and key_bytes is not None) or (value is not None and value_bytes is not None):
            raise ConfigError(f"{subject}: found a key or a value, and its bytes beside it; expected one of them.")
        try:
            encoded_part = "key"
            raw_key = to_key_bytes(source, key) if key_bytes is None else key_bytes
            encoded_part = "value"
            raw_value = to_value_bytes(source, value) if value_bytes is None else value_bytes
        except Unfit as error:
            raise ConfigError(f"{subject}: the {encoded_part} can't be encoded: {error}") from error
        if not isinstance(partition, int) or partition < 0:
            raise ConfigError(f"{subject}: partition={partition!r}; expected a number from 0.")
        place, time = (topic, partition), _to_milliseconds(timestamp, subject)
        order_time = kafka_time.order_time(time, self._order_times.get(place))
        self._order_times[place] = order_time
        held_time, time_header = kafka_time.bronze_time(time)
        record = Record(
            topic,
            f"replay-{topic}",
            partition,
            self._offsets[place],
            held_time,
            raw_key,
            raw_value,
            self._tick,
            order_time,
            (*_encode_headers(headers, subject), *time_header),
        )
        self._offsets[place] += 1
        self._sent.append(
            Sent(record, key if key_bytes is None else key_bytes, value if value_bytes is None else value_bytes)
        )
        return self

    def tick(self) -> Replay:
        """End a batch: later records come in the next batch. The results must not depend on batches.

        But ticks decide the order: all records of a tick come before those of the next tick.
        """
        if self._sent and self._sent[-1].record.tick == self._tick:
            self._tick += 1
        return self

    def run(self) -> Replayed:
        """Run the application over all records sent so far, from the beginning; it may be called again.

        Raises NeedsSpark on the model, and Spark's own errors on Spark.
        """
        batches = _in_batches([item.record for item in self._sent])
        records = [record for batch in batches for record in batch]
        ends = [batch[-1].tick for batch in batches]
        result = _on_spark(self.app, records, ends) if self._on_spark else on_model(self.app, records)
        return Replayed(self.app, result, list(self._sent))


def _in_batches(records: list[Record]) -> list[list[Record]]:
    """Return the records in the order in which they count, a list for each batch, with the ticks of a lake.

    In a tick of a lake, records with equal order times are ordered by the names of their topics. Where that differs
    from the order in which they were sent, a batch is split into several ticks, which are processed together.
    """
    batches: list[list[Record]] = []
    tick = 0
    for _, tick_records in groupby(records, key=lambda record: record.tick):
        batch: list[Record] = []
        tick += 1
        for record in sorted(tick_records, key=lambda record: record.order_time):
            placed = replace(record, tick=tick)
            if batch and batch[-1].position > placed.position:
                tick += 1
                placed = replace(record, tick=tick)
            batch.append(placed)
        batches.append(batch)
    return batches


def _to_milliseconds(time: int | datetime, subject: str) -> int:
    if isinstance(time, datetime) and time.tzinfo is not None:
        return to_milliseconds(time)
    if isinstance(time, int) and not isinstance(time, bool) and time in kafka_time.INT64:
        return time
    raise ConfigError(
        f"{subject}: timestamp={time!r}; expected milliseconds, or a datetime with a zone (tzinfo=UTC). Milliseconds "
        "are a whole number of 64 bits."
    )


def _encode_headers(headers: Headers, subject: str) -> tuple[tuple[str, bytes | None], ...]:
    try:
        pairs = headers.items() if isinstance(headers, Mapping) else headers
        return tuple(_encode_header(name, value) for name, value in pairs)
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"{subject}: headers={headers!a:.200}; expected a dict, or pairs: names with text or bytes, or None."
        ) from error


def _encode_header(name: str, value: str | bytes | None) -> tuple[str, bytes | None]:
    """Return a header. Raises ValueError for half of a surrogate pair, which is no text, and TypeError."""
    if not isinstance(name, str) or not isinstance(value, str | bytes | None):
        raise TypeError
    return name.encode().decode(), value.encode() if isinstance(value, str) else value


def _on_spark(app: App, records: list[Record], ends: list[int]) -> Result:
    from lakehouse.run.scenario.replay import SparkReplay
    from lakehouse.run.scenario.suite import session_for_tests

    session = session_for_tests()
    _stop_at_exit(session)
    with tempfile.TemporaryDirectory(prefix="lakehouse-replay-", ignore_cleanup_errors=True) as folder:
        return SparkReplay(session, Path(folder)).in_batches(app, records, ends)


@cache
def _stop_at_exit(session: SparkSession) -> None:
    """Stop a session when the process ends. Cached: the first replay starts the session, and later replays use it."""
    atexit.register(session.stop)
