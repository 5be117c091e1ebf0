"""Notes of a writer for its next start: a JSON object in a small file below control/, on a disk or in an object store.

A note is there whole or not at all. Stores other than S3 keep none (`are_kept`): only a JVM writes there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from lakehouse import durable
from lakehouse.lake import store


def are_kept(path: str) -> bool:
    """Say whether notes can be kept at a path: on a disk, or in an object store that this process can write."""
    return not store.is_remote(path) or store.has_objects(path)


def read(path: str) -> dict[str, Any] | None:
    """Return a note; None if there is none, or if it is no JSON object. Raises StorageError."""
    if not store.is_remote(path):
        return durable.read_object(Path(path))
    stored = store.get_object(path) if store.has_objects(path) else None
    try:
        parsed = json.loads(stored.content) if stored is not None else None
    except ValueError:
        return None
    return parsed if isinstance(parsed, dict) else None


def write(path: str, content: Mapping[str, Any]) -> None:
    """Write a note in place of the one before; nothing where none are kept. Raises StorageError, OSError."""
    if not store.is_remote(path):
        durable.write_durably(Path(path), json.dumps(content))
    elif store.has_objects(path):
        store.put_object(path, json.dumps(content).encode())


def rename(path: str, new_path: str) -> None:
    """Give a note another name, as it is; nothing if it is not there. Raises StorageError, OSError."""
    if not store.is_remote(path):
        with suppress(FileNotFoundError):
            Path(path).replace(new_path)
    elif store.has_objects(path) and (stored := store.get_object(path)) is not None:
        store.put_object(new_path, stored.content)
        store.delete_object(path)


def remove(path: str) -> None:
    """Remove a note, if it is there. Raises StorageError, OSError."""
    if not store.is_remote(path):
        Path(path).unlink(missing_ok=True)
    elif store.has_objects(path):
        store.delete_object(path)
