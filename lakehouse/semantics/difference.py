"""The differences between two contents of a keyed table: the result of every comparison of rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict

from lakehouse.markup.text import InNotebook


class RowDifference(TypedDict):
    """A key whose rows differ: the visible rows, without the key; None for no row."""

    change: Literal["added", "removed", "changed"]
    key: dict[str, Any]
    before: dict[str, Any] | None
    after: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Difference(InNotebook):
    """The numbers of keys added, removed and changed; and the first of these keys, if requested.

    versions: the versions that were compared; None for rows that are not a version.
    """

    added: int = 0
    removed: int = 0
    changed: int = 0
    changes: list[RowDifference] = field(default_factory=list)
    versions: tuple[int | None, int | None] = (None, None)

    @property
    def equal(self) -> bool:
        """Whether no rows differ."""
        return not self.keys

    @property
    def keys(self) -> int:
        """The number of keys that differ."""
        return self.added + self.removed + self.changed

    def counts(self) -> dict[str, int]:
        """Return the numbers alone, for JSON."""
        return {"added": self.added, "removed": self.removed, "changed": self.changed}
