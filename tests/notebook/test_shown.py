"""What a notebook shows: tables and a picture, in which nothing of a record acts or hides."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import pyarrow as pa
import pytest

import lakehouse as lh
from lakehouse.lake.moment.answer import QueryAnswer
from lakehouse.lake.row.difference import difference  # registers how a difference is shown
from lakehouse.markup.text import ROWS_SHOWN, to_html_table, to_safe_html
from lakehouse.run.audit.finding import Audit, Missing, PartitionAudit, Problem
from lakehouse.run.explain.explanation import Explained, ExplainedRows, RowStep
from lakehouse.run.watch.event import JobEvent
from lakehouse.run.watch.progress import Bar
from lakehouse.semantics.difference import Difference
from lakehouse.semantics.position import Position
from lakehouse.semantics.record import Record

HOSTILE = "<script>alert('x')</script><img src=x onerror=\"y\">\u202e\x1b[2J&amp;"
ALLOWED = {
    "table",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "p",
    "b",
    "pre",
    "svg",
    "g",
    "title",
    "rect",
    "text",
    "path",
    "style",
}

orders = lh.stream("orders", key="id string", schema="customer string, amount bigint", name="orders")
current = orders.latest("current")
totals = orders.group_by("customer").agg(total=lh.sum("amount")).table("totals")
app = lh.app(current, totals, totals.changes().to_topic("totals-changelog"))


class Tags(HTMLParser):
    """Collects what a browser would see as tags and their handlers."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.handlers: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.handlers += [name for name, _ in attrs if name.startswith("on") or name in ("src", "href")]


def harmless(html: str) -> bool:
    seen = Tags()
    seen.feed(html)
    return seen.tags <= ALLOWED and not seen.handlers and not any(c in html for c in "\u202e\x1b")


def record(text: str) -> Record:
    return Record("orders", "i", 0, 7, 0, b"k", text.encode(), 1, 0)


STEP = RowStep(Position(1, 0, "orders", 0, 7), "inserted", {"v": HOSTILE}, 0, record(HOSTILE), HOSTILE, HOSTILE)
EVERY = {
    "answer": QueryAnswer(pa.table({HOSTILE: [HOSTILE, None], "n": [1999, 2]})),
    "difference": Difference(
        added=1, changes=[{"change": "added", "key": {"id": HOSTILE}, "before": None, "after": {HOSTILE: HOSTILE}}]
    ),
    "explanation": ExplainedRows(
        [
            Explained(
                {"id": HOSTILE},
                (STEP,),
                {"v": HOSTILE}, False, HOSTILE,
            )
        ]
    ),
    "audit": Audit(
        HOSTILE, 1, 1, 0, 2, False, [PartitionAudit(HOSTILE, "i", 0, 0, 2, 2, 2, {"row": 2}, 0, Missing(lost=1))],
        [Problem(HOSTILE, HOSTILE, HOSTILE)], [HOSTILE],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EVERY)
def test_a_record_does_nothing_in_a_browser(name: str) -> None:
    html = EVERY[name]._repr_html_()
    assert "&lt;script&gt;" in html
    assert "\\u202e" in html
    assert harmless(html)


def test_values_are_shown_as_they_are() -> None:
    html = QueryAnswer(pa.table({"year": [1999], "ok": [True], "none": pa.array([None], pa.string())}))._repr_html_()
    assert ">1999</td>" in html
    assert ">true</td>" in html
    assert ">null</td>" in html


def test_a_long_answer_is_cut_and_says_so() -> None:
    html = to_html_table(["n"], [[n] for n in range(ROWS_SHOWN + 1)], str)
    assert html.count("<tr>") == ROWS_SHOWN + 1
    assert f"the first {ROWS_SHOWN} of {ROWS_SHOWN + 1} rows" in html


def test_a_difference_shows_only_what_differs() -> None:
    assert difference is not None
    changed = {"change": "changed", "key": {"id": 1}, "before": {"a": 1, "b": 2}, "after": {"a": 1, "b": 3}}
    html = Difference(changed=1, changes=[changed])._repr_html_()
    assert ">b=2</td>" in html
    assert ">b=3</td>" in html
    assert "a=1" not in html
    assert "No row differs." in Difference()._repr_html_()


def test_what_became_of_offsets_and_what_explains_missing_ones_are_columns_of_their_own() -> None:
    """Both know a "lost": of offsets that bronze has, and of those that it has not."""
    part = PartitionAudit("orders", "i", 0, 0, 9, 7, 7, {"lost": 5, "null_key": 2, "late": 0}, 3, Missing(lost=2))
    title, columns, rows = Audit("t", 1, 2, 4, 6, False, [part]).partition_table()
    assert title == "t: 6 rows at tick 1 (bronze: 2; 4 records wait)"
    assert dict(zip(columns, rows[0], strict=True)) == {
        "topic": "orders", "partition": 0, "offsets": "0 to 8", "in bronze": 7, "lost": 5, "null key": 2,
        "partly late": 3, "lost by bronze": 2,
    }  # fmt: skip


def test_an_application_is_a_picture_with_its_text() -> None:
    html = app._repr_html_()
    assert harmless(html)
    picture = html[: html.index("</svg>") + 6]
    assert f"{picture}\n" == lh.lineage(app).svg()
    space = "{http://www.w3.org/2000/svg}"
    assert [title.text for title in ET.fromstring(picture).iter(f"{space}title")] == [
        "topic orders", "stream orders", "table current", "table totals", "changelog totals-changelog",
    ]  # fmt: skip
    assert "TABLE totals (key customer)" in html
    assert "<svg" in totals._repr_html_()
    assert "<pre" in orders._repr_html_()


def test_a_picture_changes_nothing_else_of_the_page_that_it_stands_in() -> None:
    style = re.findall(r"<style>(.*?)</style>", lh.lineage(app).svg())[0]
    assert all(rule.startswith(".lineage ") for rule in style.removesuffix("}").split("}"))


def test_describe_is_a_text_with_a_picture() -> None:
    described = lh.describe(app)
    assert described.startswith("TABLE current (key id)")
    assert described._repr_html_() == app._repr_html_()


def test_other_declarations_are_shown_by_their_text() -> None:
    grouped = orders.group_by("customer")
    assert to_safe_html(repr(grouped)) in grouped._repr_html_()


class Screen:
    """Stands for IPython's display."""

    def __init__(self) -> None:
        self.drawn: list[str] = []

    def __call__(self, shown: object, display_id: bool) -> Screen:
        self.update(shown)
        return self

    def update(self, shown: object) -> None:
        self.drawn.append(shown._repr_html_())


def test_the_bar_of_a_run_fills() -> None:
    screen = Screen()
    bar = Bar(10, screen)
    bar.take_in(JobEvent("tick", 1, 10, 0.1))
    bar.take_in(JobEvent("batch", 1, 10, 0.2))
    bar.take_in(JobEvent(HOSTILE, 1, 0, 0.2))
    bar.end()
    assert [html[: html.index("</progress>")] for html in screen.drawn] == [
        f'<progress value="{done}" max="20">' for done in (0, 10, 20, 20, 20)
    ]
    assert "10 of 10 records in bronze, tick 1" in screen.drawn[-1]
    assert "<script" not in screen.drawn[3]
