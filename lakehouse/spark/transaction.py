"""Progress in the target: Delta's transaction identifiers, read back and checked after every commit.

Delta silently skips a write that carries (app id, version) if the table has that version or a larger one. So a writer
reads the number before a commit, to know what to do, and after it, to know that it was done. Two writers may choose the
same number: each commit carries a *nonce* that no other commit has, and the writer reads it back as well.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from delta.exceptions import ConcurrentTransactionException
from delta.tables import DeltaTable, DeltaTableBuilder
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from lakehouse.errors import Fenced, StorageError
from lakehouse.lake.commit_log import CommitLog, open_log
from lakehouse.lake.commit_metadata import (
    CommitContent,
    CommitMetadata,
    CommitNumber,
    UnchangedRows,
    app_id,
    write_metadata,
)
from lakehouse.lake.place import TablePlace
from lakehouse.lake.store import is_remote
from lakehouse.plan.names.field import in_backticks
from lakehouse.semantics.commit_number import OPEN_EPOCH, Progress, progress_of_version
from lakehouse.spark.jvm import folders
from lakehouse.spark.jvm.delta_log import commit_number, newest_snapshot
from lakehouse.spark.jvm.folders import read_lines
from lakehouse.spark.jvm.table_rewrite import WriteNumber

APP_ID = "spark.databricks.delta.write.txnAppId"
APP_VERSION = "spark.databricks.delta.write.txnVersion"
METADATA = "spark.databricks.delta.commitInfo.userMetadata"
SHOWN = 3
LOG_FILE = re.compile(r"\d{20}\..*|_last_checkpoint")  # a log with one of these has a commit


def read_progress(spark: SparkSession, place: TablePlace) -> Progress:
    """Return how far a table is; epoch 0, tick 0 if it has no commit of lakehouse."""
    number = newest_snapshot(spark, place.path).number_of_app(app_id(place.name))
    return Progress(0, 0) if number is None else progress_of_version(number)


def is_delta_table(spark: SparkSession, path: str) -> bool:
    """Say whether there is a Delta table at a path.

    Delta remembers a log that had no commit when it first looked, while another process was creating the table, and
    goes on to say that there is none. So a no is checked in the folder.
    """
    if DeltaTable.isDeltaTable(spark, path):
        return True
    return any(LOG_FILE.fullmatch(name) for name in folders.list_content(spark, f"{path}/_delta_log"))


def new_table(spark: SparkSession, path: str, columns: StructType | str) -> DeltaTableBuilder:
    """Return Delta's builder of a table at a path; a table that exists stays as it is.

    Delta makes the folder of the log some time before the first commit, and makes no table over such a folder: a folder
    that a killed job left is removed. Raises StorageError for files that no commit names.
    """
    if not is_delta_table(spark, path):
        folders.remove_folder(spark, f"{path}/_delta_log")
        if left_files := folders.list_content(spark, path):
            raise StorageError(
                f"Found {', '.join(left_files[:SHOWN])} in {path}, and no commit that names them: the table's log is "
                "lost. Expected a table, or an empty folder. Put the log back from a copy, or move the folder away: "
                "then the table is made anew."
            )
    schema = spark.createDataFrame([], columns).schema if isinstance(columns, str) else columns
    return DeltaTable.createIfNotExists(spark).location(path).addColumns(schema)


def table_id(spark: SparkSession, path: str) -> str:
    """Return the id that Delta gave the table at `path` when it was created: no other table ever has it."""
    return newest_snapshot(spark, path).table_id


def version_and_progress(spark: SparkSession, place: TablePlace) -> tuple[int, Progress]:
    """Return the newest version of a table, and how far it is in that version."""
    while True:
        version, table_progress = newest_snapshot(spark, place.path).version, read_progress(spark, place)
        if newest_snapshot(spark, place.path).version == version:
            return version, table_progress


def read_properties(spark: SparkSession, path: str) -> dict[str, str]:
    """Return the properties of the table at `path`."""
    return dict(newest_snapshot(spark, path).properties)


def set_properties(spark: SparkSession, path: str, values: Mapping[str, str], operation: str) -> None:
    """Set properties of the table at `path` in a commit of its own; operation: what it does, for its metadata.

    Call it on a session that nothing else uses: a commit's metadata is a setting of the session.
    """
    assignments = ", ".join(f"{_text_literal(name)} = {_text_literal(value)}" for name, value in values.items())
    spark.conf.set(METADATA, write_metadata(CommitMetadata(UnchangedRows(operation=operation))))
    try:
        spark.sql(f"ALTER TABLE delta.{in_backticks(path)} SET TBLPROPERTIES ({assignments})")
    finally:
        spark.conf.unset(METADATA)


def _text_literal(text: str) -> str:
    """Return a text as a literal of Spark SQL, which takes no parameters in properties, and replaces ${...} in them."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("$", "\\u0024") + "'"


def is_empty(spark: SparkSession, path: str) -> bool:
    """Say whether the table at `path` is known to have no rows, without reading it."""
    return newest_snapshot(spark, path).file_count == 0


def commit_log_of(spark: SparkSession, path: str) -> CommitLog:
    """Return the log of the table at `path`."""
    newest = newest_snapshot(spark, path).version
    if not is_remote(path):
        return open_log(path, newest)
    return CommitLog(lambda version: read_lines(spark, f"{path}/_delta_log/{version:020}.json"), newest, path)


def _commit_text(name: str, target: Progress, nonce: str, content: CommitContent) -> str:
    """Return the user metadata of a numbered commit."""
    number = CommitNumber(app_id(name), target.epoch, target.tick, nonce)
    return write_metadata(CommitMetadata(content, number))


@contextmanager
def _checked_commit(spark: SparkSession, place: TablePlace, target: Progress, content: CommitContent) -> Iterator[str]:
    """Yield the user metadata for the block's one numbered commit; then check that the table has this commit.

    Raises Fenced if another writer has taken the table over.
    """
    nonce = uuid.uuid4().hex
    try:
        yield _commit_text(place.name, target, nonce, content)
    except ConcurrentTransactionException as error:
        raise _fenced_error(spark, place, target) from error
    check_progress(spark, place, target, nonce)


@contextmanager
def numbered_writes(
    spark: SparkSession, place: TablePlace, target: Progress, content: CommitContent
) -> Iterator[WriteNumber]:
    """Give the Delta write in the block the number of a progress; then check that the table has it.

    Yield the number, for a write that does not take it from the session. Use it around one write on a session that
    nothing else uses: Delta would silently skip a second write with the same number. Raises Fenced if another writer
    has taken the table over.
    """
    with _checked_commit(spark, place, target, content) as text:
        settings = {APP_ID: app_id(place.name), APP_VERSION: str(target.version), METADATA: text}
        for setting, value in settings.items():
            spark.conf.set(setting, value)
        try:
            yield WriteNumber(app_id(place.name), target.version)
        finally:
            for setting in settings:
                spark.conf.unset(setting)


def append(
    frame: DataFrame, place: TablePlace, target: Progress, content: CommitContent, *, overwrite: bool = False
) -> None:
    """Append rows to a table in one numbered commit, and check that the table has this commit.

    overwrite: replace the rows of the table.
    """
    spark, mode = frame.sparkSession, "overwrite" if overwrite else "append"
    with _checked_commit(spark, place, target, content) as text:
        writer = frame.write.format("delta").mode(mode).option("userMetadata", text)
        writer.option("txnAppId", app_id(place.name)).option("txnVersion", str(target.version)).save(place.path)


def append_empty_commit(spark: SparkSession, place: TablePlace, target: Progress, content: CommitContent) -> None:
    """Make a numbered commit without rows: it only records how far the table is, and under which epoch."""
    with _checked_commit(spark, place, target, content) as text:
        commit_number(spark, place.path, app_id(place.name), target.version, text)


def open_epoch(spark: SparkSession, place: TablePlace, epoch: int | None = None) -> Progress:
    """Open the next epoch of a table, or a given later one; return the progress.

    Delta then skips all that an older writer still sends. A writer that owns the table already passes the epoch after
    its own: the next epoch could be a successor's. Raises Fenced if another writer has opened that epoch, or a later.
    """
    last_progress = read_progress(spark, place)
    target = Progress(last_progress.epoch + 1 if epoch is None else epoch, last_progress.tick)
    append_empty_commit(spark, place, target, UnchangedRows(operation=OPEN_EPOCH))
    return target


def check_progress(spark: SparkSession, place: TablePlace, target: Progress, nonce: str) -> None:
    """Raise Fenced if the table's number is not the number just written, or if another commit has that number."""
    if read_progress(spark, place) != target or _last_nonce(spark, place) != nonce:
        raise _fenced_error(spark, place, target)


def check_epoch(spark: SparkSession, place: TablePlace, epoch: int) -> None:
    """Raise Fenced if the table is in another epoch; call it before a write that carries no number."""
    if (table_progress := read_progress(spark, place)).epoch != epoch:
        raise _fenced_error(spark, place, Progress(epoch, table_progress.tick))


def _last_nonce(spark: SparkSession, place: TablePlace) -> str | None:
    """Return the nonce of the newest numbered commit of a table; foreign commits (OPTIMIZE, UPDATE) may follow it."""
    commit_metadata = (commit.metadata for commit in commit_log_of(spark, place.path).walk_back())
    own_metadata = (metadata for metadata in commit_metadata if metadata and metadata.app == app_id(place.name))
    return next((metadata.number.nonce for metadata in own_metadata), None)


def _fenced_error(spark: SparkSession, place: TablePlace, target: Progress) -> Fenced:
    table_progress = read_progress(spark, place)
    by_other = ", by another commit" if table_progress == target else ""
    return Fenced(
        f"{place.name}: committed epoch {target.epoch}, tick {target.tick}, but the table is at epoch "
        f"{table_progress.epoch}, tick {table_progress.tick}{by_other}. Another writer has taken it over; this one "
        "stops. Nothing was written twice."
    )
