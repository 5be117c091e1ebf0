"""The steps of a stream in the model: the effect on one record. One function per step."""

from __future__ import annotations

from dataclasses import replace
from functools import singledispatch
from typing import Any

from lakehouse.model.evaluate import evaluate
from lakehouse.model.event import Event, epoch_ms
from lakehouse.model.map import mapped
from lakehouse.plan.step import Explode, Filter, Map, Rekey, Retime, Select, Step
from lakehouse.semantics.key_value import key_value
from lakehouse.semantics.years import in_range


@singledispatch
def applied(step: Step, event: Event) -> list[Event]:
    """Return the records that a step makes from one, in order."""
    raise NotImplementedError(type(step))


@applied.register
def _filter(step: Filter, event: Event) -> list[Event]:
    return [event] if not event.tombstone and evaluate(step.predicate, event.values) is True else []


@applied.register
def _select(step: Select, event: Event) -> list[Event]:
    return [_with(event, {item.name.lower(): evaluate(item.expression, event.values) for item in step.columns})]


@applied.register
def _rekey(step: Rekey, event: Event) -> list[Event]:
    made = {
        item.name.lower(): None
        if event.tombstone and step.needs_value(item)
        else key_value(evaluate(item.expression, event.values))
        for item in step.columns
    }
    return [replace(_with(event, made), null_key=all(value is None for value in made.values()))]


@applied.register
def _retime(step: Retime, event: Event) -> list[Event]:
    if event.tombstone:
        return [event]
    time = epoch_ms(evaluate(step.time, event.values))
    return [] if time is None or not in_range(time) else [replace(_with(event, {"rowtime": time}), timestamp=time)]


@applied.register
def _explode(step: Explode, event: Event) -> list[Event]:
    name = step.column.name.lower()
    items = [] if event.tombstone else evaluate(step.column.expression, event.values) or []
    return [
        replace(_with(event, {name: item}), position=event.position.numbered(number))
        for number, item in enumerate(items)
    ]


@applied.register
def _map(step: Map, event: Event) -> list[Event]:
    return [_with(event, {step.name.lower(): None if event.tombstone else mapped(step, event.values)})]


def _with(event: Event, made: dict[str, Any]) -> Event:
    return replace(event, values={**event.values, **made})
