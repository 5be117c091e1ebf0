"""The format of a key or a value. Its name stands in declarations, in the lake and in the headers of a changelog.

| part of the name        | what it says                                                                              |
|-------------------------|-------------------------------------------------------------------------------------------|
| json                    | an object, whose fields are found by their names; a key of one column is the value itself |
| json_any_case           | the same, as SQL reads it: names in any case                                              |
| json_bare               | one value without an object, as SQL has it                                                |
| delimited, "delimited|" | a line of CSV; after it the separator, if it is not the comma                             |
| kafka                   | one primitive, as Kafka's own serializers write it                                        |
| none                    | nothing: a key that is not read                                                           |
| +named                  | with the original names of fields, from which SQL has derived those of the columns        |
| +epoch                  | dates and timestamps are numbers: days, and milliseconds, since 1970                      |
| +window30000, +session  | a key with a window's bounds after its own bytes: see `lakehouse.semantics.windowed_key`  |
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from lakehouse.semantics.window import Hopping, Session, Window

COMMA = ","
_DELIMITED, _NAMED, _EPOCH, _SESSION, _WINDOW = "delimited", "+named", "+epoch", "+session", "+window"


@dataclass(frozen=True, slots=True)
class RecordFormat:
    """A format, parsed. kind: one of the first names of the table. Its `str` is the name.

    separator: between the fields of a line; empty for other kinds. window: after a key; only its kind and size are
    known, so it has no overlap and no grace.
    """

    kind: str
    separator: str = ""
    is_named: bool = False
    has_number_moments: bool = False
    window: Window | None = None

    @property
    def is_json(self) -> bool:
        """Whether it is JSON text of some form."""
        return self.kind in ("json", "json_any_case", "json_bare")

    @property
    def is_by_name(self) -> bool:
        """Whether fields are found by their names, so that those that nothing reads make no difference."""
        return self.kind in ("json", "json_any_case")

    @property
    def without_window(self) -> RecordFormat:
        """The format of a key's own bytes, before those of the window."""
        return replace(self, window=None)

    def __str__(self) -> str:
        name = self.kind + (self.separator if self.separator != COMMA else "")
        name += _NAMED * self.is_named + _EPOCH * self.has_number_moments
        match self.window:
            case Session():
                return name + _SESSION
            case Hopping(size=size):
                return f"{name}{_WINDOW}{size}"
        return name


@lru_cache(maxsize=1024)
def parse_format(name: str) -> RecordFormat:
    """Return the format of a name."""
    window: Window | None = None
    if name.endswith(_SESSION):
        name, window = name.removesuffix(_SESSION), Session(0, 0)
    elif _WINDOW in name:
        name, _, size_text = name.partition(_WINDOW)
        window = Hopping(int(size_text), int(size_text), 0)
    has_number_moments = name.endswith(_EPOCH)
    name = name.removesuffix(_EPOCH)
    is_named = name.endswith(_NAMED)
    kind, separator = name.removesuffix(_NAMED), ""
    if kind.startswith(_DELIMITED):
        kind, separator = _DELIMITED, kind.removeprefix(_DELIMITED) or COMMA
    return RecordFormat(kind, separator, is_named, has_number_moments, window)
