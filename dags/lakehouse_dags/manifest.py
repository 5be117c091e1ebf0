"""An application's facts when its DAGs are parsed: a small JSON file that `lakehouse airflow add` writes.

The file is read again and again, by a process that must not import the application. It is checked as if a stranger had
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
    """A manifest is invalid; the message says what it has, what was expected, what to do."""


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

    def where(self) -> dict[str, str | None]:
        """Return what an operator needs to start a command for it, as JSON values."""
        return {"name": self.name, "app": self.app, "config": self.config, "lake": self.lake}


def applications(environ: Mapping[str, str] = os.environ) -> tuple[list[Application], dict[str, str]]:
    """Return the applications of the folder in LAKEHOUSE_APPLICATIONS, and what is wrong with each refused file."""
    folder = environ.get(FOLDER)
    found: list[Application] = []
    refused: dict[str, str] = {}
    for path in sorted(Path(folder).glob("*.json")) if folder else ():
        try:
            found.append(read(path))
        except Refused as error:
            refused[path.name] = str(error)
    return found, refused


def read(path: Path) -> Application:
    """Return the application that a manifest describes. Raises Refused."""
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise Refused(f"{path.name}: can't be read as JSON: {error}. Write it again: lakehouse airflow add.") from None
    if not isinstance(said, dict) or said.get("version") != VERSION:
        found = said.get("version") if isinstance(said, dict) else type(said).__name__
        raise Refused(
            f"{path.name}: found version {found!r}, expected {VERSION}. Write it again: lakehouse airflow add."
        )
    check = _Check(path.name, said)
    name = check.text("name", APPLICATION)
    if path.stem != name:
        raise Refused(f"{path.name}: found the name {name!r}, expected the file's own. Rename the file to {name}.json.")
    return Application(
        name=name,
        app=check.path("app"),
        config=check.path("config") if said.get("config") is not None else None,
        lake=check.lake(),
        topics=check.names("topics", TOPIC),
        streams=check.names("streams", NAME),
        tables=check.tables(),
        schedule=check.cron("schedule"),
        backfill_schedule=check.cron("backfill_schedule"),
        freshness_minutes=check.minutes(),
        pool=check.text("pool", r"^[A-Za-z0-9_.-]{1,200}" + END) if said.get("pool") is not None else None,
    )


class _Check:
    """The fields of one manifest, each checked."""

    def __init__(self, file: str, said: Mapping[str, Any]) -> None:
        self._file = file
        self._said = said

    def _refuse(self, field: str, value: object, expected: str) -> Refused:
        return Refused(
            f"{self._file}: {field} is {value!r:.200}, expected {expected}. Write it again: lakehouse airflow add."
        )

    def text(self, field: str, pattern: str) -> str:
        value = self._said.get(field)
        if not isinstance(value, str) or not re.match(pattern, value):
            raise self._refuse(field, value, f"a text that matches {pattern}")
        return value

    def path(self, field: str) -> str:
        value = self._said.get(field)
        if not isinstance(value, str) or not value.startswith("/") or CONTROL.search(value) or len(value) > 4000:
            raise self._refuse(field, value, "an absolute path")
        return value

    def lake(self) -> str:
        value = self._said.get("lake")
        if isinstance(value, str) and re.match(r"^[a-z][a-z0-9]*://[^\x00-\x20\x7f]+" + END, value):
            return value
        return self.path("lake")

    def names(self, field: str, pattern: str) -> tuple[str, ...]:
        values = self._said.get(field)
        if not isinstance(values, list):
            raise self._refuse(field, values, "a list of names")
        for value in values:
            if not isinstance(value, str) or not re.match(pattern, value):
                raise self._refuse(field, value, f"names that match {pattern}")
        return tuple(dict.fromkeys(values))

    def tables(self) -> tuple[str, ...]:
        values = self._said.get("tables")
        if not isinstance(values, list) or not values or not all(isinstance(one, dict) for one in values):
            raise self._refuse("tables", values, 'a list of at least one object such as {"name": "totals"}')
        return _Check(self._file, {"tables": [one.get("name") for one in values]}).names("tables", NAME)

    def cron(self, field: str) -> str | None:
        value = self._said.get(field)
        # Airflow decides whether it is valid: `common.check_schedules`.
        if value is not None and (not isinstance(value, str) or not value or CONTROL.search(value)):
            raise self._refuse(field, value, "a cron text, a preset such as @hourly, or null")
        return value

    def minutes(self) -> int | None:
        value = self._said.get("freshness_minutes")
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 1_000_000):
            raise self._refuse("freshness_minutes", value, "a whole number of minutes, or null")
        return value
