"""Collections that grow by one value at a time without copying; each earlier state stays unchanged, like a copy.

    short = Values().with_item(7)     [7]
    long = short.with_item(8)         [7, 8], and `short` is still [7]

All states of one growth share their storage, and each state is a prefix of it. The newest state is extended in place;
an older one (of a window that begins with another window's values) is copied first.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Self


class Values(Sequence[Any]):
    """A list that only grows. Equal to a list, or to another `Values`, with the same content."""

    __slots__ = ("_length", "_places", "_stored")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, values: Iterable[Any] = ()) -> None:
        self._stored = list(values)
        self._length = len(self._stored)
        self._places: dict[Any, int] | None = None  # the place of each value; built when it is first needed

    def with_item(self, value: Any) -> Values:
        """Return these values and one more."""
        base_values = self if self._length == len(self._stored) else Values(self)
        base_values._stored.append(value)
        new_values = Values.__new__(Values)
        new_values._stored, new_values._length, new_values._places = (
            base_values._stored,
            base_values._length + 1,
            base_values._places,
        )
        return new_values

    def with_new_item(self, value: Any, comparable_form: Callable[[Any], Any]) -> Values:
        """Return these values and one more, unless one of them is equal to it.

        comparable_form: gives the form by which values are compared; the same function in all calls for one growth.
        """
        base_values = self if self._length == len(self._stored) else Values(self)
        if base_values._places is None:
            base_values._places = {}
            for value_index, stored_value in enumerate(base_values._stored):
                base_values._places.setdefault(comparable_form(stored_value), value_index)
        new_form = comparable_form(value)
        if new_form in base_values._places:
            return base_values
        base_values._places[new_form] = base_values._length
        return base_values.with_item(value)

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Any]:
        return iter(self._stored if self._length == len(self._stored) else self._stored[: self._length])

    def __getitem__(self, index: Any) -> Any:
        return list(self)[index]

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, Values | list) else NotImplemented

    def __repr__(self) -> str:
        return f"Values({list(self)!r})"


class Elements(Sequence[Any]):
    """A list from which the last of equal values can be taken out; computed when it is read. Equal to a list.

    An eager list would search all of its values for each value that is taken out.
    """

    __slots__ = ("_base", "_comparable_form", "_content", "_length", "_log")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, values: Iterable[Any], comparable_form: Callable[[Any], Any]) -> None:
        """comparable_form: gives the form by which values are compared."""
        self._base, self._comparable_form = list(values), comparable_form
        self._log: list[tuple[Any, bool]] = []  # each value, and whether it is added or taken out
        self._length = 0
        self._content: list[Any] | None = None

    def with_item(self, value: Any) -> Elements:
        """Return these values and one more."""
        return self._after((value, True))

    def without_item(self, value: Any) -> Elements:
        """Return these values without the last equal one; the same values if there is none."""
        return self._after((value, False))

    def _after(self, entry: tuple[Any, bool]) -> Elements:
        is_read, is_newest = self._content is not None, self._length == len(self._log)
        base_elements = self if is_newest and not is_read else Elements(self, self._comparable_form)
        base_elements._log.append(entry)
        new_elements = Elements.__new__(Elements)
        new_elements._base, new_elements._log, new_elements._comparable_form, new_elements._content = (
            base_elements._base,
            base_elements._log,
            base_elements._comparable_form,
            None,
        )
        new_elements._length = base_elements._length + 1
        return new_elements

    def _current(self) -> list[Any]:
        if self._content is None:
            values_by_place = dict(enumerate(self._base))
            places_by_form: defaultdict[Any, list[int]] = defaultdict(list)
            for place, value in values_by_place.items():
                places_by_form[self._comparable_form(value)].append(place)
            for place, (value, is_added) in enumerate(self._log[: self._length], len(values_by_place)):
                equal_places = places_by_form[self._comparable_form(value)]
                if is_added:
                    values_by_place[place] = value
                    equal_places.append(place)
                elif equal_places:
                    del values_by_place[equal_places.pop()]
            self._content = list(values_by_place.values())
        return self._content

    def __len__(self) -> int:
        return len(self._current())

    def __iter__(self) -> Iterator[Any]:
        return iter(self._current())

    def __getitem__(self, index: Any) -> Any:
        return self._current()[index]

    def __eq__(self, other: object) -> bool:
        return self._current() == list(other) if isinstance(other, Elements | Values | list) else NotImplemented

    def __repr__(self) -> str:
        return f"Elements({self._current()!r})"


class GrowingMapping(Mapping[str, Any]):
    """A mapping that grows by applying entries one by one. Equal to a mapping with the same content."""

    __slots__ = ("_base", "_length", "_log", "_newest")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, content: Mapping[str, Any] | None = None) -> None:
        self._base = dict(content or {})  # an older state is this base with its entries applied
        self._newest = dict(self._base)
        self._log: list[Any] = []
        self._length = 0

    @staticmethod
    @abstractmethod
    def _apply(content: dict[str, Any], entry: Any) -> None:
        """Change the content by an entry."""

    def _after(self, entry: Any) -> Self:
        """Return the mapping with one more entry applied."""
        base_mapping = self if self._length == len(self._log) else type(self)(self._current())
        base_mapping._log.append(entry)
        self._apply(base_mapping._newest, entry)
        new_mapping = type(self).__new__(type(self))
        new_mapping._base, new_mapping._newest, new_mapping._log = (
            base_mapping._base,
            base_mapping._newest,
            base_mapping._log,
        )
        new_mapping._length = base_mapping._length + 1
        return new_mapping

    def _current(self) -> dict[str, Any]:
        if self._length == len(self._log):
            return self._newest
        content = dict(self._base)
        for entry in self._log[: self._length]:
            self._apply(content, entry)
        return content

    def __getitem__(self, name: str) -> Any:
        return self._current()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._current())

    def __len__(self) -> int:
        return len(self._current())

    def items(self) -> Any:
        """Return the names with their values."""
        return self._current().items()

    def values(self) -> Any:
        """Return the values, in their order."""
        return self._current().values()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._current()!r})"


class Counts(GrowingMapping):
    """How often each text occurs, in first-seen order."""

    __slots__ = ()

    def with_item(self, text: str) -> Counts:
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


class RowValues(GrowingMapping):
    """The values of a group's rows, by the rows' keys, in the order in which the rows were put in.

    accumulator: the fold of all values by a rule, if `is_folded`; it is computed when it is needed.
    """

    __slots__ = ("accumulator", "is_folded")

    def __init__(self, content: Mapping[str, Any] | None = None) -> None:
        super().__init__(content)
        self.is_folded, self.accumulator = False, None

    def put(self, row_key: str, value: Any) -> RowValues:
        """Return the values with that of one more row."""
        return self._with_entry((row_key, value, True))

    def without_item(self, row_key: str) -> RowValues:
        """Return the values without that of a row."""
        return self._with_entry((row_key, None, False))

    def _with_entry(self, entry: tuple[str, Any, bool]) -> RowValues:
        new_values = self._after(entry)
        new_values.is_folded, new_values.accumulator = False, None
        return new_values

    def keep_accumulator(self, accumulator: Any) -> None:
        """Keep the fold of these values by a rule."""
        self.is_folded, self.accumulator = True, accumulator

    @staticmethod
    def _apply(content: dict[str, Any], entry: tuple[str, Any, bool]) -> None:
        row_key, value, is_present = entry
        content.pop(row_key, None)
        if is_present:
            content[row_key] = value
