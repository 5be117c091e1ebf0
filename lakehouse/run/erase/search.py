"""The search that ends an erasure, and that can be made again at any time; its outcome is kept with the erasure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from lakehouse.lake.erasure import erasure_log
from lakehouse.lake.erasure.erasure_log import Erasure, Search
from lakehouse.lake.layout import Layout
from lakehouse.phases import phase
from lakehouse.run.erase.byte_search import SearchResult, ValuePattern, search_files


def search_erased(layout: Layout, erasure: Erasure, values: Iterable[str]) -> tuple[Erasure, SearchResult]:
    """Search every file of the lake for values, and add the outcome to the erasure's note.

    An erasure is finished by its first search without an occurrence.
    """
    with phase("searching", "searching every file of the lake", unit="files") as searching:

        def count_files(done_count: int, total: int) -> None:
            searching.done, searching.total = done_count, total

        result = search_files(layout.root, ValuePattern(values, erasure.columns), count_files)
    erasure = erasure.with_search(Search(erasure_log.now_text(), result.files, result.bytes, len(result.occurrences)))
    if not result.occurrences and not erasure.is_finished:
        erasure = replace(erasure, finished_at=erasure_log.now_text())
    erasure_log.write_erasure(layout, erasure)
    return erasure, result
