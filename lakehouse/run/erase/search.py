"""The search that ends an erasure, and that can be made again at any time; its outcome is kept with the erasure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from lakehouse.errors import ConfigError
from lakehouse.lake.erasure import erasure_log
from lakehouse.lake.erasure.erasure_log import Erasure, Search
from lakehouse.lake.erasure.subject import ErasureSubject, SubjectTypes
from lakehouse.lake.layout import Layout
from lakehouse.phases import phase
from lakehouse.run.erase.byte_search import SearchResult, ValuePattern, search_files


def search_erased(
    layout: Layout, erasure: Erasure, subject: ErasureSubject, values: Sequence[str]
) -> tuple[Erasure, SearchResult]:
    """Search every file of the lake for a subject and further texts, and add the outcome to the erasure's note.

    An erasure is finished by its first search without an occurrence, if it is for all texts of the searches before.
    """
    erasure = erasure.with_values(values)
    texts = {*subject.searched_texts(erasure.types), *values}
    with phase("searching", "searching every file of the lake", unit="files") as searching:

        def count_files(done_count: int, total: int) -> None:
            searching.done, searching.total = done_count, total

        result = search_files(layout.root, ValuePattern(texts, erasure.columns), count_files)
    erasure = erasure.with_search(Search(erasure_log.now_text(), result.files, result.bytes, len(result.occurrences)))
    if not (result.occurrences or erasure.is_finished or erasure.count_unsearched(texts)):
        erasure = replace(erasure, finished_at=erasure_log.now_text())
    erasure_log.write_erasure(layout, erasure)
    return erasure, result


def refuse_unsearchable(subject: ErasureSubject, types: SubjectTypes, values: Sequence[str]) -> None:
    """Raise ConfigError if no text to search for stands in the lake as a whole."""
    if any(values) or subject.can_be_searched(types):
        return
    name, columns = next((name, types[name]) for name in subject.keys if name in types)
    shown_columns = ", ".join(columns)
    if len(columns) == 1 and columns[0].endswith(" binary"):
        raise ConfigError(
            f"erase: the key of stream {name!r} is of bytes ({shown_columns}), whose text stands nowhere in the lake, "
            "so a search for it proves nothing; expected --value TEXT, too: a text that names the person."
        )
    raise ConfigError(
        f"erase: the key of stream {name!r} has parts ({shown_columns}), which lie apart in the lake, so a search for "
        "the whole key proves nothing; expected --value TEXT, too: the part that names the person."
    )


def names_one_of(texts: Iterable[str], sentence: str) -> bool:
    """Say whether a sentence has one of some texts, not as a part of a longer word or number."""
    return any(re.search(rf"(?<!\w){re.escape(text)}(?!\w)", sentence) for text in texts if text)
