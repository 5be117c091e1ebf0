"""Remove values of rows from the log of a Delta table; its commits, their numbers and metadata stay.

Delta's log has the smallest and largest value of each column of each file, and the conditions of operations that people
ran. VACUUM has removed the files of older versions before, so nobody needs their statistics. Lakehouse's own metadata
has values where functions failed, and where rows did not meet what is expected.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from dataclasses import replace
from typing import Any

from lakehouse.lake import reader, store
from lakehouse.lake.commit_metadata import TableCommit, parse_metadata, write_metadata

COMMIT_FILE = re.compile(r"(\d{20})\.json")
# Beside the commits: what Delta makes from them, and can do without; Hadoop's checksums.
DERIVED_FILE = re.compile(r"\d{20}\.(crc|checkpoint.*|\d{20}\.compacted\.json)|\..*\.crc")


def scrub_log(path: str) -> None:
    """Take the values of rows out of all commits of a table but for its present files.

    The table's older versions must not be readable any more: their files are gone already. Nothing may write the table
    meanwhile. A new checkpoint takes the place of all earlier ones.
    """
    table = store.open_delta(path)
    live_files = set(reader.to_arrow_table(table.get_add_actions())["path"].to_pylist())
    table.create_checkpoint()
    newest_checkpoint, log_path = f"{table.version():020}.checkpoint", f"{path}/_delta_log"
    for name in store.file_names(log_path):
        if COMMIT_FILE.fullmatch(name):
            _scrub_commit(f"{log_path}/{name}", live_files)
        elif DERIVED_FILE.fullmatch(name) and not name.startswith(newest_checkpoint):
            store.remove_file(f"{log_path}/{name}")
    for name in store.file_names(f"{log_path}/_sidecars"):
        store.remove_file(f"{log_path}/_sidecars/{name}")


def _scrub_commit(path: str, live_files: Collection[str]) -> None:
    """Rewrite a commit without the values of rows, if it has some."""
    lines = [line.rstrip("\n") for line in store.read_lines(path)]
    scrubbed_lines = [_scrub_action(line, live_files) for line in lines]
    if scrubbed_lines != lines:
        store.write_file(path, "".join(f"{line}\n" for line in scrubbed_lines))


def _scrub_action(line: str, live_files: Collection[str]) -> str:
    """Return a line of a commit without values of rows.

    It lacks the statistics of removed files, the conditions of what was run, and the values on which functions failed.
    """
    action: dict[str, Any] = json.loads(line)
    scrubbed = {**action}
    for kind in ("add", "remove"):
        file = action.get(kind)
        if file is not None and file["path"] not in live_files and file.get("stats"):
            row_count = json.loads(file["stats"]).get("numRecords")
            scrubbed[kind] = {**file, "stats": json.dumps({} if row_count is None else {"numRecords": row_count})}
    if (commit := action.get("commitInfo")) is not None:
        parameters = commit.get("operationParameters", {})
        conditions = dict.fromkeys((name for name in parameters if "redicate" in name), "[]")
        scrubbed["commitInfo"] = {**commit, "operationParameters": {**parameters, **conditions}}
        if (text := commit.get("userMetadata")) is not None:
            scrubbed["commitInfo"]["userMetadata"] = _scrub_metadata(text)
    return line if scrubbed == action else json.dumps(scrubbed, separators=(",", ":"), ensure_ascii=False)


def _scrub_metadata(text: str) -> str:
    """Return lakehouse's metadata of a commit without values of records and rows."""
    metadata = parse_metadata(text, "a commit")
    if metadata is None or not isinstance(metadata.content, TableCommit) or not metadata.content.failures:
        return text
    failures = tuple(failure.without_values() for failure in metadata.content.failures)
    return write_metadata(replace(metadata, content=replace(metadata.content, failures=failures)))
