"""Erasures that have begun and not ended: until then their tables must stay as they left them."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from lakehouse.errors import StorageError
from lakehouse.lake.erasure import erasure_log
from lakehouse.lake.layout import Layout
from lakehouse.run.repair.stages import tables_text


def refuse_during_erasure(layout: Layout, table_names: Iterable[str], own_ids: Collection[str] = ()) -> None:
    """Raise StorageError if an erasure of one of some tables is between its steps. own_ids: those that may go on."""
    wanted_names = set(table_names)
    for erasure in erasure_log.read_erasures(layout):
        names = [name for name in erasure.tables if name in wanted_names]
        if names and erasure.is_between_steps and erasure.id not in own_ids:
            raise StorageError(
                f"{tables_text(names)}: an erasure that began at {erasure.begun_at} is not finished. Give its command, "
                "`lakehouse repair erase`, again, and then this one."
            )
