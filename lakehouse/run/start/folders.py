"""Checks folders before Spark starts: is there a lake, does it have the table, may this user write there?"""

from __future__ import annotations

import getpass
import tempfile
from pathlib import Path

from lakehouse.errors import ConfigError, NoLake, NotFound
from lakehouse.lake import reader, store
from lakehouse.lake.layout import Layout
from lakehouse.lake.store import is_remote
from lakehouse.plan.refused.near import suggest_near
from lakehouse.settings.config import Settings

# A lake has at least one of these folders.
LAYERS = ("bronze", "silver", "state", "late", "quarantine", "interventions", "anchors", "beside", "control")


def make_writable(settings: Settings) -> None:
    """Make the lake's folder and that of the embedded Kafka. Raises ConfigError if one of them can't be written."""
    if not is_remote(settings.lake.path):
        _make_writable(Path(settings.lake.path), "lake", "lake.path in lakehouse.toml, or --lake")
    if settings.kafka.bootstrap_servers is None:
        _make_writable(Path(settings.kafka.folder), "the embedded Kafka's folder", "kafka.folder in lakehouse.toml")


def check_lake(root: str, *, named: bool) -> None:
    """Raise NoLake for a folder with something else than a lake; and for a missing folder, if it was named.

    named: on the command line. The lake of the settings may be one that the first run has yet to make.
    """
    path = Path(root)
    if store.is_remote(root):
        if named and not set(LAYERS) & set(store.folder_names(root)):
            raise NoLake(f"{root} is no lake: nothing is there. Name a lake with --lake; `lakehouse run` makes one.")
        return
    if any((path / layer).is_dir() for layer in LAYERS):
        return
    if path.is_dir() and any(path.iterdir()):
        raise NoLake(
            f"{root} is no lake: it has neither bronze nor silver, nor another folder of one. Name a lake with --lake."
        )
    if path.exists() and not path.is_dir():
        raise NoLake(f"{root} is no lake: it is a file. Name a lake's folder with --lake.")
    if named:
        reason = "it is empty" if path.exists() else "there is no such folder"
        raise NoLake(f"{root} is no lake: {reason}. Name a lake with --lake; `lakehouse run` makes one.")


def check_table(layout: Layout, name: str) -> None:
    """Raise NotFound if a lake does not have a keyed table."""
    if store.is_table(layout.silver(name)):
        return
    check_lake(layout.root, named=False)
    table_names = reader.table_names(layout, "silver")
    existing_tables = f"It has: {', '.join(table_names)}. " if table_names else ""
    raise NotFound(
        f"table {name!r} does not exist in {layout.root}.{suggest_near(name, table_names)} {existing_tables}"
        "Run its application; it is built from bronze."
    )


def _make_writable(folder: Path, label: str, setting: str) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        reason = "it is a file" if folder.is_file() else error.strerror
        raise ConfigError(
            f"{label} {folder} can't be written by user {_user_name()}: {reason}. Change its owner or its mode, or "
            f"name another folder: {setting}."
        ) from error


def _user_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a number without a name, as in containers
        return "without a name"
