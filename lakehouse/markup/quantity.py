"""Quantities as people read them: a number with its noun."""

from __future__ import annotations


def quantity(count: int, noun: str) -> str:
    """Return a count and its noun: "1 record", "1,234 records". noun: in the singular; its plural has an s."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
