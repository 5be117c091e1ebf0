"""The fate of every offset that a table has taken in: each has one, and for each partition the fates add up.

| fate          | what it means                                                                                        |
|---------------|------------------------------------------------------------------------------------------------------|
| `current`     | `latest`: applied, and a row shows it                                                                |
| `applied`     | aggregates: it counts in the row of its key, or of each of its windows that was open, whether or not |
|               | that row is visible (HAVING, final results that are still open)                                      |
| `superseded`  | applied, but no longer visible. `latest`: its key has a later record, or it deleted the row.         |
|               | Tumbling and hopping windows with a retention: the rows of all its windows have expired              |
| `taken_back`  | it was applied, and a revert took the table back to before it                                        |
| `taken_in`    | it came too late, and an intervention took it in after all                                           |
| `late`        | it came too late: for all its windows; sliding: for the last one that it could be in; sessions: its  |
|               | session had closed; `order_by`: it has no order, or is older than the retention                      |
| `null_key`    | its key, or a column that it is grouped by, is null                                                  |
| `tombstone`   | its value is null; aggregates ignore such records                                                    |
| `fixed`       | it does not fit the schema of its stream, and counts with other bytes, by an intervention            |
| `quarantined` | it does not fit the schema of its stream                                                             |
| `left_out`    | a step produced nothing from it: a filter, an explode of an empty array                              |
| `restored`    | the changelog that the table was restored from held it                                               |
| `lost`        | `latest`: it is the last record of its key, not a delete, yet no row shows it. This is a fault       |

A record from which a step makes several (explode, merge) gets the first fate in this list that one of them has:
restored, lost, taken_in, current, applied, superseded, taken_back, late, null_key, tombstone, fixed, quarantined,
left_out. One that is late for one window and applied to another is applied, and counted as partly late.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.semantics.time.window import Session
from lakehouse.spark.audit.marks import KINDS, AuditScope, mark_frames

FATES = (
    "current", "applied", "superseded", "taken_back", "taken_in", "late", "null_key", "tombstone", "fixed",
    "quarantined", "left_out", "restored", "lost",
)  # fmt: skip
# Faults, by offset. For an offset that bronze has twice, only `doubled` is reported.
FAULTS = {
    "doubled": "n_row > 1",
    "not_quarantined": "n_row = 1 AND n_quarantined < n_bad",
    "quarantined_again": "n_row = 1 AND n_quarantined > n_bad + n_bad_before",
    "quarantined_otherwise": "n_row = 1 AND n_bad > 0 AND n_quarantined = n_bad AND h_quarantined <> h_row * n_bad",
    # Where nothing judges lateness, what was forced is read from late/<table> itself.
    "late_not_kept": "n_row = 1 AND n_kept < n_late + IF(judged, n_forced, 0)",
    "late_again": "judged AND n_row = 1 AND n_kept > n_late + n_forced",
    "late_otherwise": "judged AND n_row = 1 AND n_kept = n_late + n_forced AND h_kept <> h_late + h_forced",
    "decided_in_time": "judged AND n_row = 1 AND n_decided > 0 AND n_forced = 0",
    "lost": "n_row = 1 AND (n_shown < n_last OR (n_shown = n_last AND h_shown <> h_last))",
    "outdated": "NOT from_changelog AND n_row = 1 AND n_shown > n_last",
    "quarantined_without_row": "n_row = 0 AND n_quarantined > 0",
    "late_without_row": "n_row = 0 AND n_kept > 0",
    "shown_without_row": "NOT from_changelog AND n_row = 0 AND n_shown > 0",
}


@dataclass(frozen=True, slots=True)
class FateCounts:
    """The fates of the offsets of a partition, counted.

    part: the partition's number in `AuditScope.extents`; None for offsets of a partition that bronze does not have.
    offsets: how many bronze has; each has one of the fates. faults: for each fault, how many offsets, and the first.

    records: bronze's rows without those that the table's changelog held. bad, null_keys, late: counted as the commits
    count them: by source, by record of the stream, by window. applied: applied records, counted for each window.
    """

    part: int | None
    offsets: int
    fates: Mapping[str, int]
    partly_late: int
    records: int
    bad: int
    null_keys: int
    late: int
    applied: int
    faults: Mapping[str, tuple[int, int]]


def count_fates(scope: AuditScope) -> list[FateCounts]:
    """Return the fates of a table's offsets, by partition: one pass over all marks, grouped by offset."""
    all_marks = reduce(DataFrame.unionByName, mark_frames(scope))
    kind_counts = [F.count_if(F.col("kind") == number).alias(f"n_{kind}") for number, kind in enumerate(KINDS)]
    hash_sums = [
        F.coalesce(F.sum(F.when(F.col("kind") == KINDS.index(kind), F.col("hash"))), F.lit(0)).alias(f"h_{kind}")
        for kind in ("row", "quarantined", "late", "forced", "kept", "last", "shown")
    ]
    offset_fates = all_marks.groupBy("_part", "offset").agg(*kind_counts, *hash_sums)
    is_judged = scope.judges_in_sql or scope.judges_in_python
    # Where only the rules in Python can judge lateness, and they did not run, trust late/<table>.
    late_windows = "n_late + n_forced" if is_judged else "n_kept"
    applied_marks = "n_taken + n_forced"
    if isinstance(scope.table.fold.window, Session):
        # All are marked as taken, also the late ones; those that were taken in after all do count.
        applied_marks = f"n_taken - ({late_windows} - n_forced)"
    offset_fates = offset_fates.withColumns(
        {
            "judged": F.lit(is_judged),
            "from_changelog": F.lit(bool(scope.skip)),
            "windows_late": F.expr(late_windows),
            "applied": F.expr(applied_marks),
        }
    )
    offset_fates = offset_fates.withColumn("fate", F.expr(_fate_expression(scope)))
    partition_rows = offset_fates.groupBy("_part").agg(
        F.count_if(F.expr("n_row > 0")).alias("offsets"),
        *[F.count_if((F.col("fate") == fate) & (F.col("n_row") > 0)).alias(f"fate_{fate}") for fate in FATES],
        F.count_if(F.expr("n_row > 0 AND fate IN ('applied', 'superseded') AND windows_late > 0")).alias("partly_late"),
        F.sum(F.expr("n_row - n_restored")).alias("records"),
        F.sum(F.expr("n_bad + n_bad_before")).alias("bad"),
        F.sum("n_null_key").alias("null_keys"),
        F.sum("windows_late").alias("late"),
        F.sum("applied").alias("applied"),
        *[F.count_if(F.expr(fault_condition)).alias(f"fault_{name}") for name, fault_condition in FAULTS.items()],
        *[
            F.min(F.when(F.expr(fault_condition), F.col("offset"))).alias(f"first_{name}")
            for name, fault_condition in FAULTS.items()
        ],
    )
    return [_to_fate_counts(row.asDict()) for row in partition_rows.collect()]


def _fate_expression(scope: AuditScope) -> str:
    """Return the fate of an offset as SQL over the numbers of its marks: the first that fits."""
    is_session = isinstance(scope.table.fold.window, Session)
    cases = [
        ("n_restored > 0", "restored"),
        (FAULTS["lost"], "lost"),
        ("n_forced > 0", "taken_in"),
        ("n_last > 0", "current"),
        ("applied > 0", "superseded" if scope.is_latest else "applied"),
        ("n_expired > 0", "superseded"),
        # For sessions, late records are marked as taken, too.
        ("n_taken_back > windows_late" if is_session else "n_taken_back > 0", "taken_back"),
        # late/<table> has what a session did not take; for sliding windows also what was late for some of them.
        ("windows_late > 0" if is_session else "n_late > 0", "late"),
        ("n_null_key > 0", "null_key"),
        ("n_tombstone > 0", "tombstone"),
        ("n_fixed > 0", "fixed"),
        ("n_bad + n_bad_before > 0", "quarantined"),
    ]
    return " ".join(["CASE", *[f"WHEN {condition} THEN '{fate}'" for condition, fate in cases], "ELSE 'left_out' END"])


def _to_fate_counts(row: dict[str, Any]) -> FateCounts:
    return FateCounts(
        row["_part"], row["offsets"], {fate: row[f"fate_{fate}"] for fate in FATES}, row["partly_late"],
        row["records"], row["bad"], row["null_keys"], row["late"], row["applied"],
        {name: (row[f"fault_{name}"], row[f"first_{name}"]) for name in FAULTS if row[f"fault_{name}"]},
    )  # fmt: skip
