"""Which of the interventions in a table have their effect in it: a revert takes back those after its moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeVar


class Decided(Protocol):
    """An intervention: the tick at which it takes effect, its kind, and its details."""

    @property
    def at(self) -> int: ...

    @property
    def kind(self) -> str: ...

    @property
    def details(self) -> Mapping[str, Any]: ...


Of = TypeVar("Of", bound=Decided)
# What bronze lacks: whoever makes a table from bronze takes it in.
LACKED = ("late", "fixed")


def in_effect(decisions: Sequence[Of], tick: int) -> list[Of]:
    """Return those of a table's interventions, in order, whose effect it has at a tick."""
    mine = [at for at in decisions if at.at <= tick]
    whole = [at for at in mine if at.kind in ("revert", "swap")]
    if not whole:
        return mine
    last = whole[-1]
    later = [at for at in mine if at.at > last.at]
    if last.kind == "swap":
        return [*(at for at in mine if at.at < last.at and at.kind in LACKED), last, *later]
    return [*in_effect(decisions, last.details["tick"]), last, *later]
