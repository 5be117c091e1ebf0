"""Topics and functions that have a part of the records of some ticks, and still need the rest as it is.

New logic or an erasure would change the records of these ticks, so it has to wait until all of them are sent.
"""

from __future__ import annotations

from lakehouse.errors import PlanError
from lakehouse.lake import store
from lakehouse.lake.control import note
from lakehouse.lake.layout import Layout

SUFFIX = ".json"


def refuse_partial(layout: Layout, subject: str) -> None:
    """Raise PlanError if a topic or a function has a part of the records of some ticks. subject: what has to wait."""
    if not note.are_kept(layout.root):
        return
    for folder, kind, count_name in (
        (layout.published_notes, "topic", "sent"),
        (layout.function_notes, "function", "told"),
    ):
        for file_name in store.file_names(folder):
            content = note.read(f"{folder}/{file_name}") or {}
            if file_name.endswith(SUFFIX) and content.get(count_name):
                name = file_name.removesuffix(SUFFIX)
                raise PlanError(
                    f"{subject}: {kind} {name!r} has {content[count_name]} records of ticks that are not through; "
                    "expected all or none. Run the application that the lake has until it has caught up "
                    "(`lakehouse run --until caught-up`), and then this. If nobody keeps that "
                    f"{kind} any more, remove {folder}/{file_name}."
                )
