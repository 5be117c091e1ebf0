"""The applications that the page may show: one manifest each, `<name>.json` in a folder.

`lakehouse airflow add` writes them. The page opens only the names of a manifest, so this module checks them, once.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lakehouse.errors import ConfigError, LakehouseError, NotFound
from lakehouse.lake.layout import Layout
from lakehouse.plan.expression.schema import check_name, check_topic
from lakehouse.plan.lineage.graph import KINDS

NAME = re.compile(r"[a-z][a-z0-9_]{0,40}")
NO_PATH = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
BYTES_MAX = 1_000_000


@dataclass(frozen=True, slots=True)
class TableInfo:
    """A table of an application. key: its columns, without the window's. topics: its input topics."""

    name: str
    key: tuple[str, ...]
    windowed: bool
    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LineageNode:
    """A node of the lineage: a topic, a stream, a table, the topic of a table's changelog, or a function."""

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
    tables: tuple[TableInfo, ...]
    nodes: tuple[LineageNode, ...]
    edges: tuple[tuple[str, str], ...]
    layout: Layout = field(repr=False)

    def table(self, name: str) -> TableInfo:
        """Return one of its tables. Raises NotFound for a name that its manifest does not have."""
        for table in self.tables:
            if table.name == name:
                return table
        names = ", ".join(table.name for table in self.tables) or "none"
        raise NotFound(f"application {self.name!r} has no table {name[:100]!r}; its tables are: {names}.")

    def topic(self, name: str) -> str:
        """Return the name of a topic that it reads or writes. Raises NotFound for another one."""
        topic_names = sorted({node.name for node in self.nodes if node.kind in ("topic", "changelog")})
        if name not in topic_names:
            raise NotFound(
                f"application {self.name!r} has no topic {name[:100]!r}; its topics are: "
                f"{', '.join(topic_names) or 'none'}."
            )
        return name


def read_application(folder: Path, name: str) -> Application:
    """Read the manifest of a name. Raises NotFound if there is none, ConfigError if it is invalid."""
    if NAME.fullmatch(name) is None:
        raise NotFound(f"application {name[:100]!r}: expected a name such as shop: a-z, 0-9 and _, at most 41 of them.")
    manifest_path = folder / f"{name}.json"
    if not manifest_path.is_file():
        raise NotFound(f"there is no application {name!r}; `lakehouse airflow add --name {name}` adds it.")
    if manifest_path.stat().st_size > BYTES_MAX:
        raise ConfigError(
            f"{manifest_path}: larger than {BYTES_MAX:,} bytes; expected a manifest of `lakehouse airflow add`."
        )
    try:
        manifest_json = json.loads(manifest_path.read_text())
        parsed_app = _parse_application(manifest_json)
    except (LakehouseError, ValueError, KeyError, TypeError, AttributeError, RecursionError, OSError) as error:
        error_text = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise ConfigError(
            f"{manifest_path}: {error_text}. Write it again: `lakehouse airflow add --name {name}`."
        ) from error
    if parsed_app.name != name:
        raise ConfigError(
            f"{manifest_path}: it is the manifest of {parsed_app.name!r}; expected {name!r}, the file's name."
        )
    return parsed_app


def read_applications(folder: Path) -> tuple[list[Application], dict[str, str]]:
    """Return the applications of a folder by name, and by name the errors of the manifests that can't be read."""
    valid_apps, problems = [], {}
    for path in sorted(folder.glob("*.json")):
        try:
            valid_apps.append(read_application(folder, path.stem))
        except LakehouseError as error:
            problems[path.stem] = str(error)
    return valid_apps, problems


def _parse_application(manifest: dict[str, Any]) -> Application:
    if manifest["version"] != 1:
        raise ConfigError(f"found a manifest of version {manifest['version']!r}, expected 1")
    for name in ("app", "lake", "config"):
        if not (isinstance(manifest[name], str) or (name == "config" and manifest[name] is None)):
            raise ConfigError(f"{name}: found {manifest[name]!r}, expected a path")
        if manifest[name] is not None and NO_PATH.search(manifest[name]):
            raise ConfigError(f"{name}: found {manifest[name]!r}, expected a path without control characters")
    lineage_nodes = tuple(
        LineageNode(str(node_entry["id"]), node_entry["kind"], str(node_entry["name"]))
        for node_entry in manifest["lineage"]["nodes"]
    )
    for lineage_node in lineage_nodes:
        if lineage_node.kind not in KINDS:
            raise ConfigError(
                f"lineage: found a node of kind {lineage_node.kind!r}, expected one of {', '.join(KINDS)}"
            )
        if lineage_node.kind == "topic":  # the page opens only topics by their names here
            check_topic(lineage_node.name)
    node_ids = {lineage_node.id for lineage_node in lineage_nodes}
    lineage_edges = tuple((str(start_id), str(end_id)) for start_id, end_id in manifest["lineage"]["edges"])
    if loose_edges := [lineage_edge for lineage_edge in lineage_edges if not node_ids.issuperset(lineage_edge)]:
        raise ConfigError(
            f"lineage: an edge from {loose_edges[0][0]!r} to {loose_edges[0][1]!r}, one of which is not a node"
        )
    for stream in manifest["streams"]:
        check_name(stream, "stream")
    return Application(
        str(manifest["name"]),
        manifest["app"],
        manifest["config"],
        manifest["lake"],
        tuple(manifest["streams"]),
        tuple(map(_parse_table, manifest["tables"])),
        lineage_nodes,
        lineage_edges,
        Layout(manifest["lake"].rstrip("/")),
    )


def _parse_table(table_entry: dict[str, Any]) -> TableInfo:
    check_name(table_entry["name"], "table")
    for topic in table_entry["source_topics"]:
        check_topic(topic)
    key_columns, topics = tuple(map(str, table_entry["key"])), tuple(table_entry["source_topics"])
    return TableInfo(table_entry["name"], key_columns, bool(table_entry["windowed"]), topics)
