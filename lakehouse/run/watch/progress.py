"""The bar of a run until it has caught up, in a notebook; elsewhere there is none."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from lakehouse.kafka.topics import Cluster
from lakehouse.markup.text import to_safe_html
from lakehouse.plan.app import App
from lakehouse.run.start import notebook
from lakehouse.run.watch.event import JobEvent, Listen
from lakehouse.run.watch.lag import count_waiting
from lakehouse.settings.config import Settings


@contextmanager
def show_in_notebook(settings: Settings, app: App, servers: str, listen: Listen) -> Iterator[Listen]:
    """Give the listener of a run: `listen`, and in a notebook a bar as well."""
    if not notebook.is_notebook():
        yield listen
        return
    from IPython.display import display

    waiting = count_waiting(settings, app, Cluster(servers, settings.kafka.options))
    bar = Bar(sum(waiting.values()), display)

    def pass_on(event: JobEvent) -> None:
        bar.take_in(event)
        listen(event)

    yield pass_on
    bar.end()


class Bar:
    """A bar for a run until it has caught up, by the run's events; drawn in one place of the cell's output."""

    def __init__(self, waiting: int, display: Callable[..., Any]) -> None:
        self._display, self._waiting, self._began = display, waiting, time.monotonic()
        self._ingested = self._in_tables = self._tick = 0
        self._handle: Any = None
        self._draw("starting")

    def take_in(self, event: JobEvent) -> None:
        """Take in an event of the run."""
        if event.kind == "tick":
            self._ingested += event.records
        elif event.kind == "batch":
            self._in_tables += event.records
        self._tick = max(self._tick, event.tick)
        self._draw(event.kind)

    def end(self) -> None:
        """Draw the bar full."""
        self._waiting = min(self._waiting, self._ingested)
        self._draw("caught up")

    def _draw(self, doing: str) -> None:
        most = max(self._waiting, self._ingested)
        # Half of the bar is for the records in bronze, the other half for those in the tables.
        done_count = 2 * most if doing == "caught up" else self._ingested + min(self._in_tables, most)
        text = (
            f"{doing}: {self._ingested:,} of {most:,} records in bronze, tick {self._tick}, "
            f"{time.monotonic() - self._began:.0f} s"
        )
        html = Html(f'<progress value="{done_count}" max="{max(2 * most, 1)}"></progress> {to_safe_html(text)}', text)
        if self._handle is None:
            self._handle = self._display(html, display_id=True)
        else:
            self._handle.update(html)


class Html:
    """HTML for a notebook, and the text for where there is none."""

    def __init__(self, html: str, text: str) -> None:
        self._html, self._text = html, text

    def _repr_html_(self) -> str:
        return self._html

    def __repr__(self) -> str:
        return self._text
