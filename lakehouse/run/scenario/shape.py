"""Refuses a scenario file whose fields have another shape than docs/testing.md says, or a name that is nearly one.

A misspelt field would be ignored: "output" for "outputs" checks nothing, "timestmp" for "timestamp" is 0. Other fields,
such as a comment, are left alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from lakehouse.errors import ConfigError

FIELDS = (
    "name", "app", "statements", "properties", "inputs", "tables", "outputs", "quarantine", "null_keys", "late",
    "error",
)  # fmt: skip
# The fields of the objects in each field.
ITEM_FIELDS = {
    "inputs": ("topic", "key", "value", "timestamp", "partition", "headers", "key_hex", "value_hex", "window"),
    "outputs": ("topic", "key", "value", "timestamp", "window"),
    "tables": ("key", "value", "window"),
    "quarantine": ("topic", "partition", "offset", "reason contains"),
    "late": ("topic", "partition", "offset", "window"),
}
WHOLE_NUMBERS = ("timestamp", "partition", "offset")
_LIKENESS_MIN = 0.75


def check_shape(content: Mapping[str, Any], label: str) -> None:
    """Raise ConfigError for a scenario's content of another shape. label: the file, for messages."""
    _check_names(content, FIELDS, label)
    for name in ("inputs", "outputs"):
        _check_items(content.get(name, []), name, f"{label}: {name}")
    for name in ("tables", "quarantine", "late"):
        for inner_name, items in _object_of(content, name, label).items():
            _check_items(items, name, f"{label}: {name} of {inner_name}")
    for inner_name, count in _object_of(content, "null_keys", label).items():
        _check_whole(count, f"{label}: null_keys of {inner_name}")
    _object_of(content, "properties", label)
    if not isinstance(content.get("error", ""), str):
        raise ConfigError(f"{label}: error={content['error']!r:.80}, expected a part of the refusal's message.")


def _check_items(items: Any, name: str, label: str) -> None:
    if not isinstance(items, list):
        raise ConfigError(f"{label}: expected a list of objects, found {items!r:.80}.")
    for number, item in enumerate(items):
        item_label = f"{label}, number {number}"
        if not isinstance(item, Mapping):
            raise ConfigError(f"{item_label}: expected an object, found {item!r:.80}.")
        _check_names(item, ITEM_FIELDS[name], item_label)
        for part in ("key", "value") if name == "inputs" else ():
            if item.get(part) is not None and item.get(f"{part}_hex") is not None:
                raise ConfigError(f"{item_label}: found {part} and {part}_hex; expected one of them.")
        has_topic = name in ("inputs", "outputs") or (name != "tables" and "topic" in item)
        if has_topic and not isinstance(item.get("topic"), str):
            raise ConfigError(f"{item_label}: topic={item.get('topic')!r:.80}, expected a topic's name.")
        if name == "quarantine" and not ("offset" in item and isinstance(item.get("reason contains", ""), str)):
            raise ConfigError(
                f'{item_label}: expected an offset, and "reason contains" with a text; found {item!r:.80}.'
            )
        for field_name in WHOLE_NUMBERS:
            if field_name in item:
                _check_whole(item[field_name], f"{item_label}: {field_name}", is_time=field_name == "timestamp")


def _object_of(content: Mapping[str, Any], name: str, label: str) -> Mapping[str, Any]:
    value = content.get(name, {})
    if not isinstance(value, Mapping):
        raise ConfigError(f"{label}: {name}={value!r:.80}, expected an object.")
    return value


def _check_whole(value: Any, label: str, *, is_time: bool = False) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or (value < 0 and not is_time):
        raise ConfigError(f"{label}: expected a whole number{'' if is_time else ' from 0'}, found {value!r:.80}.")


def _check_names(names: Iterable[str], known_names: tuple[str, ...], label: str) -> None:
    for name in names:
        if name not in known_names and (near_names := get_close_matches(name.lower(), known_names, 1, _LIKENESS_MIN)):
            raise ConfigError(f"{label}: there is no field {name!r}. Did you mean {near_names[0]!r}?")
