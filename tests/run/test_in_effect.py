"""Which interventions a table has at a tick: a revert takes later ones back, a rebuilt table has them again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest

from lakehouse.lake.in_effect import interventions_in_effect


class At(NamedTuple):
    at: int
    kind: str
    details: Mapping[str, Any] = {}


FIX, LATE, REFOLD = At(2, "fixed"), At(4, "late"), At(5, "refold")
BACK = At(6, "revert", {"tick": 3})  # to before the late records, after the fix
AGAIN, SWAP = At(8, "late"), At(9, "swap")
FAR = At(11, "revert", {"tick": 5})  # to before the first revert


@pytest.mark.parametrize(
    ("tick", "kinds"),
    [
        (1, []),
        (5, [FIX, LATE, REFOLD]),
        (6, [FIX, BACK]),
        (8, [FIX, BACK, AGAIN]),
        (9, [FIX, LATE, AGAIN, SWAP]),
        (11, [FIX, LATE, REFOLD, FAR]),
    ],
)
def test_an_intervention_that_was_taken_back_has_no_effect(tick: int, kinds: list[At]) -> None:
    assert interventions_in_effect([FIX, LATE, REFOLD, BACK, AGAIN, SWAP, FAR], tick) == kinds
