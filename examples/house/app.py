import lakehouse as lh

# A topic seen through a schema: its key, and its JSON values. Records that do not fit go to the quarantine.
readings = lh.stream(
    "readings",
    key="sensor string",
    schema="room string, celsius decimal(5, 2), at timestamp",
    event_time="at",
)

# The last reading of each sensor: an upsert. A record with a null value deletes the row.
last = readings.latest("last_reading")

# An aggregate per room, and its changelog as a Kafka topic of its own.
rooms = (
    readings.filter("celsius > -50").group_by("room").agg(readings=lh.count(), degrees=lh.sum("celsius")).table("rooms")
)

app = lh.app(last, rooms.changes().to_topic("rooms-changelog"))

if __name__ == "__main__":
    lake = lh.Lake("./lake")
    lake.run(app, until="caught_up")
    lake.read(rooms).sort("room").show()
    lake.changes(rooms).select("room", "readings", "degrees").show()
