"""Rooms that grow cold: an alert for each crossing, to a topic and to a webhook.

lakehouse kafka up
lakehouse kafka produce readings readings.jsonl --partitions 1
lakehouse run --until caught-up
lakehouse kafka consume cold-rooms --limit 3
"""

import json
import os
import urllib.request

import lakehouse as lh

readings = lh.stream("readings", key="sensor string", schema="room string, celsius double")
rooms = readings.group_by("room").agg(celsius=lh.latest("celsius"), coldest=lh.min("celsius")).table("rooms")

cold = rooms.alert("cold", "celsius < 16", on="both")


def post(alert: lh.StreamRecord) -> None:
    """Send an alert to a webhook; one that does not answer ends the run, and the next start sends it again."""
    url = os.environ.get("WEBHOOK")
    if url is None:
        print(alert.key["room"], alert.value["crossing"])
        return
    crossing, after = alert.value["crossing"], alert.value["after"]
    message = {"id": alert.id, "room": alert.key["room"], "crossing": crossing, "celsius": after and after["celsius"]}
    request = urllib.request.Request(url, json.dumps(message).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=10):
        pass


app = lh.app(rooms, cold.to_topic("cold-rooms"), cold.to_function("post", post))
