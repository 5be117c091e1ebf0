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
        base_values = self if self._length == len(self._held) else Values(self)
        base_values._held.append(value)
        new_values = Values.__new__(Values)
        new_values._held, new_values._length, new_values._places = (
            base_values._held,
            base_values._length + 1,
            base_values._places,
        )
        return new_values

    def added_once(self, value: Any, comparable_form: Callable[[Any], Any]) -> Values:
        """Return these values and one more, unless one of them is equal to it: `same` gives the compared form.

        All calls for one growth must use the same `same`.
        """
        base_values = self if self._length == len(self._held) else Values(self)
        if base_values._places is None:
            base_values._places = {}
            for value_index, stored_value in enumerate(base_values._held):
                base_values._places.setdefault(comparable_form(stored_value), value_index)
        new_form = comparable_form(value)
        if new_form in base_values._places:
            return base_values
        base_values._places[new_form] = base_values._length
        return base_values.added(value)

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

    def __init__(self, values: Iterable[Any], comparable_form: Callable[[Any], Any]) -> None:
        """same: gives the compared form of a value."""
        self._began, self._same = list(values), comparable_form
        self._log: list[tuple[Any, bool]] = []  # each value that is added, or taken out
        self._length = 0
        self._made: list[Any] | None = None

    def added(self, value: Any) -> Elements:
        """Return these values and one more."""
        return self._after((value, True))

    def without_item(self, value: Any) -> Elements:
        """Return these values without the last one that is equal; the same, if none is."""
        return self._after((value, False))

    def _after(self, entry: tuple[Any, bool]) -> Elements:
        is_read, is_newest = self._made is not None, self._length == len(self._log)
        base_elements = self if is_newest and not is_read else Elements(self, self._same)
        base_elements._log.append(entry)
        new_elements = Elements.__new__(Elements)
        new_elements._began, new_elements._log, new_elements._same, new_elements._made = (
            base_elements._began,
            base_elements._log,
            base_elements._same,
            None,
        )
        new_elements._length = base_elements._length + 1
        return new_elements

    def _now(self) -> list[Any]:
        if self._made is None:
            values_by_place = dict(enumerate(self._began))
            places_by_form: defaultdict[Any, list[int]] = defaultdict(list)
            for place, value in values_by_place.items():
                places_by_form[self._same(value)].append(place)
            for place, (value, is_added) in enumerate(self._log[: self._length], len(values_by_place)):
                equal_places = places_by_form[self._same(value)]
                if is_added:
                    values_by_place[place] = value
                    equal_places.append(place)
                elif equal_places:
                    del values_by_place[equal_places.pop()]
            self._made = list(values_by_place.values())
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
        base_mapping = self if self._length == len(self._log) else type(self)(self._now())
        base_mapping._log.append(entry)
        self._apply(base_mapping._newest, entry)
        new_mapping = type(self).__new__(type(self))
        new_mapping._began, new_mapping._newest, new_mapping._log = (
            base_mapping._began,
            base_mapping._newest,
            base_mapping._log,
        )
        new_mapping._length = base_mapping._length + 1
        return new_mapping

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

    def without_item(self, text: str) -> Counts:
        """Return these counts with one less of a text."""
        return self._after((text, -1))

    @staticmethod
    def _apply(content: dict[str, Any], entry: tuple[str, int]) -> None:
        text, count_step = entry
        content[text] = content.get(text, 0) + count_step
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

    def put(self, row_key: str, value: Any) -> RowValues:
        """Return the values with those of one more row."""
        return self._with_entry((row_key, value, True))

    def without_item(self, row_key: str) -> RowValues:
        """Return the values without those of a row."""
        return self._with_entry((row_key, None, False))

    def _with_entry(self, entry: tuple[str, Any, bool]) -> RowValues:
        new_values = self._after(entry)
        new_values.is_made, new_values.made = False, None
        return new_values

    def keep(self, accumulator: Any) -> None:
        """Remember what a rule has made of these values."""
        self.is_made, self.made = True, accumulator

    @staticmethod
    def _apply(content: dict[str, Any], entry: tuple[str, Any, bool]) -> None:
        row_key, value, is_present = entry
        content.pop(row_key, None)
        if is_present:
            content[row_key] = value
