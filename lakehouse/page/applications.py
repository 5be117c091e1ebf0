"""The applications that the page may show: one manifest each, `<name>.json` in a folder.

`lakehouse airflow add` writes them. Only what a manifest names is ever opened, so its names are checked here, once.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lakehouse.errors import ConfigError, LakehouseError, NotFound
from lakehouse.lake.layout import Layout
from lakehouse.plan.lineage.graph import KINDS
from lakehouse.plan.schema import check_name, check_topic

NAME = re.compile(r"[a-z][a-z0-9_]{0,40}")
NO_PATH = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
BYTES_MAX = 1_000_000


@dataclass(frozen=True, slots=True)
class TableOf:
    """A table of an application. key: its columns, without the window's. topics: its input topics."""

    name: str
    key: tuple[str, ...]
    windowed: bool
    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LineageNode:
    """A point of the lineage: a topic, a stream, a table, the topic of a table's changelog, or a function."""

    id: str
    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class Application:
    """An application, from its manifest. app, config: arguments of the `lakehouse` command; absolute paths."""

    name: str
    app: str
    config: str | None
    lake: str
    streams: tuple[str, ...]
    tables: tuple[TableOf, ...]
    nodes: tuple[LineageNode, ...]
    edges: tuple[tuple[str, str], ...]
    layout: Layout = field(repr=False)

    def table(self, name: str) -> TableOf:
        """Return one of its tables; NotFound for a name that its manifest does not have."""
        for table in self.tables:
            if table.name == name:
                return table
        names = ", ".join(table.name for table in self.tables) or "none"
        raise NotFound(f"application {self.name!r} has no table {name[:100]!r}; its tables are: {names}.")


def application(folder: Path, name: str) -> Application:
    """Read one manifest. NotFound for a name without one, ConfigError for an invalid one."""
    if NAME.fullmatch(name) is None:
        raise NotFound(f"application {name[:100]!r}: expected a name such as shop: a-z, 0-9 and _, at most 41 of them.")
    path = folder / f"{name}.json"
    if not path.is_file():
        raise NotFound(f"there is no application {name!r}; `lakehouse airflow add --name {name}` adds it.")
    if path.stat().st_size > BYTES_MAX:
        raise ConfigError(f"{path}: larger than {BYTES_MAX:,} bytes; expected a manifest of `lakehouse airflow add`.")
    try:
        said = json.loads(path.read_text())
        found = _application(said)
    except (LakehouseError, ValueError, KeyError, TypeError, AttributeError, RecursionError, OSError) as error:
        what = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise ConfigError(f"{path}: {what}. Write it again: `lakehouse airflow add --name {name}`.") from error
    if found.name != name:
        raise ConfigError(f"{path}: it is the manifest of {found.name!r}; expected {name!r}, the file's name.")
    return found


def applications(folder: Path) -> tuple[list[Application], list[str]]:
    """Return the applications of a folder by name, and what is wrong with the manifests that can't be read."""
    found, problems = [], []
    for path in sorted(folder.glob("*.json")):
        try:
            found.append(application(folder, path.stem))
        except LakehouseError as error:
            problems.append(str(error))
    return found, problems


def _application(said: dict[str, Any]) -> Application:
    if said["version"] != 1:
        raise ConfigError(f"found a manifest of version {said['version']!r}, expected 1")
    for name in ("app", "lake", "config"):
        if not (isinstance(said[name], str) or (name == "config" and said[name] is None)):
            raise ConfigError(f"{name}: found {said[name]!r}, expected a path")
        if said[name] is not None and NO_PATH.search(said[name]):
            raise ConfigError(f"{name}: found {said[name]!r}, expected a path without control characters")
    nodes = tuple(LineageNode(str(one["id"]), one["kind"], str(one["name"])) for one in said["lineage"]["nodes"])
    for node in nodes:
        if node.kind not in KINDS:
            raise ConfigError(f"lineage: found a node of kind {node.kind!r}, expected one of {', '.join(KINDS)}")
        if node.kind == "topic":  # only topics are opened by their names here
            check_topic(node.name)
    known = {node.id for node in nodes}
    edges = tuple((str(a), str(b)) for a, b in said["lineage"]["edges"])
    if loose := [edge for edge in edges if not known.issuperset(edge)]:
        raise ConfigError(f"lineage: an edge from {loose[0][0]!r} to {loose[0][1]!r}, one of which is not a node")
    for stream in said["streams"]:
        check_name(stream, "stream")
    return Application(
        str(said["name"]), said["app"], said["config"], said["lake"], tuple(said["streams"]),
        tuple(map(_table, said["tables"])), nodes, edges, Layout(said["lake"].rstrip("/")),
    )  # fmt: skip


def _table(said: dict[str, Any]) -> TableOf:
    check_name(said["name"], "table")
    for topic in said["source_topics"]:
        check_topic(topic)
    key, topics = tuple(map(str, said["key"])), tuple(said["source_topics"])
    return TableOf(said["name"], key, bool(said["windowed"]), topics)
