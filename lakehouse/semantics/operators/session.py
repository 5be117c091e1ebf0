"""Sessions: a record joins every session that it is close enough to; these become one (rules 14 and 17).

    gap 5        o-o      o-o            two sessions: [1, 3] and [10, 12]
    record at 7      \\ o /               3 + 5 >= 7 and 7 + 5 >= 10: both are absorbed
                 o-o   o  o-o            one: [1, 12]. Changelog: two tombstones, then the merged session

Kafka Streams: `KStreamSessionWindowAggregate`. A gap exactly equal to the limit still merges. Lateness is decided for
the session that the record would become part of, not for the record alone.

Two choices make the result independent of when old rows are removed. First, a record never joins, through a later
session, a session that it could no longer join alone (in Kafka Streams this depends on the store's retention). Second,
with final results a closed session takes no more records: a record near it that is not late itself begins its own
session, so that it counts in one final row. (Kafka Streams would emit the merged session besides the emitted one.)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any

from lakehouse.semantics.operators.cell import Arrival, Cell, CellChange, Cells, Outcome, Rules, empty_accumulators
from lakehouse.semantics.time.window import Session, Span


@dataclass(frozen=True, slots=True)
class Sessions:
    """Session windows: one row per key and session, by the times of its first and last record."""

    rules: Rules
    window: Session
    final: bool = False

    def apply(self, cells: Cells, record: Arrival) -> Outcome:
        gap_ms = self.window.gap
        reached_spans = cells.spans_reaching(record.time - gap_ms, record.time + gap_ms)
        open_spans = [span for span in reached_spans if self._is_open(span, record)]
        span = Span(
            min([record.time, *(open_span.start for open_span in open_spans)]),
            max([record.time, *(open_span.end for open_span in open_spans)]),
        )
        if self.window.closing_time(span) <= record.horizon:
            return [], [span]
        # A session that only grows is merged with nothing: a user's own merge may fail on an empty accumulator.
        absorbed = [cells[open_span].accumulators for open_span in open_spans]
        accumulators = reduce(self._merge, absorbed) if absorbed else empty_accumulators(self.rules)
        change_steps = []
        for open_span in open_spans:
            del cells[open_span]
            # A record at the exact time of a one-moment session only adds to it.
            if span != Span(record.time, record.time):
                change_steps.append(CellChange(open_span, None, open_span.end))
        new_accumulators = tuple(
            rule.add(accumulator, value, record.order)
            for rule, accumulator, value in zip(self.rules, accumulators, record.values, strict=True)
        )
        cells[span] = cell = Cell(new_accumulators, span.end, record.order)
        return [*change_steps, CellChange(span, cell, span.end)], []

    def _merge(self, earlier: tuple[Any, ...], later: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(rule.merge(*pair) for rule, *pair in zip(self.rules, earlier, later, strict=True))

    def _is_open(self, span: Span, record: Arrival) -> bool:
        if self.final:
            return self.window.closing_time(span) > record.horizon
        return span.end + self.window.needed_after_end >= record.horizon
