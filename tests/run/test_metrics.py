"""The metrics of a run: what events and looks make of them, how they are served, and the board that shows them."""

from __future__ import annotations

import json
import re
import socket
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable
from prometheus_client.parser import text_string_to_metric_families

import lakehouse as lh
from lakehouse.errors import ConfigError
from lakehouse.lake import store
from lakehouse.lake.commit_metadata import RecordCounts
from lakehouse.lake.layout import Layout
from lakehouse.plan.app import App
from lakehouse.run.watch.event import JobEvent
from lakehouse.run.watch.lag import Lag
from lakehouse.run.watch.metrics import RunMetrics, serve_metrics
from lakehouse.run.watch.watching import watch_run
from lakehouse.semantics.record import Record
from lakehouse.settings.config import Settings, load

from ..cli.versioned import Story, visit
from ..written_bronze import write_quarantine
from ..written_commits import batch

ALERTS = Path(__file__).parents[2] / "infra" / "prometheus" / "alerts.yml"
BOARD = Path(__file__).parents[2] / "infra" / "grafana" / "lakehouse.json"


@pytest.fixture
def app() -> App:
    clicks = lh.stream("clicks", key="user string", schema="place string")
    return lh.app(clicks.latest("visits"), clicks.group_by("place").agg(n=lh.count()).table("new"))


@pytest.fixture
def story(tmp_path: Path) -> Story:
    return Story(tmp_path / "lake")


def value(metrics: RunMetrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


def look(metrics: RunMetrics, waiting: Lag | None) -> None:
    metrics.note_kafka(is_up=waiting is not None)
    if waiting is not None:
        metrics.note_lag(waiting)
    for _, _, read in metrics.parts():
        read()


def test_events_are_counted(app: App, tmp_path: Path) -> None:
    metrics = RunMetrics(app, Layout(str(tmp_path)))
    for event in (
        JobEvent("tick", 3, 20, 1.0, {"took": 0.4}),
        JobEvent("tick", 4, 5, 2.0, {"took": 3.0}),
        JobEvent("batch", 4, 50, 3.0, {"took": 0.7}),
        JobEvent("published", 4, 7, 3.0, {"topic": "rooms", "took": 0.2}),
        JobEvent("function failed", 4, 2, 3.0, {"table": "visits", "function": "map price"}),
        JobEvent("expectation unmet", 4, 3, 3.0, {"table": "visits", "expectation": "seen.positive"}),
        JobEvent("upkeep", 0, 0, 4.0, {"took": 9.0}),
        JobEvent("upkeep failed", 0, 0, 5.0),
        JobEvent("lag", 0, 5, 5.0),
    ):
        metrics.count_event(event)
    assert [value(metrics, f"lakehouse_{name}") for name in ("records_total", "ticks_total", "bronze_tick")] == [
        25,
        2,
        4,
    ]
    assert value(metrics, "lakehouse_published_records_total", topic="rooms") == 7
    assert value(metrics, "lakehouse_function_failures_total", table="visits", function="map price") == 2
    unmet = value(metrics, "lakehouse_expectation_warnings_total", table="visits", expectation="seen.positive")
    assert unmet == 3
    assert value(metrics, "lakehouse_upkeep_failures_total") == 1
    parts = {part: value(metrics, "lakehouse_batch_seconds_sum", part=part) for part in ("ingest", "tables", "publish")}
    assert parts == {"ingest": pytest.approx(3.4), "tables": 0.7, "publish": 0.2}
    assert value(metrics, "lakehouse_batch_seconds_bucket", part="ingest", le="0.5") == 1


def test_a_look_gives_the_lag_and_the_tables(app: App, story: Story) -> None:
    metrics = RunMetrics(app, story.layout)
    assert value(metrics, "lakehouse_kafka_up") is None, "nobody has asked yet"
    look(metrics, {("clicks", 0): 3, ("gone", 0): 1})
    assert value(metrics, "lakehouse_lag_records", topic="clicks", partition="0") == 3
    facts = [value(metrics, f"lakehouse_{name}", table="visits") for name in ("table_rows", "table_tick")]
    assert facts == [3, 7]
    assert value(metrics, "lakehouse_bronze_tick") == 8
    last = value(metrics, "lakehouse_last_commit_timestamp_seconds", table="visits")
    assert last == pytest.approx(story.times[-1] / 1000)
    assert value(metrics, "lakehouse_table_rows", table="new") is None, "it does not exist yet"

    look(metrics, {("clicks", 0): 0})
    assert value(metrics, "lakehouse_lag_records", topic="clicks", partition="0") == 0
    assert value(metrics, "lakehouse_lag_records", topic="gone", partition="0") is None
    assert value(metrics, "lakehouse_kafka_up") == 1
    look(metrics, None)
    assert value(metrics, "lakehouse_kafka_up") == 0
    assert value(metrics, "lakehouse_lag_records", topic="clicks", partition="0") == 0, "the last that is known"


def test_counts_of_commits_are_those_since_the_run_began(app: App, story: Story) -> None:
    metrics = RunMetrics(app, story.layout)
    content = batch(counts=RecordCounts(5, null_keys=2))
    story.visits.commit(9, {"user": "eve", "n": 1, "place": "p"}, content=content)
    look(metrics, {})
    look(metrics, {})
    counted = [value(metrics, f"lakehouse_{name}_total", table="visits") for name in ("table_records", "null_keys")]
    assert counted == [5, 2]


def test_a_commit_that_can_not_be_read_makes_no_other_count_twice(
    app: App, story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    metrics = RunMetrics(app, story.layout)
    for tick in (9, 10, 11, 12):
        story.visits.commit(tick, visit("eve", tick, tick, tick), content=batch(counts=RecordCounts(10)))
    log_lines, is_away = store.read_lines, True

    def read_lines(path: str) -> Iterator[str]:
        if is_away and path.startswith(story.visits.path) and path.endswith("08.json"):
            raise OSError("the store is away")
        return log_lines(path)

    monkeypatch.setattr(store, "read_lines", read_lines)
    for _ in range(3):
        with pytest.raises(OSError, match="away"):
            look(metrics, {})
    assert value(metrics, "lakehouse_table_records_total", table="visits") == 20
    is_away = False
    look(metrics, {})
    assert value(metrics, "lakehouse_table_records_total", table="visits") == 40


def test_every_count_that_is_known_begins_at_0(tmp_path: Path) -> None:
    """Prometheus sees no increase in a series that begins with its first failure."""
    clicks = lh.stream("clicks", key="user string", schema="place string, n bigint")
    clicks = clicks.expect("placed", "place <> ''").expect("positive", "n > 0", otherwise="warn")
    clicks = clicks.map("upper", lambda place: place, "place", type="string")
    clicks = clicks.expect("known", "upper IS NOT NULL", otherwise="warn")
    totals = clicks.group_by("place").agg(most=lh.reduce("n", max)).table("totals")
    totals = totals.expect("few", "most < 9", otherwise="warn")
    app = lh.app(totals, totals.changes().to_topic("changes"))
    metrics = RunMetrics(app, Layout(str(tmp_path)))
    counted = {
        "function_failures_total": [{"table": "totals", "function": name} for name in ("map upper", "reduce most")],
        "expectation_warnings_total": [
            {"table": "totals", "expectation": name}
            for name in ("clicks.positive", "clicks.known", "totals.few of rows")
        ],
        "expectation_refused_records": [{"stream": "clicks", "expectation": "placed"}],
        "quarantined_records": [{"stream": "clicks"}],
        "published_records_total": [{"topic": "changes"}],
        "table_records_total": [{"table": "totals"}],
        "null_keys_total": [{"table": "totals"}],
        "watch_failures_total": [{"part": part} for part in ("lag", "rules", "bronze", "table", "quarantine")],
    }
    found = {
        name: [dict(sample.labels) for family in metrics.registry.collect() for sample in family.samples
               if sample.name == f"lakehouse_{name}" and sample.value == 0]
        for name in counted
    }  # fmt: skip
    assert found == counted


def test_a_quarantine_of_an_earlier_run_is_no_new_one(app: App, story: Story) -> None:
    bad = Record("clicks", "id", 0, 9, 900, b"k", b"no json", 7, 900)
    write_quarantine(story.root, app.sources[0], [bad])
    metrics = RunMetrics(app, story.layout)
    assert value(metrics, "lakehouse_quarantined_records", stream="clicks") == 1


def test_bad_and_late_records(app: App, story: Story) -> None:
    metrics = RunMetrics(app, story.layout)
    story.bronze.late("visits", 7, ("clicks", 1, 2, "dan", None, None))
    bad = Record("clicks", "id", 0, 9, 900, b"k", b"no json", 7, 900)
    write_quarantine(story.root, app.sources[0], [bad])
    look(metrics, {})
    assert value(metrics, "lakehouse_late_records", table="visits") == 1
    assert value(metrics, "lakehouse_quarantined_records", stream="clicks") == 1


def test_records_that_an_expectation_refuses(story: Story) -> None:
    clicks = lh.stream("clicks", key="user string", schema="place string").expect("placed", "place <> ''")
    app = lh.app(clicks.latest("visits"))
    unplaced = Record("clicks", "id", 0, 9, 900, b"k", b'{"place": ""}', 7, 900)
    write_quarantine(story.root, app.sources[0], [unplaced, replace(unplaced, offset=10, value=b"no json")])
    metrics = RunMetrics(app, story.layout)
    look(metrics, {})
    assert value(metrics, "lakehouse_expectation_refused_records", stream="clicks", expectation="placed") == 1
    assert value(metrics, "lakehouse_quarantined_records", stream="clicks") == 2


def settings(root: Path, **metrics: str) -> Settings:
    environ = {f"LAKEHOUSE_METRICS_{name.upper()}": value for name, value in metrics.items()}
    return load(environ={"LAKEHOUSE_LAKE_PATH": str(root), **environ}, start=root.parent)


@pytest.fixture
def port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_port_that_is_in_use_is_told(app: App, story: Story, port: int) -> None:
    with pytest.raises(ConfigError, match=rf"metrics.port: 127.0.0.1:{port} can't be listened on: .*_METRICS_PORT"):
        serve_metrics(settings(story.root), app, port).__enter__()


def test_nothing_listens_unless_a_port_is_set(app: App, story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    of = settings(story.root)
    assert (of.metrics.port, of.metrics.host) == (None, "127.0.0.1")
    monkeypatch.setattr("lakehouse.run.watch.metrics.start_http_server", None)
    with watch_run(of, app, "127.0.0.1:9", lambda event: None):
        pass


def test_what_is_served_is_what_prometheus_reads(app: App, story: Story) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        free = server.getsockname()[1]
    address = f"http://127.0.0.1:{free}/metrics"
    with serve_metrics(settings(story.root), app, free) as metrics:
        look(metrics, {("clicks", 0): 3})
        with urllib.request.urlopen(address, timeout=5) as answer:
            families = {family.name for family in text_string_to_metric_families(answer.read().decode())}
    assert {"lakehouse_lag_records", "lakehouse_records", "lakehouse_batch_seconds"} <= families
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(address, timeout=5)


def test_a_table_is_behind_by_the_records_of_its_topics_and_since_the_first(app: App, story: Story) -> None:
    metrics, gauges = RunMetrics(app, Layout(str(story.root))), ("records", "seconds")

    def behind() -> list[float | None]:
        look(metrics, {})
        return [value(metrics, f"lakehouse_table_behind_{gauge}", table="visits") for gauge in gauges]

    assert behind() == [0, 0]  # tick 8 has records of another topic alone
    story.bronze.tick(9, ("clicks", "eve", 0, 800, "e0"), ("clicks", "fay", 1, 800, "f0"))
    story.bronze.tick(10, ("clicks", "eve", 0, 900, "e1"))
    commit_time = DeltaTable(story.layout.records).history(2)[-1]["timestamp"] / 1000
    before = time.time()
    records, seconds = behind()
    assert records == 3
    assert seconds is not None
    assert before - commit_time - 0.01 <= seconds <= time.time() - commit_time + 0.01
    story.visits.commit(10, visit("eve", 2, 10, 3))
    assert behind() == [0, 0]


def test_the_alerts_name_metrics_that_exist(app: App, tmp_path: Path) -> None:
    metrics = RunMetrics(app, Layout(str(tmp_path)))
    metrics.note_kafka(is_up=True)
    known = {family.name for family in metrics.registry.collect()}
    text = ALERTS.read_text()
    expressions = re.findall(r"^ +expr: (.+)$", text, re.MULTILINE)
    named = {re.sub("_total$", "", name) for line in expressions for name in re.findall(r"lakehouse_\w+", line)}
    assert named <= known
    assert len(expressions) == text.count("- alert: ") == text.count("summary: ") == text.count("description: ")
    assert len(expressions) == 11
    # A gauge that falls is no counter that began again; and a counter may have no series before its first failure.
    gauges = {family.name for family in metrics.registry.collect() if family.type == "gauge"}
    increases = [line for line in expressions if "increase(" in line]
    assert not {name for line in increases for name in re.findall(r"increase\((lakehouse_\w+)", line)} & gauges
    for line in increases:
        for name in re.findall(r"increase\((lakehouse_(?:function|expectation)_\w+)", line):
            assert f"or ({name} > 0 unless {name} offset 1h)" in line


def test_each_query_of_the_board_names_metrics_that_exist_and_each_metric_is_on_it(app: App, tmp_path: Path) -> None:
    metrics = RunMetrics(app, Layout(str(tmp_path)))
    metrics.note_kafka(is_up=True)
    known = {family.name for family in metrics.registry.collect() if family.name.startswith("lakehouse_")}
    board = json.loads(BOARD.read_text())
    asked = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    asked += [item["query"]["query"] for item in board["templating"]["list"] if item["type"] == "query"]
    named = {
        re.sub("_(total|bucket|sum|count)$", "", name) for text in asked for name in re.findall(r"lakehouse_\w+", text)
    }
    assert named == known
    legends = " ".join(target["legendFormat"] for panel in board["panels"] for target in panel["targets"])
    assert set(re.findall(r"{{(\w+)}}", legends)) == {
        "topic", "partition", "table", "stream", "function", "expectation", "part", "instance",
    }  # fmt: skip
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
