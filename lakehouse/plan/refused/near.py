"""The word that was meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def near(word: str, known: Iterable[str]) -> str:
    """Return " Did you mean 'amount'?" for a word close to a known one, whatever their case; else nothing."""
    by_lower = {name.lower(): name for name in known}
    close = get_close_matches(word.lower(), by_lower, 1)
    return f" Did you mean {by_lower[close[0]]!r}?" if close else ""
