"""OpenLineage: tells a catalog the topics and tables that each table is made from, when a run begins and ends.

Each table, and each published topic, is a job of its own, so the graph is as fine as the application's. Events are
plain JSON by the specification 2-0-2; names follow OpenLineage (Naming.md). Events have no rows and no texts of errors,
since these could hold parts of records. The last event of a job says whether its topics and tables meet what is
expected of them.
"""

from __future__ import annotations

import http.client
import importlib.metadata
import json
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal
from urllib.parse import urlsplit

from lakehouse.lake.layout import Layout
from lakehouse.lake.store import is_remote
from lakehouse.plan.app import App
from lakehouse.plan.expression.schema import Column
from lakehouse.plan.stream import Stream
from lakehouse.plan.table import Table
from lakehouse.run.watch.assertions import read_assertions
from lakehouse.run.watch.event import JobEvent, Listen
from lakehouse.settings.config import Lineage, Settings

SPEC = "https://openlineage.io/spec"
RUN_EVENT = f"{SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent"
SCHEMA = f"{SPEC}/facets/1-2-0/SchemaDatasetFacet.json#/$defs/SchemaDatasetFacet"
ASSERTIONS = f"{SPEC}/facets/1-0-0/DataQualityAssertionsDatasetFacet.json#/$defs/DataQualityAssertionsDatasetFacet"
JOB_TYPE = f"{SPEC}/facets/2-0-4/JobTypeJobFacet.json#/$defs/JobTypeJobFacet"
PATIENCE_SECONDS = 5.0

Json = dict[str, Any]
State = Literal["START", "COMPLETE", "FAIL", "ABORT"]


@dataclass(frozen=True, slots=True)
class LineageJob:
    """A table, or a published topic, as a job: its inputs and its output."""

    name: str
    run_id: str
    inputs: tuple[Json, ...]
    output: Json


def lineage_jobs(settings: Settings, app: App, servers: str) -> list[LineageJob]:
    """Return the jobs of an application."""
    dataset_names = _DatasetNames(Layout(settings.lake.path), servers)
    job_entries = [(table.name, dataset_names.inputs(table.stream), dataset_names.table(table)) for table in app.tables]
    job_entries += [
        (
            f"publish.{sink.topic}",
            (dataset_names.table(sink.source),)
            if isinstance(sink.source, Table)
            else dataset_names.inputs(sink.source),
            dataset_names.topic(sink.topic),
        )
        for sink in app.sinks
    ]
    return [LineageJob(name, str(uuid.uuid4()), inputs, output) for name, inputs, output in job_entries]


def lineage_events(listed_jobs: Iterable[LineageJob], namespace: str, state: State, *, streaming: bool) -> list[Json]:
    """Return OpenLineage's event for each job. streaming: the run has no end of its own."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    job_type = {"processingType": "STREAMING" if streaming else "BATCH", "integration": "LAKEHOUSE", "jobType": "TABLE"}
    return [
        {
            "eventType": state, "eventTime": now, "producer": _producer_urn(), "schemaURL": RUN_EVENT,
            "run": {"runId": job.run_id, "facets": {}},
            "job": {"namespace": namespace, "name": job.name, "facets": {"jobType": _make_facet(JOB_TYPE, job_type)}},
            "inputs": list(job.inputs), "outputs": [job.output],
        }
        for job in listed_jobs
    ]  # fmt: skip


@contextmanager
def report_lineage(
    settings: Settings,
    app: App,
    servers: str,
    listen: Listen,
    *,
    streaming: bool,
    send: Callable[[Lineage, Json], None] | None = None,
) -> Iterator[None]:
    """Report a run to a catalog while it lasts, if `[lineage] url` is set. A catalog that fails ends no run.

    send: called for each event, to give it to the catalog; by HTTP if left out.
    """
    if settings.lineage.url is None:
        yield
        return
    reporter = _LineageReporter(
        settings.lineage, lineage_jobs(settings, app, servers), listen, send or post_event,
        partial(_quality_by_dataset, settings, app, servers), streaming=streaming,
    )  # fmt: skip
    reporter.all("START")
    try:
        yield
    except Exception:
        reporter.all("FAIL")
        raise
    except BaseException:  # somebody ended the run
        reporter.all("ABORT")
        raise
    reporter.all("COMPLETE")


def _quality_by_dataset(settings: Settings, app: App, servers: str) -> dict[tuple[str, str], Json]:
    """Return the facet of what is expected, by namespace and name of a dataset. Raises StorageError."""
    layout = Layout(settings.lake.path)
    dataset_names = _DatasetNames(layout, servers)
    assertions_by_dataset: dict[tuple[str, str], list[Json]] = {}
    for item in read_assertions(layout, app):
        dataset = dataset_names.table(app.table(item.table)) if item.table else dataset_names.topic(item.topic)
        assertions = assertions_by_dataset.setdefault((dataset["namespace"], dataset["name"]), [])
        assertions.append({"assertion": item.name, "success": item.is_met})
    return {
        place: _make_facet(ASSERTIONS, {"assertions": assertions})
        for place, assertions in assertions_by_dataset.items()
    }


def _with_quality(event: Json, quality: Mapping[tuple[str, str], Json]) -> Json:
    """Return an event with what is expected of its datasets. The specification has it for inputs alone: of an output it
    stands among the facets of the dataset itself."""
    changed_event = dict(event)
    for side, facets_name in (("inputs", "inputFacets"), ("outputs", "facets")):
        changed_event[side] = [
            dataset
            if (facet := quality.get((dataset["namespace"], dataset["name"]))) is None
            else {**dataset, facets_name: {**dataset.get(facets_name, {}), "dataQualityAssertions": facet}}
            for dataset in event[side]
        ]
    return changed_event


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: urllib would ask the new address by GET, without the event, and give it the key as well."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> None:
        raise OSError(
            f"found a redirect ({code}) to {_without_query(newurl)}; expected an address that takes events itself. Set "
            "lineage.url to it"
        )


_OPENER = urllib.request.build_opener(_NoRedirects)


def _without_query(url: str) -> str:
    """Return a URL for a message: its query may hold a key."""
    beginning, separator, _ = url.partition("?")
    return f"{beginning}{separator and '?...'}"


def post_event(catalog: Lineage, event: Json) -> None:
    """Send one event by HTTP. Raises OSError, also for an answer that is no success."""
    assert catalog.url is not None
    http_headers = {"Content-Type": "application/json"} | (
        {} if catalog.api_key is None else {"Authorization": f"Bearer {catalog.api_key}"}
    )
    request = urllib.request.Request(catalog.url, json.dumps(event).encode(), http_headers, method="POST")
    try:
        with _OPENER.open(request, timeout=PATIENCE_SECONDS):
            pass
    except http.client.HTTPException as error:  # no OSError: something that speaks no HTTP has answered
        raise OSError(f"expected an answer in HTTP: {type(error).__name__}: {error}") from error


class _LineageReporter:
    """Reports the events of a run; stops after the first failure, since a run must not wait for a catalog."""

    def __init__(
        self, catalog: Lineage, listed_jobs: list[LineageJob], listen: Listen, send: Callable[[Lineage, Json], None],
        read_quality: Callable[[], Mapping[tuple[str, str], Json]], *, streaming: bool,
    ) -> None:  # fmt: skip
        self._catalog, self._listed_jobs, self._streaming = catalog, listed_jobs, streaming
        self._listen, self._send, self._read_quality = listen, send, read_quality
        self._began, self._failed = time.monotonic(), False

    def all(self, state: State) -> None:
        quality: Mapping[tuple[str, str], Json] = {}
        if state != "START" and not self._failed:
            try:
                quality = self._read_quality()
            except Exception as error:  # whatever a damaged lake raises: the run itself has ended already
                self._tell_failure(f"what is expected could not be read: {error}")
        for event in lineage_events(self._listed_jobs, self._catalog.namespace, state, streaming=self._streaming):
            if self._failed:
                return
            try:
                self._send(self._catalog, _with_quality(event, quality))
            except (OSError, ValueError) as error:
                self._failed = True
                self._tell_failure(f"{_without_query(str(self._catalog.url))}: {error}")

    def _tell_failure(self, message: str) -> None:
        self._listen(JobEvent("lineage failed", 0, 0, time.monotonic() - self._began, {"message": message}))


class _DatasetNames:
    """Names datasets as OpenLineage does: kafka://host:port and a topic; file and a path; s3://bucket and a key."""

    def __init__(self, layout: Layout, servers: str) -> None:
        self._layout, self._servers = layout, servers

    def topic(self, name: str) -> Json:
        return {"namespace": f"kafka://{self._servers.split(',')[0]}", "name": name}

    def table(self, table: Table) -> Json:
        path = self._layout.silver(table.name)
        place = {"namespace": "file", "name": path}
        if is_remote(path):
            url = urlsplit(path)
            scheme = "s3" if url.scheme in ("s3a", "s3n") else url.scheme
            place = {"namespace": f"{scheme}://{url.netloc}", "name": url.path.lstrip("/")}
        return {
            **place,
            "facets": {"schema": _make_facet(SCHEMA, {"fields": [_schema_field(column) for column in table.columns]})},
        }

    def inputs(self, stream: Stream) -> tuple[Json, ...]:
        topics = dict.fromkeys(source.topic for source in stream.decodes)
        return (*map(self.topic, topics), *map(self.table, stream.reads))


def _schema_field(column: Column) -> Json:
    """Return a column's field of a schema, without a type that only Spark knows."""
    return {"name": column.name, **({"type": column.type} if column.type else {})}


def _make_facet(schema: str, content: Json) -> Json:
    return {"_producer": _producer_urn(), "_schemaURL": schema, **content}


def _producer_urn() -> str:
    return f"urn:lakehouse:{importlib.metadata.version('lakehouse')}"
