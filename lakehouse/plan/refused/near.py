"""Suggest the word that the user probably meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def suggest_near(word: str, known_words: Iterable[str]) -> str:
    """Return " Did you mean 'amount'?" for a word similar to a known word, in any case; else ""."""
    words_by_lower = {name.lower(): name for name in known_words}
    close_words = get_close_matches(str(word).lower(), words_by_lower, 1)
    return f" Did you mean {words_by_lower[close_words[0]]!r}?" if close_words else ""
