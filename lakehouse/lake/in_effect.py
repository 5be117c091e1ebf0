"""The interventions in effect in a table: a revert takes back those after its moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeVar


class InterventionFacts(Protocol):
    """An intervention: the tick at which it takes effect, its kind, and its details."""

    @property
    def at(self) -> int: ...

    @property
    def kind(self) -> str: ...

    @property
    def details(self) -> Mapping[str, Any]: ...


AnyIntervention = TypeVar("AnyIntervention", bound=InterventionFacts)
# Bronze does not have the effects of these kinds: a build of a table from bronze must apply them too.
KINDS_NOT_IN_BRONZE = ("late", "fixed")


def interventions_in_effect(interventions: Sequence[AnyIntervention], tick: int) -> list[AnyIntervention]:
    """Return those interventions in a table that are in effect at a tick, in order."""
    past_interventions = [intervention for intervention in interventions if intervention.at <= tick]
    replacements = [intervention for intervention in past_interventions if intervention.kind in ("revert", "swap")]
    if not replacements:
        return past_interventions
    last_replacement = replacements[-1]
    later_interventions = [intervention for intervention in past_interventions if intervention.at > last_replacement.at]
    if last_replacement.kind == "swap":
        return [
            *(
                intervention
                for intervention in past_interventions
                if intervention.at < last_replacement.at and intervention.kind in KINDS_NOT_IN_BRONZE
            ),
            last_replacement,
            *later_interventions,
        ]
    return [
        *interventions_in_effect(interventions, last_replacement.details["tick"]),
        last_replacement,
        *later_interventions,
    ]
