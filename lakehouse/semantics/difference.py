"""What two contents of a keyed table differ by: the one form in which every comparison of rows answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict


class Unlike(TypedDict):
    """A key whose rows differ: the rows as people see them, without the key; None where there is no row."""

    change: Literal["added", "removed", "changed"]
    key: dict[str, Any]
    before: dict[str, Any] | None
    after: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Difference:
    """How many keys were added, removed and changed; and, where they were asked for, the first of them.

    versions: which versions were compared; None for what is no version.
    """

    added: int = 0
    removed: int = 0
    changed: int = 0
    changes: list[Unlike] = field(default_factory=list)
    versions: tuple[int | None, int | None] = (None, None)

    @property
    def equal(self) -> bool:
        """Whether no row differs."""
        return not self.keys

    @property
    def keys(self) -> int:
        """How many keys differ."""
        return self.added + self.removed + self.changed

    def counts(self) -> dict[str, int]:
        """Return the numbers alone, for JSON."""
        return {"added": self.added, "removed": self.removed, "changed": self.changed}
