import lakehouse as lh

flights = lh.stream(
    "flights",
    key="tailnum string",
    schema="carrier string, origin string, dest string, departed_at timestamp, delay int, distance int",
    event_time="departed_at",
)

# The topic as a table: the last departure of each plane. The greatest departed_at counts, whatever comes last.
location = flights.latest("location", order_by="departed_at")

planes = lh.stream("planes", key="tailnum string", schema="model string, seats int, built int").latest("planes")

# By airport and hour of departure. A flight may be reported two hours late.
hour = lh.tumbling("1 hour", grace="2 hours")
delays = flights.group_by("origin").window(hour).agg(flights=lh.count(), minutes=lh.avg("delay")).table("delays")

# Each flight with its plane, and then the seats that left, by airport.
manned = flights.join(planes, prefix="plane_")
seats = manned.group_by("origin").agg(flights=lh.count(), seats=lh.sum("plane_seats")).table("seats")

app = lh.app(location, planes, delays, seats)
