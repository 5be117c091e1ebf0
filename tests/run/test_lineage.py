"""What a catalog is told of a run, as OpenLineage: from which topics and tables each table is made."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

import lakehouse as lh
from lakehouse.errors import ConfigError
from lakehouse.run.watch.event import JobEvent
from lakehouse.run.watch.lineage import report_lineage
from lakehouse.semantics.record import Record
from lakehouse.settings.config import Settings, load

from ..written_bronze import write_quarantine

Json = dict[str, Any]

orders = lh.stream("orders", key="id string", schema="customer string, amount decimal(9, 2)")
people = lh.stream("people", key="id string", schema="city string").latest("customers")
totals = orders.group_by("customer").agg(total=lh.sum("amount")).table("totals")
joined = orders.join(people, on="customer", how="left").latest("placed")
APP = lh.app(totals, joined, totals.changes().to_topic("totals-changelog"), orders.to_topic("orders-copy"))


def settings(lake: str, **more: str) -> Settings:
    lineage = {f"LAKEHOUSE_LINEAGE_{name.upper()}": value for name, value in more.items()}
    return load(environ={"LAKEHOUSE_LAKE_PATH": lake, **lineage}, start=Path("/"))


class Told:
    """The events that a run sends, and what it says to its listener."""

    def __init__(self, fails: Exception | None = None) -> None:
        self.events: list[Json] = []
        self.heard: list[JobEvent] = []
        self._fails = fails

    def run(self, work: Callable[[], object] = lambda: None, lake: str = "/srv/lake") -> None:
        of = settings(lake, url="http://catalog/api/v1/lineage", namespace="shop")
        with report_lineage(of, APP, "one:9092,two:9092", self.heard.append, streaming=False, send=self._send):
            work()

    def _send(self, to: Any, event: Json) -> None:
        self.events.append(json.loads(json.dumps(event)))
        if self._fails is not None:
            raise self._fails

    def of(self, name: str) -> list[Json]:
        return [event for event in self.events if event["job"]["name"] == name]


def places(datasets: list[Json]) -> list[str]:
    return [f"{item['namespace']} {item['name']}" for item in datasets]


def test_each_table_and_each_published_topic_is_a_job_with_what_it_is_made_from() -> None:
    told = Told()
    told.run()
    edges = {event["job"]["name"]: (places(event["inputs"]), places(event["outputs"])) for event in told.events}
    kafka, lake = "kafka://one:9092", "file /srv/lake/silver"
    assert edges == {
        "totals": ([f"{kafka} orders"], [f"{lake}/totals"]),
        "customers": ([f"{kafka} people"], [f"{lake}/customers"]),
        "placed": ([f"{kafka} orders", f"{lake}/customers"], [f"{lake}/placed"]),
        "publish.totals-changelog": ([f"{lake}/totals"], [f"{kafka} totals-changelog"]),
        "publish.orders-copy": ([f"{kafka} orders"], [f"{kafka} orders-copy"]),
    }
    (out,) = told.of("totals")[0]["outputs"]
    assert out["facets"]["schema"]["fields"] == [
        {"name": "customer", "type": "string"}, {"name": "total", "type": "decimal(19, 2)"},
    ]  # fmt: skip


def test_an_event_has_what_the_specification_asks_for() -> None:
    told = Told()
    told.run()
    start, end = told.of("totals")
    assert (start["eventType"], end["eventType"]) == ("START", "COMPLETE")
    assert start["run"]["runId"] == end["run"]["runId"]
    assert start["job"]["namespace"] == "shop"
    assert start["job"]["facets"]["jobType"]["processingType"] == "BATCH"
    for event in told.events:
        assert event["schemaURL"].startswith("https://openlineage.io/spec/2-0-2/")
        assert event["producer"].startswith("urn:lakehouse:")
        assert event["eventTime"].endswith("Z")


@pytest.mark.parametrize(("error", "state"), [(ValueError("a record"), "FAIL"), (SystemExit(143), "ABORT")])
def test_a_run_that_fails_or_is_ended_says_so_and_nothing_of_its_error(error: BaseException, state: str) -> None:
    def work() -> None:
        raise error

    told = Told()
    with pytest.raises(type(error)):
        told.run(work)
    assert {event["eventType"] for event in told.events} == {"START", state}
    assert "a record" not in json.dumps(told.events)


def test_a_catalog_that_does_not_answer_ends_no_run_and_is_not_asked_again() -> None:
    done: list[bool] = []
    told = Told(OSError("refused"))
    told.run(lambda: done.append(True))
    assert (done, len(told.events)) == ([True], 1)
    (heard,) = told.heard
    assert (heard.kind, heard.details) == (
        "lineage failed", {"message": "http://catalog/api/v1/lineage: refused"},
    )  # fmt: skip


def test_a_lake_on_an_object_store_has_its_name() -> None:
    told = Told()
    told.run(lake="s3a://bucket/deep/lake")
    assert places(told.of("totals")[0]["outputs"]) == ["s3://bucket deep/lake/silver/totals"]


def test_the_last_event_says_whether_expectations_are_met(tmp_path: Path) -> None:
    """Of an input beside it, of a table itself in its own facets; with names alone, no values of records."""
    judged = orders.expect("positive", "amount > 0").expect("named", "customer <> ''", otherwise="warn")
    totals_judged = judged.group_by("customer").agg(total=lh.sum("amount")).table("totals").expect("few", "total < 9")
    app = lh.app(totals_judged, totals_judged.changes().to_topic("totals-changelog"))
    events: list[Json] = []

    def report(*, lake: Path = tmp_path) -> None:
        events.clear()
        of = settings(str(lake), url="http://catalog/")
        with report_lineage(
            of, app, "one:9092", heard.append, streaming=False, send=lambda to, event: events.append(event)
        ):
            pass

    def quality(event: Json, side: str, facets: str) -> list[tuple[str, bool]]:
        (dataset,) = event[side]
        facet = dataset.get(facets, {}).get("dataQualityAssertions", {"assertions": []})
        return [(item["assertion"], item["success"]) for item in facet["assertions"]]

    heard: list[JobEvent] = []
    report()
    start, _, end, publish_end = events
    assert quality(start, "inputs", "inputFacets") == []
    assert quality(end, "inputs", "inputFacets") == [("orders.positive", True), ("orders.named", True)]
    bad = Record("orders", "id", 0, 9, 900, b'"k"', b'{"customer": "secret", "amount": -7654321}', 7, 900)
    write_quarantine(tmp_path, app.sources[0], [bad])
    report()
    _, _, end, publish_end = events
    assert quality(end, "inputs", "inputFacets") == [("orders.positive", False), ("orders.named", True)]
    assert quality(end, "outputs", "facets") == quality(publish_end, "inputs", "inputFacets") == [("totals.few", True)]
    assert "schema" in end["outputs"][0]["facets"]
    assert "7654321" not in json.dumps(events)
    assert heard == []
    (tmp_path / "quarantine" / "orders" / "_delta_log" / "00000000000000000000.json").write_text("{")
    report()
    assert [event["eventType"] for event in events] == ["START", "START", "COMPLETE", "COMPLETE"]
    assert [event.kind for event in heard] == ["lineage failed"], "what can't be read ends no run"


@pytest.fixture
def catalog() -> Iterator[tuple[str, list[tuple[str | None, Json]]]]:
    got: list[tuple[str | None, Json]] = []

    class Answer(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            got.append((self.headers["Authorization"], json.loads(body)))
            self.send_response(201)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/api/v1/lineage", got
    server.shutdown()
    server.server_close()
    thread.join()


def test_events_are_sent_by_http_with_the_key(catalog: tuple[str, list[tuple[str | None, Json]]]) -> None:
    url, got = catalog
    of = settings("/srv/lake", url=url, api_key="s3cret")
    assert "s3cret" not in repr(of)
    with report_lineage(of, lh.app(totals), "one:9092", lambda event: None, streaming=True):
        pass
    assert [(key, event["eventType"], event["job"]["facets"]["jobType"]["processingType"]) for key, event in got] == [
        ("Bearer s3cret", "START", "STREAMING"), ("Bearer s3cret", "COMPLETE", "STREAMING"),
    ]  # fmt: skip


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed_and_gets_no_key(
    catalog: tuple[str, list[tuple[str | None, Json]]], code: int
) -> None:
    """By a GET the event would be lost, in silence."""
    url, got = catalog
    asked: list[str] = []

    class Redirect(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(self.path)
            self.send_response(code)
            self.send_header("Location", f"{url}?token=t0ken")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    heard: list[JobEvent] = []
    with HTTPServer(("127.0.0.1", 0), Redirect) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        address = f"http://127.0.0.1:{server.server_port}/lineage"
        of = settings("/srv/lake", url=f"{address}?key=s3cret", api_key="bearer")
        with report_lineage(of, lh.app(totals), "one:9092", heard.append, streaming=True):
            pass
        server.shutdown()
        thread.join()
    assert (got, asked) == ([], ["/lineage?key=s3cret"])
    (failed,) = heard
    assert failed.details["message"] == (
        f"{address}?...: found a redirect ({code}) to {url}?...; expected an address that takes events itself. Set "
        "lineage.url to it"
    )


@pytest.mark.parametrize(
    "answer", [b"220 smtp.example ready\r\n", b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 200],
    ids=["a server of mail", "too many headers"],
)  # fmt: skip
def test_what_is_no_catalog_ends_no_run(answer: bytes) -> None:
    heard: list[JobEvent] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        of = settings("/srv/lake", url=f"http://127.0.0.1:{server.getsockname()[1]}/")
        with report_lineage(of, APP, "one:9092", heard.append, streaming=False):
            pass
        thread.join()
    assert [event.kind for event in heard] == ["lineage failed"]


@pytest.mark.parametrize(
    "wrong", [{"url": "ftp://x"}, {"url": "http://user:pass@host/"}, {"url": "file:///etc"}, {"api_key": "two words"}]
)
def test_a_wrong_setting_is_refused_without_its_value(wrong: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"LAKEHOUSE_LINEAGE_.*: expected") as error:
        settings("/srv/lake", **wrong)
    assert next(iter(wrong.values())) not in str(error.value)


def test_without_an_address_nothing_is_told() -> None:
    with report_lineage(settings("/srv/lake"), APP, "one:9092", lambda event: None, streaming=True, send=None):
        pass
