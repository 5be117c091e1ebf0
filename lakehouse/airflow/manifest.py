"""Manifests: Airflow's knowledge of an application, a small JSON file for each in the applications folder.

A DAG file can't import an application (its Python has neither Spark nor lakehouse); it makes the application's DAGs
from the manifest. Tables, topics and lineage stay as they were when the application was added: add it again after a
change.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lakehouse.airflow import cron
from lakehouse.airflow.private import write_private
from lakehouse.errors import ConfigError, NotFound
from lakehouse.plan.app import App, named_window
from lakehouse.plan.lineage.graph import Graph, lineage_graph
from lakehouse.plan.table import Table
from lakehouse.settings.config import Settings

VERSION = 1
NAME = re.compile(r"[a-z][a-z0-9_]{0,40}")
FRESHNESS_MAX_MINUTES = 60 * 24 * 365


def check_app_name(name: str) -> str:
    """Return the name if it is valid in DAG ids and file names. Raises ConfigError for another name."""
    if not NAME.fullmatch(name):
        raise ConfigError(
            f"found the name {name!r}; expected a lower-case letter, then at most 40 lower-case letters, digits and _, "
            "such as shop. Give one with --name."
        )
    return name


def suggest_app_name(file: Path) -> str:
    """Return the name that a file suggests: flights.py gives flights, shop/app.py gives shop. Raises ConfigError."""
    file = file.resolve()
    plain_name = file.parent.name if file.stem in ("app", "main", "__init__") else file.stem
    return check_app_name(re.sub(r"[^a-z0-9]+", "_", plain_name.lower()).strip("_"))


@dataclass(frozen=True, slots=True)
class Schedules:
    """The schedules of an application's DAGs, as cron texts; None: by hand. freshness_minutes: until an alert, or None.

    Raises ConfigError for a schedule or minutes that can't be used.
    """

    catch_up: str | None = None
    backfill: str | None = None
    freshness_minutes: int | None = None

    def __post_init__(self) -> None:
        for option, text in (("--schedule", self.catch_up), ("--backfill-schedule", self.backfill)):
            if text is not None:
                cron.check_schedule(text, option)
        if self.freshness_minutes is not None and not 1 <= self.freshness_minutes <= FRESHNESS_MAX_MINUTES:
            raise ConfigError(f"--freshness-minutes {self.freshness_minutes}: expected 1 to {FRESHNESS_MAX_MINUTES}.")


BY_HAND = Schedules()
NO_SCHEDULE = "none"  # as an option: no longer the earlier schedule


def chosen_schedules(
    earlier: Schedules, catch_up: str | None, backfill: str | None, freshness_minutes: int | None
) -> Schedules:
    """Return the schedules that options mean: one that is left out stays, NO_SCHEDULE and 0 minutes end one.

    Raises ConfigError.
    """

    def choose(option: str | None, earlier_text: str | None) -> str | None:
        return earlier_text if option is None else None if option == NO_SCHEDULE else option

    minutes = earlier.freshness_minutes if freshness_minutes is None else freshness_minutes or None
    return Schedules(choose(catch_up, earlier.catch_up), choose(backfill, earlier.backfill), minutes)


def earlier_schedules(folder: Path, name: str) -> Schedules:
    """Return the schedules in the manifest of a name; by hand without one. Raises ConfigError."""
    for manifest in read_manifests(folder):
        if manifest["name"] == name:
            return Schedules(*(manifest.get(key) for key in ("schedule", "backfill_schedule", "freshness_minutes")))
    return BY_HAND


def manifest_of_app(
    app: App, target: str, settings: Settings, name: str, schedules: Schedules = BY_HAND
) -> dict[str, Any]:
    """Return the manifest of an application that `target` names: an absolute file, with :NAME if needed.

    Raises ConfigError for a name that can't be used.
    """
    return {
        "version": VERSION,
        "name": check_app_name(name),
        "app": target,
        "config": str(settings.source) if settings.source else None,
        "lake": settings.lake.path,
        "topics": list(app.topics),
        "streams": [source.name for source in app.sources],
        "tables": [
            {
                "name": table.name,
                "key": list(table.key),
                "windowed": named_window(table) is not None,
                "source_topics": list(table.stream.topics),
            }
            for table in app.tables
        ],
        "sinks": [
            {"table": sink.source.name, "topic": sink.topic} for sink in app.sinks if isinstance(sink.source, Table)
        ],
        "lineage": _lineage_as_json(lineage_graph(app)),
        "schedule": schedules.catch_up,
        "backfill_schedule": schedules.backfill,
        "freshness_minutes": schedules.freshness_minutes,
        "pool": pool_name(name),
    }


def _lineage_as_json(graph: Graph) -> dict[str, Any]:
    """Return the lineage: nodes {"id", "kind", "name"} and edges [from, to], in the direction of the records."""
    return {"nodes": graph.as_json()["nodes"], "edges": [[edge.start.id, edge.end.id] for edge in graph.edges]}


def pool_name(name: str) -> str:
    """Return the name of the one-slot pool that the application's writing tasks share, so that one runs at a time."""
    return f"lakehouse_{name}"


def write_manifest(folder: Path, manifest: dict[str, Any]) -> Path:
    """Write a manifest, whole or not at all, over an older one of the same application; return its file.

    Raises ConfigError if the name belongs to another application, or the application has another name already.
    """
    name, app = manifest["name"], manifest["app"]
    for other_manifest in read_manifests(folder):
        if other_manifest.get("name") == name and other_manifest.get("app") != app:
            raise ConfigError(
                f"{name} is already the application {other_manifest.get('app')}. Give another name (--name), or "
                f"`lakehouse airflow remove {name}` first."
            )
        is_same_app = all(other_manifest.get(key) == manifest[key] for key in ("app", "config", "lake"))
        if is_same_app and other_manifest.get("name") != name:
            raise ConfigError(
                f"{app} was already added as {other_manifest.get('name')}; under two names, its runs would wait for "
                f"each other. `lakehouse airflow remove {other_manifest.get('name')}` first."
            )
    manifest_file = folder / f"{name}.json"
    folder.mkdir(parents=True, exist_ok=True)
    write_private(manifest_file, json.dumps(manifest, indent=1, ensure_ascii=False) + "\n")
    return manifest_file


def remove_manifest(folder: Path, name: str) -> None:
    """Remove an application's manifest. Raises NotFound when there is none of that name."""
    manifest_file = folder / f"{check_app_name(name)}.json"
    try:
        manifest_file.unlink()
    except FileNotFoundError:
        app_names = ", ".join(str(app_manifest.get("name")) for app_manifest in read_manifests(folder)) or "none"
        raise NotFound(f"no application {name} in {folder}. There are: {app_names}.") from None


def read_manifests(folder: Path) -> list[dict[str, Any]]:
    """Return all manifests, by name. Raises ConfigError for a file that is no manifest."""
    manifests = []
    for path in sorted(folder.glob("*.json")):
        try:
            parsed_json = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            parsed_json = None
        if (
            not isinstance(parsed_json, dict)
            or parsed_json.get("version") != VERSION
            or parsed_json.get("name") != path.stem
        ):
            raise ConfigError(
                f"{path} is not a manifest of version {VERSION}; expected what `lakehouse airflow add` writes. Remove "
                "the file and add the application again."
            )
        manifests.append(parsed_json)
    return manifests
