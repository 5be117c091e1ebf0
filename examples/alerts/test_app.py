"""Tests of app.py on the model, and of its webhook with a server of its own."""

import json
import threading
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from app import app, post

from lakehouse.plan.alert import StreamRecord
from lakehouse.testing import Replay


def result():
    replay = Replay(app)
    for line in Path(__file__).with_name("readings.jsonl").read_text().splitlines():
        record = json.loads(line)
        moment = int(datetime.fromisoformat(record["timestamp"]).timestamp() * 1000)
        replay.send("readings", key=record["key"], value=record["value"], timestamp=moment)
    return replay.run()


def test_each_crossing_is_one_alert():
    """14.0 after 15.5 is no crossing, and the study stays warm."""
    alerts = [
        (record["room"], record["crossing"], record["after"]["celsius"]) for record in result().topic("cold-rooms")
    ]
    assert alerts == [("cellar", "enter", 15.5), ("cellar", "leave", 16.5), ("cellar", "enter", 15.0)]


def test_the_webhook_gets_the_alert(monkeypatch):
    bodies = []

    class Webhook(BaseHTTPRequestHandler):
        def do_POST(self):
            bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *arguments):
            pass

    server = HTTPServer(("127.0.0.1", 0), Webhook)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setenv("WEBHOOK", f"http://127.0.0.1:{server.server_port}/")
    value = {"crossing": "enter", "before": {"celsius": 17.5}, "after": {"celsius": 15.5}}
    post(record_of(value))
    server.shutdown()
    server.server_close()
    thread.join()
    assert bodies == [{"id": "readings/0/2", "room": "cellar", "crossing": "enter", "celsius": 15.5}]


def test_a_webhook_that_is_away_is_an_error(monkeypatch):
    """So the run ends, and its next start calls once more: no alert is lost."""
    monkeypatch.setenv("WEBHOOK", "http://127.0.0.1:1/")
    with pytest.raises(OSError, match="refused"):
        post(record_of({"crossing": "enter", "before": None, "after": {"celsius": 15.5}}))


def record_of(value):
    return StreamRecord(
        key={"room": "cellar"}, value=value, time=datetime(2026, 1, 31, tzinfo=UTC), position="", id="readings/0/2"
    )
