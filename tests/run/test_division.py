"""An application divided among processes: what reads another table stays with it, and each thing is in one part."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lakehouse as lh
from lakehouse.errors import ConfigError
from lakehouse.run.start.division import groups_of, limited_to, part_of

ORDERS = lh.stream("orders", key="id string", schema="customer string, amount bigint")
CLICKS = lh.stream("clicks", key="id string", schema="page string")


def on_record(record: lh.StreamRecord) -> None:
    """Do nothing with it."""


def application() -> lh.App:
    totals = ORDERS.group_by("customer").agg(n=lh.count()).table("totals")
    sizes = totals.group_by("n").agg(customers=lh.count()).table("sizes")
    latest = ORDERS.latest("latest_order")
    pages = CLICKS.group_by("page").agg(n=lh.count()).table("pages")
    enriched = ORDERS.join(totals, on="customer", how="left").to_topic("enriched")
    return lh.app(
        sizes, latest, pages, enriched, latest.changes().to_topic("latest-out"), CLICKS.to_topic("raw-clicks"),
        CLICKS.to_function("teller", on_record),
    )  # fmt: skip


def names(app: lh.App) -> set[str]:
    return {
        *(table.name for table in app.tables),
        *(sink.topic for sink in app.sinks),
        *(function.name for function in app.functions),
    }


def test_groups() -> None:
    assert [str(group) for group in groups_of(application())] == [
        "table totals, table sizes, topic enriched",
        "table latest_order, topic latest-out",
        "table pages",
        "topic raw-clicks",
        "function teller",
    ]


def test_parts_are_of_like_size_and_equal_in_each_process() -> None:
    parts = [part_of(application(), f"{number}/3") for number in (1, 2, 3)]
    assert [names(part) for part in parts] == [
        {"totals", "sizes", "enriched"},
        {"latest_order", "latest-out", "teller"},
        {"pages", "raw-clicks"},
    ]
    assert [{source.name for source in part.sources} for part in parts] == [
        {"orders"},
        {"orders", "clicks"},
        {"clicks"},
    ]
    assert parts == [part_of(application(), f"{number}/3") for number in (1, 2, 3)]
    assert part_of(application(), "1/1") == application()


@pytest.mark.parametrize(
    "text", ["", "1", "0/2", "3/2", "1/0", "-1/2", "1/2/3", " 1/2", "1/x", "\u0661/2", "1/9999999"]
)
def test_a_part_that_is_none(text: str) -> None:
    with pytest.raises(ConfigError, match=r"such as 1/3 for the first of three"):
        part_of(application(), text)


def test_more_parts_than_groups() -> None:
    with pytest.raises(ConfigError, match=r"has 5 groups(.|\n)*at most 5 parts:\n  table totals, table sizes, topic"):
        part_of(application(), "1/6")


def test_chosen_tables() -> None:
    app = limited_to(application(), ["Pages", "latest_order"])
    assert names(app) == {"latest_order", "pages", "latest-out"}
    assert {source.name for source in app.sources} == {"orders", "clicks"}
    assert names(limited_to(application(), ["raw-clicks", "teller"])) == {"raw-clicks", "teller"}


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        (["totals"], r"'totals' stays in one process with 'sizes'(.|\n)*together: totals,sizes\."),
        (["pagse"], r"'pagse' is not in this application\. Did you mean 'pages'\? There are: totals, sizes, latest_"),
        (["latest-out"], "'latest-out' is not in this application"),
        ([], "expected at least one name"),
    ],
)
def test_tables_that_can_not_be_chosen(chosen: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        limited_to(application(), chosen)


def test_a_stream_that_nothing_reads_has_a_part() -> None:
    from dataclasses import replace

    app = lh.app(ORDERS.latest("latest_order"))
    app = replace(app, sources=(*app.sources, *CLICKS.sources))
    parts = [part_of(app, "1/2"), part_of(app, "2/2")]
    assert [[source.name for source in part.sources] for part in parts] == [["orders"], ["clicks"]]


@given(st.lists(st.lists(st.integers(0, 30), max_size=2), min_size=1, max_size=12), st.integers(1, 12))
def test_any_graph_is_divided_whole(reads: list[list[int]], count: int) -> None:
    """reads: for each table, which earlier ones it is joined with."""
    tables: list[lh.Table] = []
    for number, numbers in enumerate(reads):
        stream = ORDERS
        for place, other in enumerate(numbers):
            if tables:
                stream = stream.join(tables[other % len(tables)], on="customer", how="left", prefix=f"p{place}_")
        tables.append(stream.group_by("customer").agg(n=lh.count()).table(f"t{number}"))
    app = lh.app(*tables, *(table.changes().to_topic(f"topic-{table.name}") for table in tables))
    groups = groups_of(app)
    count = min(count, len(groups))
    parts = [part_of(app, f"{number}/{count}") for number in range(1, count + 1)]
    assert sorted(name for part in parts for name in names(part)) == sorted(names(app))
    for part in parts:
        own = set(part.tables)
        assert own
        assert {upstream for table in own for upstream in table.stream.tables} <= own
        assert {sink.topic for sink in part.sinks} == {f"topic-{table.name}" for table in own}
        assert set(part.sources) == {source for table in own for source in table.stream.sources}
    for group in groups:
        assert limited_to(app, group.names).tables == group.tables
