"""Seeds of random tests: fixed ones, and one that each run draws, prints, and takes again when it is given.

LAKEHOUSE_TEST_SEED=123 make test        runs what the run did that printed 123
"""

from __future__ import annotations

import os
from random import Random, SystemRandom

import pytest

VARIABLE = "LAKEHOUSE_TEST_SEED"
DRAWN = "drawn"


def draw() -> int:
    """Return this run's seed: the given one, else a new one, which the processes that this one starts take over."""
    return int(os.environ.setdefault(VARIABLE, str(SystemRandom().randrange(2**32))))


def seeds(*fixed: int, on_spark: bool = False) -> list[object]:
    """Return values for ``pytest.mark.parametrize("seed", ...)``: the fixed seeds, and this run's.

    on_spark: the fixed ones are among the slow tests; each run of the core has one that nobody had before.
    """
    marks = [pytest.mark.slow] if on_spark else []
    return [*(pytest.param(seed, id=str(seed), marks=marks) for seed in fixed), pytest.param(draw(), id=DRAWN)]


def restarts(seed: int, last: int) -> list[int]:
    """Return the ticks after which the writer of a table is replaced: one or more of those before the last."""
    dice = Random(seed)
    return sorted(dice.sample(range(1, last), dice.randint(1, min(2, last - 1))))
