"""Counts the users' functions that fail on records of a batch, in the pass that folds it."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from lakehouse.semantics.aggregate.custom import Custom, Reduce
from lakehouse.semantics.aggregate.undo import CustomRows, FromRows
from lakehouse.semantics.failures import Failed, Tally, merge_failures
from lakehouse.semantics.position import Position
from lakehouse.spark.fold.forms.aggregates import Form


class FailureCounter:
    """Counts while Spark reads the records. `result` is available once it has read the returned frames."""

    def __init__(self) -> None:
        self._observations: dict[Hashable, tuple[str, Observation]] = {}

    def mapped(self, place: Hashable, function: str, rows: DataFrame, error: Column) -> DataFrame:
        """Count a stream's records with an error. place: the map's place in the streams; each place is counted once."""
        return self._observe(
            place, function, rows, F.count_if(error.isNotNull()), _first_failure(error, F.col("_position"))
        )

    def count_folded(self, forms: list[Form], folded_keys: DataFrame) -> DataFrame:
        """Count the `_failed` of the keyed fold: an item for each form with a function, in their order."""
        for form_number, form in enumerate(form for form in forms if is_function(form)):
            item = F.col("_failed")[form_number]
            function_name = f"{form.item.kind} {form.name}"
            failed_records = F.coalesce(F.sum(item["records"]), F.lit(0))
            folded_keys = self._observe(
                form.name, function_name, folded_keys, failed_records, _first_failure(item["error"], item["position"])
            )
        return folded_keys

    def result(self) -> tuple[Failed, ...]:
        """Return the functions that failed."""
        function_counts = [(function, observation.get) for function, observation in self._observations.values()]
        failures = [
            (function, counts["first"], counts["records"]) for function, counts in function_counts if counts["records"]
        ]
        failures.sort(key=lambda item: Position.of(item[1]["position"].asDict()))
        return merge_failures(
            (),
            [
                Failed(name, records, _format_place(first_error), first_error["error"])
                for name, first_error, records in failures
            ],
        )

    def _observe(
        self, key: Hashable, function_name: str, rows: DataFrame, failed_records: Column, first_error: Column
    ) -> DataFrame:
        if key in self._observations:
            return rows
        observation = Observation()
        self._observations[key] = function_name, observation
        return rows.observe(observation, failed_records.alias("records"), first_error.alias("first"))


def is_function(form: Form) -> bool:
    """Say whether a form has a user's functions."""
    rule = form.bound.rule
    return isinstance(rule.rule if isinstance(rule, FromRows | CustomRows) else rule, Reduce | Custom)


def with_tally(form: Form, tally: Tally | None) -> Any:
    """Return a form's rule, with the tally as the listener to its functions' errors."""
    rule: Any = form.bound.rule
    return rule.with_listener(tally) if tally is not None and is_function(form) else rule


def _first_failure(error: Column, position: Column) -> Column:
    return F.min(F.when(error.isNotNull(), F.struct(position.alias("position"), error.alias("error"))))


def _format_place(first_error: Any) -> str:
    position = first_error["position"]
    return f"{position['topic']}/{position['partition']}/{position['offset']}"
