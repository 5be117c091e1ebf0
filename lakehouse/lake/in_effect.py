"""Which interventions are in effect in a table: a revert takes back those after its moment."""

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
# Bronze does not have these: whoever builds a table from bronze takes them in as well.
LACKED = ("late", "fixed")


def in_effect(decisions: Sequence[Of], tick: int) -> list[Of]:
    """Return a table's interventions that are in effect in it at a tick, in order."""
    mine = [at for at in decisions if at.at <= tick]
    whole = [at for at in mine if at.kind in ("revert", "swap")]
    if not whole:
        return mine
    last = whole[-1]
    later = [at for at in mine if at.at > last.at]
    if last.kind == "swap":
        return [*(at for at in mine if at.at < last.at and at.kind in LACKED), last, *later]
    return [*in_effect(decisions, last.details["tick"]), last, *later]
