"""Where a writer's fields stand that columns read: by the exact name, else by the one name that differs in case."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lakehouse.formats.values.unfit import Unfit


def names_by_place(field_names: Sequence[str], names: Iterable[str], *, ignores_case: bool) -> dict[int, list[str]]:
    """Return, by the place of a field, the names of those who read it; fields that nobody reads are left out.

    ignores_case: a name that no field has exactly means the field that has it in another case; several may mean one.
    Raises Unfit if there are several such fields.
    """
    place_by_name = {field_name: place for place, field_name in enumerate(field_names)}
    names_by_lower: dict[str, list[str]] = {}
    for field_name in field_names if ignores_case else ():
        names_by_lower.setdefault(field_name.lower(), []).append(field_name)
    readers: dict[int, list[str]] = {}
    for name in names:
        own_names = [name] if name in place_by_name else names_by_lower.get(name.lower(), [])
        if len(own_names) > 1:
            raise Unfit(f"expected one field {name}, found {', '.join(own_names)}: spell the column as one of them")
        for own_name in own_names:
            readers.setdefault(place_by_name[own_name], []).append(name)
    return readers
