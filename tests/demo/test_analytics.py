"""Windows over real flights, on Spark and Delta: every row of every table equals DuckDB's answer to the same question.

The questions are written again in plain SQL, over the records' bytes. None of lakehouse's code takes part:
sessions are gaps and islands, hopping windows a join with all possible windows, sliding windows their definition,
late records the rule (window end + grace <= stream time, which is a running maximum for each partition).
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest
from confluent_kafka import Consumer, TopicPartition
from deltalake import DeltaTable

from examples.year_of_flights import flights
from lakehouse.semantics.record import Record
from lakehouse.spark.changelog.upstream import open_lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.kafka.embedded.broker import Broker
    from lakehouse.run.lake import Lake

# Two days take a minute, the year seven.
pytestmark = pytest.mark.slow

TOPIC = "flights"
PARTITIONS = 4
YEAR_RECORDS = 336_776
# Two and a half days, with the year's latest flight in them (1,301 minutes), cut inside windows and sessions.
FIRST, CUT, LAST = "2013-01-08T12:00Z", "2013-01-09T15:20Z", "2013-01-10T23:30Z"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

SETUP = """
    SET TimeZone = 'UTC';
    CREATE MACRO hours(n) AS n * 3_600_000;
    CREATE MACRO floored(t, size) AS t // size * size;
    CREATE TABLE flown AS
        SELECT partition, "offset", tailnum,
            epoch_ms(CAST(value ->> 'departed_at' AS TIMESTAMP)) AS t,
            epoch_ms(CAST(value ->> 'scheduled_at' AS TIMESTAMP)) AS scheduled,
            value ->> 'origin' AS origin, value ->> 'dest' AS dest,
            CAST(value ->> 'dep_delay' AS DOUBLE) AS delay, CAST(value ->> 'distance' AS BIGINT) AS distance
        FROM records WHERE NOT CAST(value ->> 'cancelled' AS BOOLEAN);
    CREATE TABLE delays AS
        SELECT origin, floored(t, hours(1)) AS window_start, window_start + hours(1) AS window_end,
            count(*) AS flights, avg(delay) AS mean_delay, max(delay) AS max_delay
        FROM flown GROUP BY ALL;
    CREATE TABLE judged AS
        SELECT *, floored(scheduled, hours(1)) AS window_start, window_start + hours(1) AS window_end,
            max(scheduled) OVER (PARTITION BY partition ORDER BY "offset") AS stream_time,
            window_end + hours(2) <= stream_time AS late
        FROM flown;
"""

QUERIES = {
    "delays": "FROM delays",
    # The time that every partition has passed; by departure the topic is in order, so nothing is late.
    "final_delays": """
        FROM delays
        WHERE window_end <= (SELECT min(now) FROM (SELECT max(t) AS now FROM flown GROUP BY partition))
    """,
    "rotations": """
        WITH marked AS (
            SELECT *, coalesce(t - lag(t) OVER plane > hours(8), true) AS begins
            FROM flown WINDOW plane AS (PARTITION BY tailnum ORDER BY "offset")),
        numbered AS (
            SELECT *, sum(CAST(begins AS INT)) OVER (PARTITION BY tailnum ORDER BY "offset") AS island FROM marked)
        SELECT tailnum, min(t) AS window_start, max(t) AS window_end, count(*) AS flights,
            arg_min(origin, "offset") AS origin, arg_max(dest, "offset") AS dest,
            CAST(sum(distance) AS BIGINT) AS miles
        FROM numbered GROUP BY tailnum, island
    """,
    "moving": """
        WITH windows AS (
            SELECT unnest(range(
                (SELECT floored(min(t), hours(1)) FROM flown) - hours(6), (SELECT max(t) + 1 FROM flown), hours(1)
            )) AS window_start)
        SELECT origin, window_start, window_start + hours(6) AS window_end,
            count(*) AS flights, avg(delay) AS mean_delay
        FROM windows JOIN flown ON window_start <= t AND t < window_start + hours(6) GROUP BY ALL
    """,
    # One window ends at each record, one begins right after it; those that hold nothing do not exist.
    "bursts": """
        WITH heavy AS (FROM flown WHERE delay >= 60),
        windows AS (
            SELECT origin, t - hours(2) AS window_start FROM heavy UNION SELECT origin, t + 1 FROM heavy)
        SELECT w.origin, window_start, window_start + hours(2) AS window_end,
            count(*) AS flights, avg(delay) AS mean_delay
        FROM windows AS w JOIN heavy AS h
            ON w.origin = h.origin AND t BETWEEN window_start AND window_start + hours(2)
        GROUP BY ALL
    """,
    "destinations": """
        WITH daily AS (SELECT *, floored(t, hours(24)) AS window_start FROM flown),
        counted AS (SELECT origin, window_start, dest, count(*) AS n FROM daily GROUP BY ALL),
        ranked AS (SELECT origin, window_start, list(dest ORDER BY n DESC, dest)[:3] AS top FROM counted GROUP BY ALL)
        SELECT origin, window_start, window_start + hours(24) AS window_end,
            CAST(histogram(dest) AS MAP(VARCHAR, BIGINT)) AS flights, any_value(top) AS top,
            count(DISTINCT dest) AS different, list(delay ORDER BY delay DESC)[:3] AS worst,
            coalesce(stddev_samp(delay), 0) AS spread
        FROM daily JOIN ranked USING (origin, window_start) GROUP BY ALL
    """,
    "schedule": """
        SELECT origin, window_start, window_end, count(*) AS flights, avg(delay) AS mean_delay
        FROM judged WHERE NOT late GROUP BY ALL
    """,
}
LATE = 'SELECT partition, "offset", window_start, window_end FROM judged WHERE late ORDER BY ALL'

Rows = list[dict[str, Any]]
Sent = Iterable[tuple[int, int, bytes | None, bytes | None]]
"""Partition, offset, key, value."""


def milliseconds(moment: str | datetime) -> int:
    at = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
    return (at - EPOCH) // timedelta(milliseconds=1)


def asked(sent: Sent) -> duckdb.DuckDBPyConnection:
    """A database that holds the records, ready to be asked."""
    rows = [(p, o, key.decode() if key else None, value.decode() if value else None) for p, o, key, value in sent]
    names = ("partition", "offset", "tailnum", "value")
    database = duckdb.connect()
    records = pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))
    database.register("records", records)
    database.execute(SETUP)
    return database


def expected(database: duckdb.DuckDBPyConnection, table: str) -> Rows:
    rows: Rows = database.sql(QUERIES[table]).to_arrow_table().to_pylist(maps_as_pydicts="strict")
    return in_order(rows)


def silver(lake: Path, table: str) -> Rows:
    """What a table shows, read by the deltalake package; times are milliseconds."""
    read = DeltaTable(str(lake / "silver" / table)).to_pyarrow_table()
    seen = read.select([name for name in read.column_names if name[0] != "_"]).to_pylist(maps_as_pydicts="strict")
    return in_order([{name: plain(value) for name, value in row.items()} for row in seen])


def plain(value: Any) -> Any:
    return milliseconds(value) if isinstance(value, datetime) else value


def in_order(rows: Rows) -> Rows:
    return sorted(rows, key=lambda row: (next(iter(row.values())), row["window_start"], row["window_end"]))


def late(lake: Path, table: str) -> list[tuple[int, int, int, int]]:
    """The late records of a table: partition, offset, window."""
    folder = lake / "late" / table
    if not folder.exists():
        return []
    columns = ["partition", "offset", "window_start", "window_end"]
    rows = DeltaTable(str(folder)).to_pyarrow_table(columns=columns).to_pylist()
    return sorted(tuple(plain(row[name]) for name in columns) for row in rows)  # type: ignore[misc]


def compare(found: Rows, wanted: Rows) -> None:
    """Every row, every column. The spread is a sum of squares, which the two add up in different orders."""
    spreads = [[row.pop("spread", 0.0) for row in rows] for rows in (found, wanted)]
    assert wanted, "a comparison with nothing shows nothing"
    # Not `found == wanted`: pytest would take minutes to print how two lists of 100,000 rows differ.
    assert [pair for pair in zip(found, wanted, strict=False) if pair[0] != pair[1]][:3] == []
    assert len(found) == len(wanted)
    assert spreads[0] == pytest.approx(spreads[1], rel=1e-9)


def some_days() -> list[Record]:
    """The records between FIRST and LAST as bronze would have them, in two ticks."""
    offsets: Counter[int] = Counter()
    first, cut, last = map(milliseconds, (FIRST, CUT, LAST))
    made = []
    for key, value, time in flights.read_records(TOPIC):
        if first <= time < last:
            partition = zlib.crc32(key or b"") % PARTITIONS
            tick = 1 if time < cut else 2
            made.append(Record(TOPIC, "id", partition, offsets[partition], time, key, value, tick, time))
            offsets[partition] += 1
    return made


@pytest.fixture(scope="module")
def days() -> list[Record]:
    return some_days()


@pytest.fixture(scope="module")
def database(days: list[Record]) -> duckdb.DuckDBPyConnection:
    return asked((record.partition, record.offset, record.key, record.value) for record in days)


@pytest.fixture(scope="module")
def folder(spark: SparkSession, days: list[Record], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake that took the days in, tick by tick, by the code of a real run."""
    from lakehouse.lake.layout import Layout
    from lakehouse.run.scenario.replay import write_bronze
    from lakehouse.spark.silver.query import Silver
    from tests.demo.analytics import app

    made = tmp_path_factory.mktemp("analytics")
    layout = Layout(str(made))
    last = write_bronze(open_lake(spark, layout), app, days)
    with Silver(open_lake(spark, layout), app, lambda tick, records: None) as tables:
        for tick in range(1, last + 1):
            tables.catch_up(tick)
    return made


@pytest.mark.parametrize("table", QUERIES)
def test_two_days_of_flights(folder: Path, database: duckdb.DuckDBPyConnection, table: str) -> None:
    compare(silver(folder, table), expected(database, table))


def test_flights_long_behind_schedule_are_late_for_their_hour(
    folder: Path, database: duckdb.DuckDBPyConnection
) -> None:
    assert late(folder, "schedule") == database.sql(LATE).fetchall() != []
    others = [table for table in QUERIES if table != "schedule"]
    assert [table for table in others if late(folder, table)] == [], "by departure nothing comes late"


def test_the_days_contain_the_difficult_cases_of_windows(database: duckdb.DuckDBPyConnection) -> None:
    """Several flights in a session, windows that overlap, an hour that is not over, the latest flight of the year."""
    rotations = expected(database, "rotations")
    assert max(row["flights"] for row in rotations) >= 3
    assert len({row["tailnum"] for row in rotations}) < len(rotations)
    assert max(row["flights"] for row in expected(database, "bursts")) >= 3
    assert len(expected(database, "final_delays")) < len(expected(database, "delays"))
    assert max(row["worst"][0] for row in expected(database, "destinations")) == 1301


def test_the_whole_year_through_kafka(lake: Callable[..., Lake], broker: Broker, tmp_path: Path) -> None:
    from tests.demo.analytics import app

    flights.load_flights(broker.bootstrap_servers)
    lake().run(app, until="caught_up")
    database = asked(consumed(broker.bootstrap_servers))
    made = tmp_path / "lake"
    for table in QUERIES:
        compare(silver(made, table), expected(database, table))
    assert late(made, "schedule") == database.sql(LATE).fetchall()


def consumed(servers: str) -> Sent:
    """The year's records as Kafka has them."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "never-joined", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(TOPIC, number, 0) for number in range(PARTITIONS)])
        for _ in range(YEAR_RECORDS):
            message = consumer.poll(30.0)
            assert message is not None
            assert message.error() is None
            place = message.partition(), message.offset()
            yield *place, message.key(), message.value()  # type: ignore[misc]
    finally:
        consumer.close()
