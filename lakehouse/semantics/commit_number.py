"""The number of a commit: its writer, and its progress.

    version = epoch * 2**40 + tick

A table's commits have this number as Delta's transaction version. A tick is never applied twice, because Delta skips a
number that is not larger than the table's last one. A writer that takes over a table first opens the next epoch; every
commit of an older writer that still runs (a zombie) then has a smaller number, and Delta skips it.
2**40 ticks at ten a second are 3,484 years; 2**23 epochs are left.
"""

from __future__ import annotations

from typing import NamedTuple

TICK_BITS = 40
EPOCH_MAX = 2**23 - 1
TICK_MAX = 2**TICK_BITS - 1
EVER = 2**62  # a tick after all ticks
OPEN_EPOCH = "open epoch"  # the operation of the empty commit that opens an epoch
NO_TICK = 0  # the first tick is 1: a table whose progress is 0 has applied nothing


class Progress(NamedTuple):
    """The progress of a table: its epoch, and the last tick that it has applied (`NO_TICK` for none)."""

    epoch: int
    tick: int

    @property
    def version(self) -> int:
        """The transaction version that carries this progress."""
        if not (0 <= self.epoch <= EPOCH_MAX and 0 <= self.tick <= TICK_MAX):
            raise ValueError(f"epoch {self.epoch}, tick {self.tick}: expected 0 to {EPOCH_MAX} and 0 to {TICK_MAX}")
        return (self.epoch << TICK_BITS) | self.tick


def progress_of_version(version: int) -> Progress:
    """Return the progress that a transaction version carries."""
    return Progress(version >> TICK_BITS, version & TICK_MAX)
