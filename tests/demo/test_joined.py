"""The joined flights, against DuckDB's own joins over the source's files; on the model, and on Spark."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest

from examples.year_of_flights import flights, joined, looked_up, source
from lakehouse.model.model import Result
from lakehouse.run.scenario.replay import SparkReplay
from lakehouse.run.scenario.scenario import on_model
from lakehouse.semantics.epoch_time import to_datetime
from lakehouse.semantics.record import Record

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAY_MS = 24 * 60 * 60 * 1000
NEW_YEAR_MS = 1_356_998_400_000
LATE = """
    SELECT manufacturer, passed, flights, mean FROM (
        SELECT *, flights >= 100 AND mean > 15 AS is_late,
            coalesce(lag(is_late) OVER (PARTITION BY manufacturer ORDER BY flights), false) AS was,
            CASE WHEN is_late THEN 'enter' ELSE 'leave' END AS passed
        FROM means)
    WHERE is_late != was ORDER BY departed, row
"""


def sent(days: int) -> list[Record]:
    """What is looked up in the first tick; the flights of the first days of 2013 in the second and the third."""
    until = NEW_YEAR_MS + days * DAY_MS
    last_hour = f'"{to_datetime(until):%Y-%m-%dT%H}'.encode()
    result = []
    for topic in ("weather", "airlines", "airports", "planes"):
        made = flights.read_records(topic) if topic == "planes" else looked_up.read_lookup_records(topic)
        for offset, record in enumerate(made):
            if topic == "weather" and record.value is not None and last_hour in record.value:
                break  # later hours change nothing, and take the model a while
            place = (topic, topic, 0, offset, record.timestamp_ms, record.key, record.value)
            result.append(Record(*place, tick=1, order_time=record.timestamp_ms))
    left = [record for record in flights.read_records("flights") if record.timestamp_ms < until]
    for offset, record in enumerate(left):
        place = ("flights", "flights", 0, offset, record.timestamp_ms, record.key, record.value)
        tick = 2 if offset < len(left) // 3 else 3
        result.append(Record(*place, tick=tick, order_time=record.timestamp_ms))
    return result


def independent(days: int) -> duckdb.DuckDBPyConnection:
    """The joins, and the running means, as DuckDB makes them of the source's files."""
    database = duckdb.connect()
    database.execute("SET TimeZone = 'UTC'")
    for name in ("flights", "planes", "weather", "airlines"):
        database.register(f"{name}_csv", getattr(source, f"read_{name}")())
    places = [(item.code, item.name, item.latitude, item.longitude) for item in source.read_airports().values()]
    database.execute("CREATE TABLE airports (faa VARCHAR, name VARCHAR, lat DOUBLE, lon DOUBLE)")
    database.executemany("INSERT INTO airports VALUES (?, ?, ?, ?)", places)
    database.execute(f"""
        CREATE TABLE enriched AS
        WITH left_at AS (
            SELECT *, make_timestamp(epoch_us(time_hour)) + to_minutes(minute) AS scheduled,
                scheduled + to_minutes(dep_delay) AS departed
            FROM flights_csv WHERE dep_time IS NOT NULL)
        SELECT f.tailnum, f.carrier, f.flight, f.origin, f.dest, f.departed, f.scheduled, f.dep_delay, f.row,
            w.temp, w.wind_speed, w.visib, w.precip, make_timestamp(epoch_us(w.time_hour)) AS hour,
            p.manufacturer, p.year AS built, p.seats, l.name AS airline, a.name AS airport, a.lat, a.lon
        FROM left_at f
            ASOF LEFT JOIN weather_csv w
                ON f.origin = w.origin AND f.departed >= make_timestamp(epoch_us(w.time_hour))
            LEFT JOIN planes_csv p USING (tailnum)
            LEFT JOIN airlines_csv l ON f.carrier = l.carrier
            LEFT JOIN airports a ON f.dest = a.faa
        WHERE f.departed < TIMESTAMP '2013-01-01' + to_days({days})
    """)
    database.execute("""
        CREATE TABLE means AS
        SELECT manufacturer, departed, row, count(*) OVER before AS flights,
            sum(dep_delay) OVER before / count(*) OVER before AS mean  -- its avg() errs in the last bit
        FROM enriched WHERE manufacturer IS NOT NULL
        WINDOW before AS (PARTITION BY manufacturer ORDER BY departed, row ROWS UNBOUNDED PRECEDING)
    """)
    return database


def check(result: Result, days: int) -> None:
    """Every record of the enriched stream, every running mean, and every alert, in order."""
    database = independent(days)

    def naive(time: datetime | None) -> datetime | None:
        return None if time is None else time.astimezone(UTC).replace(tzinfo=None)

    names = [
        "carrier", "flight", "origin", "dest", "departed_at", "scheduled_at", "dep_delay", "weather_temp",
        "weather_wind_speed", "weather_visib", "weather_precip", "weather_time_hour", "plane_manufacturer",
        "plane_year", "plane_seats", "airline_name", "dest_name", "dest_lat", "dest_lon",
    ]  # fmt: skip
    found = []
    for change in result.topics["enriched-flights"]:
        assert change.key is not None
        assert change.value is not None
        times = {name: naive(change.value[name]) for name in ("departed_at", "scheduled_at", "weather_time_hour")}
        found.append((*change.key, *({**change.value, **times}[name] for name in names)))
    wanted = database.execute("""
        SELECT tailnum, carrier, flight, origin, dest, departed, scheduled, dep_delay, temp, wind_speed, visib, precip,
            hour, manufacturer, built, seats, airline, airport, lat, lon
        FROM enriched ORDER BY departed, row
    """).fetchall()
    assert len(found) > 700 * days
    assert found == wanted
    assert all(row[12] is not None for row in found), "each flight finds weather"

    means = database.execute("SELECT manufacturer, flights, mean FROM means ORDER BY departed, row").fetchall()
    shown = [(change.key, change.value) for change in result.changelogs["delays"]]
    assert [(*(key or ()), (row or {})["flights"], (row or {})["mean_delay"]) for key, row in shown] == means
    assert len(result.tables["departures"]) == len(found)

    late = [(change.key, change.value) for change in result.topics["late-manufacturers"]]
    told = [
        (*(key or ()), row["crossing"], row["after"]["flights"], row["after"]["mean_delay"])
        for key, row in late if row is not None
    ]  # fmt: skip
    assert told == database.execute(LATE).fetchall()


def test_the_model_gives_what_duckdb_gives() -> None:
    check(on_model(joined.app, sent(2)), 2)


@pytest.mark.slow
def test_spark_gives_what_duckdb_gives(spark: SparkSession, tmp_path: Path) -> None:
    result = SparkReplay(spark, tmp_path)(joined.app, sent(14))
    check(result, 14)
    assert result.topics["late-manufacturers"], "some manufacturer's mean passes the limit"
