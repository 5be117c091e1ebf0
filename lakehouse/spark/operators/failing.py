"""Counts the users' functions that fail on records of a batch, in the pass that folds it."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from lakehouse.semantics.aggregate.custom import Custom, Reduce
from lakehouse.semantics.aggregate.undo import CustomRows, FromRows
from lakehouse.semantics.failures import Failed, Tally, added
from lakehouse.semantics.position import Position
from lakehouse.spark.operators.aggregates import Form


class Failing:
    """Counts on the way. `result` is known once the returned frames have been read."""

    def __init__(self) -> None:
        self._seen: dict[Hashable, tuple[str, Observation]] = {}

    def mapped(self, place: Hashable, function: str, rows: DataFrame, error: Column) -> DataFrame:
        """Count a stream's records with an error. place: the map's place in the streams; each place is counted once."""
        return self._watched(place, function, rows, F.count_if(error.isNotNull()), _first(error, F.col("_position")))

    def folded(self, forms: list[Form], folded: DataFrame) -> DataFrame:
        """Count the `_failed` of the keyed fold: an item for each form with a function, in their order."""
        for number, form in enumerate(form for form in forms if is_function(form)):
            item = F.col("_failed")[number]
            function = f"{form.item.kind} {form.name}"
            records = F.coalesce(F.sum(item["records"]), F.lit(0))
            folded = self._watched(form.name, function, folded, records, _first(item["error"], item["position"]))
        return folded

    def result(self) -> tuple[Failed, ...]:
        """Return the functions that failed."""
        found = [(function, seen.get) for function, seen in self._seen.values()]
        failed = [(function, counts["first"], counts["records"]) for function, counts in found if counts["records"]]
        failed.sort(key=lambda item: Position.of(item[1]["position"].asDict()))
        return added((), [Failed(name, records, _place(first), first["error"]) for name, first, records in failed])

    def _watched(self, key: Hashable, function: str, rows: DataFrame, records: Column, first: Column) -> DataFrame:
        if key in self._seen:
            return rows
        seen = Observation()
        self._seen[key] = function, seen
        return rows.observe(seen, records.alias("records"), first.alias("first"))


def is_function(form: Form) -> bool:
    """Say whether a form has a user's functions."""
    rule = form.bound.rule
    return isinstance(rule.rule if isinstance(rule, FromRows | CustomRows) else rule, Reduce | Custom)


def tallied(form: Form, tally: Tally | None) -> Any:
    """Return a form's rule; its functions' errors go to the tally."""
    rule: Any = form.bound.rule
    return rule.watched(tally) if tally is not None and is_function(form) else rule


def _first(error: Column, position: Column) -> Column:
    return F.min(F.when(error.isNotNull(), F.struct(position.alias("position"), error.alias("error"))))


def _place(first: Any) -> str:
    at = first["position"]
    return f"{at['topic']}/{at['partition']}/{at['offset']}"
