"""Windows over the flights: the questions of an airport's screens and an airline's planners to the ``flights`` topic.

    delays         per airport and hour: how many flights left, their mean delay and the largest
    final_delays   the same; a row appears once, when its hour is over
    rotations      per plane: a series of departures from New York with at most 8 hours between them
    moving         per airport, every hour: the mean delay of the last 6 hours
    bursts         per airport: flights that left an hour or more behind schedule, within any 2 hours
    destinations   per airport and day (UTC): flights by destination, the three most flown to, the three worst delays
    schedule       per airport and scheduled hour: how many of its flights have left

Cancelled flights are left out everywhere. Delays are minutes; a flight that left early has a negative one.

Two times, and how grace depends on them. A record's timestamp is the departure, and the topic is in that order, so by
departure nothing comes late: a grace of 0 loses no flight, and closes a window as soon as it is over. By
``scheduled_at`` the topic is out of order, by as much as flights are delayed. An hour of the schedule is kept open for
two hours; a flight that leaves later than that is late for it, and listed by ``lakehouse look late schedule``.
"""

from __future__ import annotations

import lakehouse as lh

IN_ORDER = "0 seconds"
SCHEMA = "origin string, dest string, dep_delay double, distance int, scheduled_at timestamp, cancelled boolean"

# Own names, so that this application and `examples/year_of_flights/app.py` can keep tables in one lake.
by_departure = lh.stream("flights", key="tailnum string", schema=SCHEMA, name="departures")
by_schedule = lh.stream("flights", key="tailnum string", schema=SCHEMA, name="schedules", event_time="scheduled_at")

left = by_departure.filter("NOT cancelled")
left_by_schedule = by_schedule.filter("NOT cancelled")


def counted(so_far: dict[str, int], dest: str | None) -> dict[str, int]:
    """Count one more flight to a destination."""
    return so_far if dest is None else {**so_far, dest: so_far.get(dest, 0) + 1}


def three_largest(flights: dict[str, int]) -> list[str]:
    """Return the destinations with the most flights; of equal ones the first in the alphabet."""
    return sorted(flights, key=lambda dest: (-flights[dest], dest))[:3]


per_hour = (
    left.group_by("origin")
    .window(lh.tumbling("1 hour", grace=IN_ORDER))
    .agg(flights=lh.count(), mean_delay=lh.avg("dep_delay"), max_delay=lh.max("dep_delay"))
)
delays = per_hour.table("delays")
final_delays = per_hour.table("final_delays", emit="final")

# 8 hours: there and back again on the east coast takes 3 to 7 from one departure to the next; a night takes longer.
rotations = (
    left.group_by("tailnum")
    .window(lh.session("8 hours", grace=IN_ORDER))
    .agg(flights=lh.count(), origin=lh.earliest("origin"), dest=lh.latest("dest"), miles=lh.sum("distance"))
    .table("rotations")
)

moving = (
    left.group_by("origin")
    .window(lh.hopping("6 hours", "1 hour", grace=IN_ORDER))
    .agg(flights=lh.count(), mean_delay=lh.avg("dep_delay"))
    .table("moving")
)

# A sliding window would make two rows of every flight, and each flight would count in dozens: one in twelve is enough.
bursts = (
    left.filter("dep_delay >= 60")
    .group_by("origin")
    .window(lh.sliding("2 hours", grace=IN_ORDER))
    .agg(flights=lh.count(), mean_delay=lh.avg("dep_delay"))
    .table("bursts")
)

destinations = (
    left.group_by("origin")
    .window(lh.tumbling("1 day", grace=IN_ORDER))
    .agg(
        flights=lh.histogram("dest"),
        top=lh.aggregate(
            "dest", zero={}, add=counted, accumulator="map<string, bigint>", result=three_largest,
            returns="array<string>",
        ),
        different=lh.count_distinct("dest"),
        worst=lh.top_k("dep_delay", 3),
        spread=lh.stddev("dep_delay"),
    )
    .table("destinations")
)  # fmt: skip

schedule = (
    left_by_schedule.group_by("origin")
    .window(lh.tumbling("1 hour", grace="2 hours"))
    .agg(flights=lh.count(), mean_delay=lh.avg("dep_delay"))
    .table("schedule")
)

app = lh.app(delays, final_delays, rotations, moving, bursts, destinations, schedule)
