"""The results of an audit, and the messages about what is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from lakehouse.markup.shown import cell
from lakehouse.markup.text import InNotebook, as_html, to_paragraph
from lakehouse.markup.text import to_html_table as as_table

REBUILD = (
    "Rebuild the table: stop the job, remove silver/{table} (and state/{table}, late/{table}, anchors/{table} where "
    "they exist) from the lake, and run the application."
)
BACKFILL = "`lakehouse repair backfill {table}` rebuilds it; the tables that read it get the differences, too."
BACKUP = "Bronze is only ever appended to: something else wrote there. Restore its folder from a backup."
REQUARANTINE = (
    "The bytes are in bronze. To have the quarantine written again, stop the job, remove its folder below quarantine/, "
    "and rebuild the table: remove silver/{table} (and state/{table}, late/{table}, anchors/{table} where they exist), "
    "and run."
)
# By fault (see lakehouse.spark.audit.fates): the actual state, the expected one, and what to do. {n}: offsets.
TEXTS = {
    "doubled": ("{n} offsets are in bronze more than once", "each once", BACKUP),
    "not_quarantined": (
        "{n} records that do not fit are not in the quarantine", "each there once for its stream", REQUARANTINE,
    ),
    "quarantined_again": (
        "{n} records are in the quarantine though they fit, or more than once", "bad records, each once",
        REQUARANTINE,
    ),
    "quarantined_otherwise": (
        "{n} records are in the quarantine with other bytes, or at another place, than in bronze",
        "the row of bronze", REQUARANTINE,
    ),
    "late_not_kept": (
        "{n} records came too late and are not, or not for each window, in late/{table}",
        "a row for each window that did not take them", REBUILD,
    ),
    "late_again": (
        "{n} records are in late/{table} for windows that took them, or more than once",
        "what came too late, each record and window once", REBUILD,
    ),
    "late_otherwise": (
        "{n} records are in late/{table} for other windows, or at another place, than they were late for",
        "the windows that did not take them", REBUILD,
    ),
    "decided_in_time": (
        "{n} records were taken in by an intervention and had not come too late", "late records only",
        "Interventions are only written by `lakehouse repair correct`: something else wrote there. Restore its folder "
        "from a backup.",
    ),
    "lost": ("{n} records are the last of their keys, and no row shows them", "a row for each", REBUILD),
    "outdated": (
        "{n} records are shown by rows though their keys have a later record, or were deleted",
        "rows of the last records only", REBUILD,
    ),
    "quarantined_without_row": ("{n} records are in the quarantine and not in bronze", "both", BACKUP),
    "late_without_row": ("{n} records are in late/{table} and not in bronze", "both", BACKUP),
    "shown_without_row": ("{n} records are shown by rows and are not in bronze", "both", BACKUP),
}  # fmt: skip


# The explanations of an offset without a row in bronze (`Missing`), as a table names them.
MISSING = {
    "noted": "in gaps", "expired": "expired", "aborted": "aborted", "own": "Kafka's own", "lost": "lost by bronze",
    "unknown": "unknown", "erased": "erased",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Problem:
    """A fault: the actual state, the expected one, and what to do."""

    found: str
    expected: str
    do: str

    def __str__(self) -> str:
        return f"{self.found}; expected {self.expected}. {self.do}"


@dataclass(frozen=True, slots=True)
class Missing:
    """Offsets of a partition that have no row in bronze, by their explanation.

    noted: in bronze/gaps. expired, aborted, own (a transaction's marker, or compacted), lost: as Kafka says, see
    `lakehouse.kafka.holes`. unknown: Kafka could not be asked; they may be its own. erased: on request.
    """

    noted: int = 0
    expired: int = 0
    aborted: int = 0
    own: int = 0
    lost: int = 0
    unknown: int = 0
    erased: int = 0


@dataclass(frozen=True, slots=True)
class PartitionAudit:
    """A partition's offsets [0, next), up to the table's tick.

    records: rows of bronze. offsets: those that bronze has; each has one fate (see `lakehouse.spark.audit.fates`).
    """

    topic: str
    topic_id: str
    partition: int
    first: int | None
    next: int
    records: int
    offsets: int
    fates: Mapping[str, int]
    partly_late: int
    missing: Missing


@dataclass(frozen=True, slots=True)
class Audit(InNotebook):
    """The result of a table's audit: `ok` if every offset is accounted for, and the sums agree.

    tick: the last tick that the table has taken in; bronze_tick: bronze's last complete tick; waiting: the records in
    between. notes: the checks that were not possible, and why.
    """

    table: str
    tick: int
    bronze_tick: int
    waiting: int
    rows: int
    deep: bool
    partitions: list[PartitionAudit] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.problems

    @property
    def fates(self) -> dict[str, int]:
        """Return how many offsets have each fate, without the fates that no offset has."""
        names = dict.fromkeys(name for partition in self.partitions for name in partition.fates)
        counts = {name: sum(partition.fates[name] for partition in self.partitions) for name in names}
        return {name: count for name, count in counts.items() if count}

    def partition_table(self) -> tuple[str, list[str], list[list[Any]]]:
        """Return a table for people: a title, the columns, and a row for each partition, without empty fates."""
        fate_names = list(self.fates)
        has_partly_late = any(partition.partly_late for partition in self.partitions)
        missing_names = [name for name in MISSING if any(getattr(item.missing, name) for item in self.partitions)]
        # A topic that was deleted and created again stands here twice.
        is_recreated = len({item.topic_id for item in self.partitions}) > len({item.topic for item in self.partitions})
        table_rows = [
            [
                *(item.topic, *([item.topic_id] if is_recreated else []), item.partition),
                *(f"0 to {item.next - 1:,}" if item.next else "none", item.offsets),
                *(item.fates[name] for name in fate_names),
                *([item.partly_late] if has_partly_late else []),
                *(getattr(item.missing, name) for name in missing_names),
            ]
            for item in self.partitions
        ]
        column_names = ["topic", *(["topic id"] if is_recreated else []), "partition", "offsets", "in bronze"]
        column_names += [name.replace("_", " ") for name in fate_names]
        column_names += [*(["partly late"] if has_partly_late else []), *(MISSING[name] for name in missing_names)]
        waiting_text = f"; {self.waiting:,} records wait" if self.waiting else ""
        title = f"{self.table}: {self.rows:,} rows at tick {self.tick} (bronze: {self.bronze_tick}{waiting_text})"
        return title, column_names, table_rows

    def plain(self) -> dict[str, Any]:
        """Return the audit as plain values, for JSON."""
        return {"ok": self.ok, "fates": self.fates, **asdict(self)}


@as_html.register
def _audit_to_html(audit: Audit) -> str:
    title, columns, rows = audit.partition_table()
    lines = [f"note: {note}." for note in audit.notes]
    lines += [f"problem {number}: {problem}" for number, problem in enumerate(audit.problems, 1)]
    lines += ["ok: each offset is accounted for."] if audit.ok else []
    return as_table(columns, rows, cell, title=title) + "".join(map(to_paragraph, lines))


def describe_faults(table: str, place: str, counts_by_fault: Mapping[str, tuple[int, int]]) -> list[Problem]:
    """Return the faults of a partition's offsets: how many of each, and the first."""
    problems = []
    for name, (count, first) in counts_by_fault.items():
        description, expected, remedy = (text.format(n=f"{count:,}", table=table) for text in TEXTS[name])
        problems.append(Problem(f"{place}: {description}; the first: offset {first}", expected, remedy))
    return problems
