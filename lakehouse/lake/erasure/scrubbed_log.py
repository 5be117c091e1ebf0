"""Takes values of rows out of the log of a Delta table; its commits, their numbers and metadata stay.

Delta's log has the smallest and largest value of each column of each file, and the conditions of what people ran. The
files of older versions are gone then (VACUUM), so nobody needs that of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import Any

from lakehouse.lake import reader, store

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
    """Return a line of a commit without values of rows: without statistics of removed files, and without conditions."""
    action: dict[str, Any] = json.loads(line)
    added, parameters = action.get("add"), action.get("commitInfo", {}).get("operationParameters", {})
    if added is not None and added["path"] not in live_files and added.get("stats"):
        row_count = json.loads(added["stats"]).get("numRecords")
        added["stats"] = json.dumps({} if row_count is None else {"numRecords": row_count})
    elif conditions := [name for name in parameters if "redicate" in name]:
        parameters |= dict.fromkeys(conditions, "[]")
    else:
        return line
    return json.dumps(action, separators=(",", ":"), ensure_ascii=False)
