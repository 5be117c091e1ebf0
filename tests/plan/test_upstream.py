"""An application that reads tables of other applications: what it may do with them."""

from __future__ import annotations

from typing import Any

import pytest

import lakehouse as lh
from lakehouse.errors import PlanError
from lakehouse.run.start.division import limited_to

AIRPORTS = lh.stream("airports", key="code string", schema="city string").latest("airports")
PLANES = (
    lh.stream("planes", key="plane string", schema="home string").join(AIRPORTS, on="home", how="left").latest("planes")
)
FLIGHTS = lh.stream("flights", key="flight string", schema="plane string")
ENRICHED = FLIGHTS.join(PLANES, on="plane", how="left").latest("enriched")
FLOWN = FLIGHTS.latest("flown")


def names(tables: tuple[lh.Table, ...]) -> list[str]:
    return [table.name for table in tables]


def test_all_that_an_upstream_table_reads_is_upstream() -> None:
    app = lh.app(ENRICHED, FLOWN, upstream=[PLANES])
    assert (names(app.tables), names(app.upstream)) == (["enriched", "flown"], ["airports", "planes"])
    assert set(app.topics) == {"airports", "planes", "flights"}
    assert names(app.with_upstream.tables) == ["airports", "planes", "enriched", "flown"]


def test_a_part_has_the_upstream_tables_that_it_reads() -> None:
    app = lh.app(ENRICHED, FLOWN, upstream=[PLANES])
    assert names(limited_to(app, ["flown"]).upstream) == []
    assert names(limited_to(app, ["enriched"]).upstream) == ["airports", "planes"]


OTHER_PLANES = lh.stream("planes", key="plane string", schema="home string").latest("planes")


@pytest.mark.parametrize(
    ("parts", "upstream", "message"),
    [
        ([ENRICHED, PLANES], [PLANES], "'planes' stands in upstream=.*and this one keeps it, too"),
        ([ENRICHED, PLANES.changes().to_topic("out")], [PLANES], "publishes its changes to 'out'"),
        ([FLOWN], [PLANES], "'planes' stands in upstream=, and nothing here reads it"),
        ([ENRICHED], [OTHER_PLANES], "declared twice, differently: here, and in upstream="),
        ([ENRICHED], [PLANES, OTHER_PLANES], "declared twice, differently, in upstream="),
        ([ENRICHED], PLANES, "expected a list"),
        ([ENRICHED], ["planes"], "upstream: found 'planes', expected tables"),
        ([ENRICHED], [FLIGHTS], "upstream: found .*expected tables"),
    ],
)
def test_refused(parts: list[Any], upstream: Any, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        lh.app(*parts, upstream=upstream)


def test_an_upstream_table_is_not_a_table_of_the_application() -> None:
    app = lh.app(ENRICHED, upstream=[PLANES])
    with pytest.raises(PlanError, match="'planes' is only read here: another application keeps it"):
        app.table("planes")
