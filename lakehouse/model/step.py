"""The steps of a stream in the model, a function each: their effect on one record."""

from __future__ import annotations

from dataclasses import replace
from functools import singledispatch
from typing import Any

from lakehouse.model.evaluate import evaluate
from lakehouse.model.event import Event, to_epoch_ms
from lakehouse.model.map import call_map_function
from lakehouse.plan.step import Explode, Filter, Judge, Map, Rekey, Retime, Select, Step
from lakehouse.semantics.key_value import key_value
from lakehouse.semantics.time.years import is_possible_time


@singledispatch
def apply_step(step: Step, event: Event) -> list[Event]:
    """Return the records that a step makes of one record, in order."""
    raise NotImplementedError(type(step))


@apply_step.register
def _apply_filter(step: Filter, event: Event) -> list[Event]:
    return [event] if not event.tombstone and evaluate(step.predicate, event.values) is True else []


@apply_step.register
def _apply_judge(step: Judge, event: Event) -> list[Event]:
    return [event]  # the model has no commits that count, and no run that stops


@apply_step.register
def _apply_select(step: Select, event: Event) -> list[Event]:
    return [_with_values(event, {item.name.lower(): evaluate(item.expression, event.values) for item in step.columns})]


@apply_step.register
def _apply_rekey(step: Rekey, event: Event) -> list[Event]:
    key_values = {
        item.name.lower(): None
        if event.tombstone and step.needs_value(item)
        else key_value(evaluate(item.expression, event.values))
        for item in step.columns
    }
    return [replace(_with_values(event, key_values), null_key=all(value is None for value in key_values.values()))]


@apply_step.register
def _apply_retime(step: Retime, event: Event) -> list[Event]:
    if event.tombstone:
        return [event]
    time = to_epoch_ms(evaluate(step.time, event.values))
    return (
        []
        if time is None or not is_possible_time(time)
        else [replace(_with_values(event, {"rowtime": time}), timestamp=time)]
    )


@apply_step.register
def _apply_explode(step: Explode, event: Event) -> list[Event]:
    column_name = step.column.name.lower()
    items = [] if event.tombstone else evaluate(step.column.expression, event.values) or []
    return [
        replace(_with_values(event, {column_name: item}), position=event.position.with_number(number))
        for number, item in enumerate(items)
    ]


@apply_step.register
def _apply_map(step: Map, event: Event) -> list[Event]:
    return [
        _with_values(event, {step.name.lower(): None if event.tombstone else call_map_function(step, event.values)})
    ]


def _with_values(event: Event, changed_values: dict[str, Any]) -> Event:
    return replace(event, values={**event.values, **changed_values})
