"""Warnings for reads of the past: rows and totals of earlier moments lack the records that were erased since."""

from __future__ import annotations

from lakehouse.lake.erasure.erasure_log import read_erasures
from lakehouse.lake.layout import Layout
from lakehouse.semantics.moment import At, AtTick


def erased_since(layout: Layout, moment: At | None, table: str | None = None) -> str | None:
    """Return a sentence about the erasures that a read at a moment is affected by; None if there are none.

    A moment that is not a tick may be affected by every erasure. table: only its erasures, or those of its state.
    """
    if moment is None:
        return None
    texts = [
        f"at tick {erasure.tick:,} ({erasure.begun_at[:10]}{', ' + erasure.reason if erasure.reason else ''}) of "
        f"{', '.join(erasure.tables)}"
        for erasure in read_erasures(layout)
        if erasure.tick is not None
        and (table is None or table.removeprefix("state.") in erasure.tables)
        and not (isinstance(moment, AtTick) and moment.tick >= erasure.tick)
    ]
    if not texts:
        return None
    return f"Records were erased {'; '.join(texts)}: rows and totals of earlier moments lack them."
