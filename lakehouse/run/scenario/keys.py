"""The form of keys and values in a scenario."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from lakehouse.model.event import from_hashable
from lakehouse.plan.app import App, named_window, read_window
from lakehouse.plan.names.field import field_name
from lakehouse.plan.operator import WINDOW_COLUMNS
from lakehouse.plan.stream import Stream
from lakehouse.plan.table import Table
from lakehouse.run.scenario.as_written import plain_value
from lakehouse.semantics.changelog import Key
from lakehouse.semantics.epoch_time import to_milliseconds
from lakehouse.semantics.time.window import Session


@dataclass(frozen=True, slots=True)
class Keys:
    """The form of keys in a scenario: their columns without the window's, and the type of the windows if any."""

    columns: tuple[str, ...]
    window: str | None = None

    def key_to_json(self, key: Key | None) -> dict[str, Any]:
        """Return a key, with its window beside it."""
        if key is None or self.window is None:
            return {"key": key_value(self.columns, key)}
        *columns, start, end = key
        return {
            "key": key_value(self.columns, tuple(columns)),
            "window": self.bounds(*map(to_milliseconds, (start, end))),
        }

    def bounds(self, start: int, end: int) -> dict[str, Any]:
        """Return a window of milliseconds."""
        return {"start": start, "end": end, "type": self.window}


def keys_of(node: Stream | Table) -> Keys:
    """Return how the keys of a stream or a table are written."""
    window = read_window(node) if isinstance(node, Stream) else named_window(node)
    if window is None:
        return Keys(node.key)
    return Keys(node.key[: -len(WINDOW_COLUMNS)], "session" if isinstance(window, Session) else "time")


def keys_in(app: App, node: Stream | Table) -> Keys:
    """Return how a scenario writes the keys of a node, with the names of fields."""
    keys = keys_of(node)
    return keys if app.sql_types is None else replace(keys, columns=tuple(map(field_name, keys.columns)))


def key_value(columns: tuple[str, ...], key: Key | None) -> Any:
    """Return a key as a scenario writes it: one column as its value; several columns, or a struct, as an object."""
    if key is None:
        return None
    parts = {name: plain_value(from_hashable(part)) for name, part in zip(columns, key, strict=True)}
    return parts if len(parts) > 1 else parts[columns[0]]
