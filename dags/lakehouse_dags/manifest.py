"""An application's facts when its DAGs are parsed: a small JSON file that `lakehouse airflow add` writes.

A process that must not import the application reads the file again and again. It checks the file as if a stranger had
written it: names become DAG ids and arguments, paths become arguments.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

VERSION = 1
FOLDER = "LAKEHOUSE_APPLICATIONS"
# Python's $ also matches before a last newline, JavaScript's (the form in the UI) doesn't: this means the same to both.
END = r"$(?!\n)"
APPLICATION = rf"^[a-z][a-z0-9_]{{0,40}}{END}"
NAME = rf"^[A-Za-z][A-Za-z0-9_]{{0,62}}{END}"
TOPIC = rf"^[A-Za-z0-9._-]{{1,249}}{END}"
CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class Refused(Exception):
    """A manifest is invalid; the message says what lakehouse found, what it expected and what to do."""


@dataclass(frozen=True)
class Application:
    """An application, from its manifest.

    app: for `--app`, absolute. config: its lakehouse.toml, or None for the defaults. pool: an Airflow pool that
    its writing tasks take a slot of; None for Airflow's default one.
    """

    name: str
    app: str
    config: str | None
    lake: str
    topics: tuple[str, ...]
    streams: tuple[str, ...]
    tables: tuple[str, ...]
    schedule: str | None = None
    backfill_schedule: str | None = None
    freshness_minutes: int | None = None
    pool: str | None = None

    def as_facts(self) -> dict[str, str | None]:
        """Return the facts that an operator needs to start a command for the application, as JSON values."""
        return {"name": self.name, "app": self.app, "config": self.config, "lake": self.lake}


def read_applications(environ: Mapping[str, str] = os.environ) -> tuple[list[Application], dict[str, str]]:
    """Return the applications of the folder in LAKEHOUSE_APPLICATIONS, and the fault of each refused file."""
    folder = environ.get(FOLDER)
    apps: list[Application] = []
    refused: dict[str, str] = {}
    for path in sorted(Path(folder).glob("*.json")) if folder else ():
        try:
            apps.append(read_manifest(path))
        except Refused as error:
            refused[path.name] = str(error)
    return apps, refused


def read_manifest(path: Path) -> Application:
    """Return the application that a manifest describes. Raises Refused."""
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise Refused(f"{path.name}: can't be read as JSON: {error}. Write it again: lakehouse airflow add.") from None
    if not isinstance(manifest, dict) or manifest.get("version") != VERSION:
        found_version = manifest.get("version") if isinstance(manifest, dict) else type(manifest).__name__
        raise Refused(
            f"{path.name}: found version {found_version!r}, expected {VERSION}. Write it again: lakehouse airflow add."
        )
    fields = _ManifestFields(path.name, manifest)
    name = fields.text("name", APPLICATION)
    if path.stem != name:
        raise Refused(f"{path.name}: found the name {name!r}, expected the file's own. Rename the file to {name}.json.")
    return Application(
        name=name,
        app=fields.path("app"),
        config=fields.path("config") if manifest.get("config") is not None else None,
        lake=fields.lake(),
        topics=fields.names("topics", TOPIC),
        streams=fields.names("streams", NAME),
        tables=fields.tables(),
        schedule=fields.cron("schedule"),
        backfill_schedule=fields.cron("backfill_schedule"),
        freshness_minutes=fields.minutes(),
        pool=fields.text("pool", r"^[A-Za-z0-9_.-]{1,200}" + END) if manifest.get("pool") is not None else None,
    )


class _ManifestFields:
    """The fields of one manifest, each checked."""

    def __init__(self, file: str, values: Mapping[str, Any]) -> None:
        self._file = file
        self._values = values

    def _refusal(self, field: str, value: object, expected: str) -> Refused:
        return Refused(
            f"{self._file}: {field} is {value!r:.200}, expected {expected}. Write it again: lakehouse airflow add."
        )

    def text(self, field: str, pattern: str) -> str:
        value = self._values.get(field)
        if not isinstance(value, str) or not re.match(pattern, value):
            raise self._refusal(field, value, f"a text that matches {pattern}")
        return value

    def path(self, field: str) -> str:
        value = self._values.get(field)
        if not isinstance(value, str) or not value.startswith("/") or CONTROL.search(value) or len(value) > 4000:
            raise self._refusal(field, value, "an absolute path")
        return value

    def lake(self) -> str:
        value = self._values.get("lake")
        if isinstance(value, str) and re.match(r"^[a-z][a-z0-9]*://[^\x00-\x20\x7f]+" + END, value):
            return value
        return self.path("lake")

    def names(self, field: str, pattern: str) -> tuple[str, ...]:
        values = self._values.get(field)
        if not isinstance(values, list):
            raise self._refusal(field, values, "a list of names")
        for value in values:
            if not isinstance(value, str) or not re.match(pattern, value):
                raise self._refusal(field, value, f"names that match {pattern}")
        return tuple(dict.fromkeys(values))

    def tables(self) -> tuple[str, ...]:
        values = self._values.get("tables")
        if not isinstance(values, list) or not values or not all(isinstance(entry, dict) for entry in values):
            raise self._refusal("tables", values, 'a list of at least one object such as {"name": "totals"}')
        return _ManifestFields(self._file, {"tables": [entry.get("name") for entry in values]}).names("tables", NAME)

    def cron(self, field: str) -> str | None:
        value = self._values.get(field)
        # Airflow decides whether it is valid: `common.check_schedules`.
        if value is not None and (not isinstance(value, str) or not value or CONTROL.search(value)):
            raise self._refusal(field, value, "a cron text, a preset such as @hourly, or null")
        return value

    def minutes(self) -> int | None:
        value = self._values.get("freshness_minutes")
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 1_000_000):
            raise self._refusal("freshness_minutes", value, "a whole number of minutes, or null")
        return value
