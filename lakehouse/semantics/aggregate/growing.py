"""Collections that grow by one value at a time, without copying: each state stays unchanged, as a copy would.

    one = Values().added(7)         [7]
    two = one.added(8)              [7, 8], and `one` is still [7]

All states of one growth share their storage, and each is a beginning of it. The newest one is extended in place. To go
on from an older one (a window that begins with another one's values), that one is copied first.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Self


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


class Elements(Sequence[Any]):
    """A list of which the last equal one of its values is taken out: made when it is read. Equal to a list.

    Otherwise a change of many values, one by one, would look for each of them in the whole list.
    """

    __slots__ = ("_began", "_length", "_log", "_made", "_same")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, values: Iterable[Any], same: Callable[[Any], Any]) -> None:
        """same: gives the compared form of a value."""
        self._began, self._same = list(values), same
        self._log: list[tuple[Any, bool]] = []  # each value that is added, or taken out
        self._length = 0
        self._made: list[Any] | None = None

    def added(self, value: Any) -> Elements:
        """Return these values and one more."""
        return self._after((value, True))

    def without(self, value: Any) -> Elements:
        """Return these values without the last one that is equal; the same, if none is."""
        return self._after((value, False))

    def _after(self, entry: tuple[Any, bool]) -> Elements:
        is_read, is_newest = self._made is not None, self._length == len(self._log)
        whole = self if is_newest and not is_read else Elements(self, self._same)
        whole._log.append(entry)
        state = Elements.__new__(Elements)
        state._began, state._log, state._same, state._made = whole._began, whole._log, whole._same, None
        state._length = whole._length + 1
        return state

    def _now(self) -> list[Any]:
        if self._made is None:
            values = dict(enumerate(self._began))
            places: defaultdict[Any, list[int]] = defaultdict(list)
            for place, value in values.items():
                places[self._same(value)].append(place)
            for place, (value, is_added) in enumerate(self._log[: self._length], len(values)):
                equal = places[self._same(value)]
                if is_added:
                    values[place] = value
                    equal.append(place)
                elif equal:
                    del values[equal.pop()]
            self._made = list(values.values())
        return self._made

    def __len__(self) -> int:
        return len(self._now())

    def __iter__(self) -> Iterator[Any]:
        return iter(self._now())

    def __getitem__(self, index: Any) -> Any:
        return self._now()[index]

    def __eq__(self, other: object) -> bool:
        return self._now() == list(other) if isinstance(other, Elements | Values | list) else NotImplemented

    def __repr__(self) -> str:
        return f"Elements({self._now()!r})"


class Growing(Mapping[str, Any]):
    """A mapping to which one entry after the other is applied. Equal to a mapping with the same content."""

    __slots__ = ("_began", "_length", "_log", "_newest")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, content: Mapping[str, Any] | None = None) -> None:
        self._began = dict(content or {})  # the base from which an older state is made, over its entries
        self._newest = dict(self._began)
        self._log: list[Any] = []
        self._length = 0

    @staticmethod
    @abstractmethod
    def _apply(content: dict[str, Any], entry: Any) -> None:
        """Change the content by an entry."""

    def _after(self, entry: Any) -> Self:
        """Return these and one more entry."""
        whole = self if self._length == len(self._log) else type(self)(self._now())
        whole._log.append(entry)
        self._apply(whole._newest, entry)
        state = type(self).__new__(type(self))
        state._began, state._newest, state._log = whole._began, whole._newest, whole._log
        state._length = whole._length + 1
        return state

    def _now(self) -> dict[str, Any]:
        if self._length == len(self._log):
            return self._newest
        content = dict(self._began)
        for entry in self._log[: self._length]:
            self._apply(content, entry)
        return content

    def __getitem__(self, name: str) -> Any:
        return self._now()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._now())

    def __len__(self) -> int:
        return len(self._now())

    def items(self) -> Any:
        """Return the names with their values."""
        return self._now().items()

    def values(self) -> Any:
        """Return the values, in their order."""
        return self._now().values()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._now()!r})"


class Counts(Growing):
    """How often each text occurs, in first-seen order."""

    __slots__ = ()

    def added(self, text: str) -> Counts:
        """Return these counts with one more of a text."""
        return self._after((text, 1))

    def without(self, text: str) -> Counts:
        """Return these counts with one less of a text."""
        return self._after((text, -1))

    @staticmethod
    def _apply(content: dict[str, Any], entry: tuple[str, int]) -> None:
        text, step = entry
        content[text] = content.get(text, 0) + step
        if content[text] <= 0:
            del content[text]


class RowValues(Growing):
    """The values of a group's rows, by the rows' keys; the row that was put in last is the last one.

    `made` is what a rule has made of all values, if it was needed: `is_made`.
    """

    __slots__ = ("is_made", "made")

    def __init__(self, content: Mapping[str, Any] | None = None) -> None:
        super().__init__(content)
        self.is_made, self.made = False, None

    def put(self, row: str, value: Any) -> RowValues:
        """Return the values with those of one more row."""
        return self._fresh((row, value, True))

    def without(self, row: str) -> RowValues:
        """Return the values without those of a row."""
        return self._fresh((row, None, False))

    def _fresh(self, entry: tuple[str, Any, bool]) -> RowValues:
        state = self._after(entry)
        state.is_made, state.made = False, None
        return state

    def keep(self, made: Any) -> None:
        """Remember what a rule has made of these values."""
        self.is_made, self.made = True, made

    @staticmethod
    def _apply(content: dict[str, Any], entry: tuple[str, Any, bool]) -> None:
        row, value, there = entry
        content.pop(row, None)
        if there:
            content[row] = value
