"""Flights that leave: how late they were by airport and hour, the planes in the air, and who flies them.

lakehouse kafka up
lakehouse kafka produce planes planes.jsonl --partitions 1
lakehouse kafka produce flights flights.jsonl --partitions 1
lakehouse run --until caught-up
lakehouse query "SELECT * FROM delays ORDER BY window_start, origin"
"""

import lakehouse as lh

planes = lh.stream("planes", key="tailnum string", schema="model string, seats int").latest("planes")

flights = lh.stream(
    "flights",
    key="tailnum string",
    schema="origin string, dest string, departed_at timestamp, delay int",
    event_time="departed_at",
)

# A landing is a record with a null value: the plane is in the air no more.
airborne = flights.latest("airborne")

# By hour of departure; a record may come two hours late.
hours = lh.tumbling("1 hour", grace="2 hours")
delays = flights.group_by("origin").window(hours).agg(flights=lh.count(), minutes=lh.sum("delay")).table("delays")

# Each flight with its plane as it was known when the flight left.
seats = flights.join(planes, prefix="plane_").group_by("dest").agg(seats=lh.sum("plane_seats")).table("seats")

app = lh.app(airborne, delays, seats)
