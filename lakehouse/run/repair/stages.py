"""A repair as a plan: frozen stages, in the order in which they are carried out.

A plan is made by reading. It refuses what the repair would refuse, and it changes no table of the lake:

    backfill.py   plan_range, plan_revert; plan_backfill, which first builds the table beside the live one
    deploy/       plan_deployment, which first builds all tables whose logic is new beside the live ones
    correct.py    plan_correction
    replay.py     plan_replay; without Spark, as long as no table was restored from a topic

`lakehouse.run.repair.carry_out` carries a plan out, at once or later. The log of interventions keeps its stages.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeAlias, TypeVar

from lakehouse.markup.quantity import quantity
from lakehouse.plan.evolution.change import declaration_of
from lakehouse.plan.table import Table

if TYPE_CHECKING:
    from lakehouse.lake.record.fixed_records import FixedBytes
    from lakehouse.spark.bronze.interventions import Kind


@dataclass(frozen=True, slots=True)
class LateChoice:
    """A selection of a table's late records: of one key, by its text, and of windows that begin in [start, end)."""

    key: str | None = None
    start: datetime | None = None
    end: datetime | None = None


@dataclass(frozen=True, slots=True)
class RequireStopped:
    """No job may keep the table: with its old logic it must not go on with the new content."""

    table: str

    def describe(self) -> str:
        return f"make sure that no job keeps table {self.table}: it would go on with the old logic"


@dataclass(frozen=True, slots=True)
class KeepAnchor:
    """The table's content at a tick is copied as an anchor, for a way back. repair: what it is made before."""

    table: str
    tick: int
    repair: str

    def describe(self) -> str:
        return f"copy table {self.table} as it is at tick {self.tick} as an anchor"


@dataclass(frozen=True, slots=True)
class KeepLate:
    """The places of late records are kept for the intervention. last_tick: the records came up to this tick."""

    table: str
    choice: LateChoice
    last_tick: int
    records: int

    def describe(self) -> str:
        late_records = quantity(self.records, "late record")
        return f"keep the places of {late_records} of table {self.table}, up to tick {self.last_tick}"


@dataclass(frozen=True, slots=True)
class KeepFixes:
    """Quarantined records are kept for the intervention, with the bytes that count instead."""

    stream: str
    fixes: tuple[FixedBytes, ...]

    def describe(self) -> str:
        return f"keep the new bytes of {quantity(len(self.fixes), 'record')} of stream {self.stream}"


@dataclass(frozen=True, slots=True)
class Intervene:
    """The intervention gets its rows in the log and its tick, and the tables are brought to that tick.

    details: of all tables. table_details: further ones, by table.
    """

    kind: Kind
    tables: tuple[str, ...]
    details: Mapping[str, Any]
    table_details: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def describe(self) -> str:
        return f"decide on the intervention {self.kind}, at a tick of its own, and bring {', '.join(self.tables)} to it"


@dataclass(frozen=True, slots=True)
class RemoveBuild:
    """The tables that were built beside the live ones are removed. beside: the name of that set of tables."""

    tables: tuple[str, ...]
    beside: str

    def describe(self) -> str:
        return f"remove what was built beside {tables_text(self.tables)}"


def tables_text(names: Sequence[str]) -> str:
    """Return the names of tables, with the word for them."""
    return f"{'table' if len(names) == 1 else 'tables'} {', '.join(names)}"


Stage: TypeAlias = RequireStopped | KeepAnchor | KeepLate | KeepFixes | Intervene | RemoveBuild


class RepairOutcome(Protocol):
    """The outcome of a repair; without a tick it is planned, or nothing had to be done."""

    def at_tick(self, tick: int) -> Self:
        """Return the outcome of the repair once it is done, by the intervention of a tick."""
        ...


AnyOutcome = TypeVar("AnyOutcome", bound=RepairOutcome)


@dataclass(frozen=True, slots=True)
class Basis:
    """The state of the lake from which a plan was made.

    decided_tick: of the last intervention in any table. declarations: the fingerprints of the tables, by their names.
    """

    decided_tick: int
    declarations: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class RepairPlan(Generic[AnyOutcome]):
    """The stages of a repair; without stages nothing has to be done.

    expected: the outcome if it is carried out now. is_exclusive: no other backfill or revert of its tables may run
    meanwhile.
    """

    stages: tuple[Stage, ...]
    expected: AnyOutcome
    basis: Basis
    is_exclusive: bool = True

    @property
    def has_intervention(self) -> bool:
        """Whether its tables change."""
        return any(isinstance(stage, Intervene) for stage in self.stages)

    def describe(self) -> list[str]:
        """Return a line for each stage."""
        return [stage.describe() for stage in self.stages]


def basis_of(tables: Iterable[Table], decided_tick: int) -> Basis:
    """Return the basis of a plan for these tables, as they are declared."""
    return Basis(decided_tick, {table.name: declaration_of(table) for table in tables})
