"""Counts the users' functions that fail on records of a batch, and the records that do not meet an expectation which
only warns, in the pass that folds the batch."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

from pyspark.sql import Column, DataFrame, Observation, Row
from pyspark.sql import functions as F

from lakehouse.plan.expectation import Expectation
from lakehouse.semantics.aggregate.custom import Custom, Reduce
from lakehouse.semantics.aggregate.undo import CustomRows, RowsByKey
from lakehouse.semantics.failures import ERROR_LENGTH_MAX, EXPECTATION, FunctionFailures, Tally, merge_failures
from lakehouse.semantics.position import Position
from lakehouse.spark.fold.forms.aggregates import Form
from lakehouse.spark.padded_struct import padded_struct
from lakehouse.spark.stream.decoded import is_unmet

Describe: TypeAlias = Callable[[Any], str]  # makes the text of the first failure, of what was observed
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class FailureCounter:
    """Counts while Spark reads the records. `collect_failures` is available once it has read the returned frames."""

    def __init__(self) -> None:
        self._observations: dict[Hashable, tuple[str, Observation, Describe]] = {}

    def count_map_failures(self, place: Hashable, function: str, rows: DataFrame, error: Column) -> DataFrame:
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

    def count_unmet(self, place: Hashable, name: str, expectation: Expectation, rows: DataFrame) -> DataFrame:
        """Count a stream's records that do not meet an expectation, though they are taken in: see `RowCounter`."""
        is_counted = is_unmet(expectation)
        shown_types = dict(rows.select(*expectation.shown_columns).dtypes)
        # An observation would give a timestamp in the zone of this process.
        values = [
            (F.unix_micros(column_name) if shown_types[column_name] == "timestamp" else F.col(column_name))
            .alias(column_name)
            for column_name in shown_types
        ]  # fmt: skip
        first_values = F.when(is_counted, padded_struct(*values))

        def describe(values_row: Row) -> str:
            values = values_row.asDict()
            for column_name, type_name in shown_types.items():
                if type_name == "timestamp" and values[column_name] is not None:
                    values[column_name] = EPOCH + timedelta(microseconds=values[column_name])
            return expectation.reason(values).removeprefix(expectation.reason_start)[:ERROR_LENGTH_MAX]

        first = _first_failure(first_values, F.col("_position"))
        return self._observe((name, place), f"{EXPECTATION}{name}", rows, F.count_if(is_counted), first, describe)

    def collect_failures(self) -> tuple[FunctionFailures, ...]:
        """Return the functions that failed."""
        function_counts = [
            (function, observation.get, describe) for function, observation, describe in self._observations.values()
        ]
        failures = [
            (function, counts["first"], counts["records"], describe)
            for function, counts, describe in function_counts
            if counts["records"]
        ]
        failures.sort(key=lambda item: Position.from_fields(item[1]["position"].asDict()))
        return merge_failures(
            (),
            [
                FunctionFailures(name, records, _format_place(first_error), describe(first_error["error"]))
                for name, first_error, records, describe in failures
            ],
        )

    def _observe(
        self,
        key: Hashable,
        function_name: str,
        rows: DataFrame,
        failed_records: Column,
        first_error: Column,
        describe: Describe = str,
    ) -> DataFrame:
        if key in self._observations:
            return rows
        observation = Observation()
        self._observations[key] = function_name, observation, describe
        return rows.observe(observation, failed_records.alias("records"), first_error.alias("first"))


def is_function(form: Form) -> bool:
    """Say whether a form has a user's functions."""
    rule = form.bound.rule
    return isinstance(rule.rule if isinstance(rule, RowsByKey | CustomRows) else rule, Reduce | Custom)


def with_tally(form: Form, tally: Tally | None) -> Any:
    """Return a form's rule, with the tally as the listener to its functions' errors."""
    rule: Any = form.bound.rule
    return rule.with_listener(tally) if tally is not None and is_function(form) else rule


def _first_failure(error: Column, position: Column) -> Column:
    return F.min(F.when(error.isNotNull(), F.struct(position.alias("position"), error.alias("error"))))


def _format_place(first_error: Any) -> str:
    position = first_error["position"]
    return f"{position['topic']}/{position['partition']}/{position['offset']}"
