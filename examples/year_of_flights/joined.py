"""The demo's flights, joined with the weather at departure, planes, airlines and airports: docs/flights-joined.md.

    references         weather, planes, airlines and airports as tables: run it first, so that flights find their rows

The application `app` makes:

    enriched-flights   each flight that left, with the columns looked up, as a topic
    departures         the same as a table, one row for each flight
    delays             a running mean of the delays for each manufacturer of planes, made from the rows of departures
    late               an alert, as a topic: manufacturers whose mean delay passes 15 minutes

The topics are those of ``flights.py`` and ``looked_up.py``.
"""

from __future__ import annotations

import lakehouse as lh

flights = lh.stream(
    "flights",
    key="tailnum string",
    schema=(
        "carrier string, flight int, origin string, dest string, scheduled_at timestamp, departed_at timestamp, "
        "dep_delay double, distance int, cancelled boolean"
    ),
)
weather = lh.stream(
    "weather",
    key="origin string",
    schema="time_hour timestamp, temp double, wind_speed double, visib double, precip double",
    event_time="time_hour",
).latest("weather")
planes = lh.stream("planes", key="tailnum string", schema="year int, manufacturer string, seats int").latest("planes")
airlines = lh.stream("airlines", key="carrier string", schema="name string").latest("airlines")
airports = lh.stream("airports", key="faa string", schema="name string, lat double, lon double").latest("airports")

references = lh.app(weather, planes, airlines, airports)

enriched = (
    flights.filter("NOT cancelled")
    # The weather of the hour in which the flight left, not the newest weather.
    .join(weather, on="origin", how="left", as_of="event time", prefix="weather_")
    .join(planes, how="left", prefix="plane_")
    .join(airlines, on="carrier", how="left", broadcast=True, prefix="airline_")
    .join(airports, on="dest", how="left", broadcast=True, prefix="dest_")
)
departures = enriched.rekey("carrier", "flight", "origin", "scheduled_at").latest("departures")
delays = (
    departures.group_by("plane_manufacturer AS manufacturer")
    .agg(flights=lh.count(), mean_delay=lh.avg("dep_delay"))
    .table("delays")
)
late = delays.alert("late", "flights >= 100 AND mean_delay > 15", on="both")

app = lh.app(delays, enriched.to_topic("enriched-flights"), late.to_topic("late-manufacturers"))
