"""Commands that go on until Ctrl-C: they look again and again, and show each change."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from typing import TypeVar

PAUSE_SECONDS = 1.0
T = TypeVar("T")


def pause_between_looks() -> None:
    """Wait until the next look."""
    time.sleep(PAUSE_SECONDS)


def each_change(look: Callable[[], T]) -> Iterator[T]:
    """Yield the result of `look` at once, and whenever it changes. Ctrl-C ends it, see `until_ctrl_c`."""
    last_value = look()
    yield last_value
    while True:
        pause_between_looks()
        if (new_value := look()) != last_value:
            last_value = new_value
            yield last_value


def until_ctrl_c() -> AbstractContextManager[None]:
    """Return a context in which Ctrl-C is the normal end, whenever it comes."""
    return suppress(KeyboardInterrupt)
