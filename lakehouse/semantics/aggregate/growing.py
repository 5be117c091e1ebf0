"""Collections that grow by one value at a time, without copying: each state stays unchanged, as a copy would.

    one = Values().added(7)         [7]
    two = one.added(8)              [7, 8], and `one` is still [7]

All states of one growth share their storage, and each is a beginning of it. The newest one is extended in place. To go
on from an older one (a window that begins with another one's values), that one is copied first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any


class Values(Sequence[Any]):
    """A list that is only added to. Equal to a list, or to another `Values`, with the same content."""

    __slots__ = ("_held", "_length", "_places")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, values: Iterable[Any] = ()) -> None:
        self._held = list(values)
        self._length = len(self._held)
        self._places: dict[Any, int] | None = None  # where each value is; built when it is first needed

    def added(self, value: Any) -> Values:
        """Return these values and one more."""
        whole = self if self._length == len(self._held) else Values(self)
        whole._held.append(value)
        state = Values.__new__(Values)
        state._held, state._length, state._places = whole._held, whole._length + 1, whole._places
        return state

    def added_once(self, value: Any, same: Callable[[Any], Any]) -> Values:
        """Return these values and one more, unless one of them is equal to it: `same` gives the compared form.

        All calls for one growth must use the same `same`.
        """
        whole = self if self._length == len(self._held) else Values(self)
        if whole._places is None:
            whole._places = {}
            for place, held in enumerate(whole._held):
                whole._places.setdefault(same(held), place)
        found = same(value)
        if found in whole._places:
            return whole
        whole._places[found] = whole._length
        return whole.added(value)

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Any]:
        return iter(self._held if self._length == len(self._held) else self._held[: self._length])

    def __getitem__(self, index: Any) -> Any:
        return list(self)[index]

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, Values | list) else NotImplemented

    def __repr__(self) -> str:
        return f"Values({list(self)!r})"


class Counts(Mapping[str, int]):
    """How often each text occurs, in first-seen order. Equal to a mapping with the same content."""

    __slots__ = ("_began", "_length", "_log", "_newest")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, counts: Mapping[str, int] | None = None) -> None:
        self._began = dict(counts or {})  # the base from which an older state is counted again, over its texts
        self._newest = dict(self._began)
        self._log: list[str] = []
        self._length = 0

    def added(self, text: str) -> Counts:
        """Return these counts with one more of a text."""
        whole = self if self._length == len(self._log) else Counts(self._now())
        whole._log.append(text)
        whole._newest[text] = whole._newest.get(text, 0) + 1
        state = Counts.__new__(Counts)
        state._began, state._newest, state._log = whole._began, whole._newest, whole._log
        state._length = whole._length + 1
        return state

    def _now(self) -> dict[str, int]:
        if self._length == len(self._log):
            return self._newest
        counts = dict(self._began)
        for text in self._log[: self._length]:
            counts[text] = counts.get(text, 0) + 1
        return counts

    def __getitem__(self, text: str) -> int:
        return self._now()[text]

    def __iter__(self) -> Iterator[str]:
        return iter(self._now())

    def __len__(self) -> int:
        return len(self._now())

    def items(self) -> Any:
        """Return the texts with their counts."""
        return self._now().items()

    def __eq__(self, other: object) -> bool:
        return self._now() == dict(other) if isinstance(other, Mapping) else NotImplemented

    def __repr__(self) -> str:
        return f"Counts({self._now()!r})"


class RowValues(Mapping[str, Any]):
    """The values of a group's rows, by the rows' keys; the row that was put in last is the last one.

    `made` is what a rule has made of all values: kept as long as rows are only put in.
    """

    __slots__ = ("_began", "_length", "_log", "_newest", "is_made", "made")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, values: Mapping[str, Any] | None = None) -> None:
        self._began = dict(values or {})  # the base of an older state
        self._newest = dict(self._began)
        self._log: list[tuple[str, Any, bool]] = []
        self._length = 0
        self.is_made, self.made = False, None

    def put(self, row: str, value: Any, made: Any) -> RowValues:
        """Return the values with those of one more row; `made` is what the rule makes of all of them."""
        state = self._after(row, value, there=True)
        state.keep(made)
        return state

    def without(self, row: str) -> RowValues:
        """Return the values without those of a row."""
        return self._after(row, None, there=False)

    def keep(self, made: Any) -> None:
        """Remember what a rule has made of these values."""
        self.is_made, self.made = True, made

    def _after(self, row: str, value: Any, *, there: bool) -> RowValues:
        whole = self if self._length == len(self._log) else RowValues(self._now())
        whole._log.append((row, value, there))
        _apply(whole._newest, row, value, there=there)
        state = RowValues.__new__(RowValues)
        state._began, state._newest, state._log = whole._began, whole._newest, whole._log
        state._length = whole._length + 1
        state.is_made, state.made = False, None
        return state

    def _now(self) -> dict[str, Any]:
        if self._length == len(self._log):
            return self._newest
        values = dict(self._began)
        for row, value, there in self._log[: self._length]:
            _apply(values, row, value, there=there)
        return values

    def __getitem__(self, row: str) -> Any:
        return self._now()[row]

    def __iter__(self) -> Iterator[str]:
        return iter(self._now())

    def __len__(self) -> int:
        return len(self._now())

    def items(self) -> Any:
        """Return the rows with their values."""
        return self._now().items()

    def values(self) -> Any:
        """Return the values, in their order."""
        return self._now().values()


def _apply(values: dict[str, Any], row: str, value: Any, *, there: bool) -> None:
    values.pop(row, None)
    if there:
        values[row] = value
