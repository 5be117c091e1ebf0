"""The lineage of every kind of join, and of chains: as a graph, as text, as a picture, and as the page places it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import lakehouse as lh
from lakehouse.airflow import manifest
from lakehouse.plan.lineage.graph import Graph, GraphNode
from lakehouse.plan.lineage.picture import as_svg
from lakehouse.settings.config import load

JS = Path(__file__).parents[2] / "plugins/lakehouse_page/static/lineage.js"
ORDERS = lh.stream("orders", key="id string", schema="customer string, amount bigint")
REFUNDS = lh.stream("refunds", key="id string", schema="customer string, amount bigint")
PAID = lh.stream("payments", key="id string", schema="paid bigint")
CUSTOMERS = lh.stream("people", key="name string", schema="city string, level bigint", name="customers")
CUSTOMER = CUSTOMERS.latest("customer")
ORDER = ORDERS.latest("order_now")
REFUND = REFUNDS.latest("refund_now")
MET = ORDERS.join(PAID, within="1 hour", how="left", grace="1 minute")
APP = lh.app(
    ORDERS.merge(REFUNDS).join(CUSTOMER, on="customer").latest("merged"),
    MET.join(CUSTOMER, on="customer", how="left", as_of="event time").to_topic("enriched"),
    ORDERS.join(CUSTOMER, on="customer", broadcast=True).latest("everywhere"),
    CUSTOMER.to_stream().group_by("city").agg(n=lh.count()).table("moves"),
    ORDER.group_by("customer").agg(total=lh.sum("amount")).table("totals"),
    ORDER.join(REFUND, how="outer", prefix="back_").table("both"),
    ORDER.join(CUSTOMER, on="customer", how="left").table("placed"),
    CUSTOMER.alert("level", "level > 3").to_function("tell", print),
    CUSTOMER.changes().to_topic("customer-changelog"),
)
TEXT = """\
table merged
├─ stream orders (merge)
│  └─ topic orders
├─ stream refunds (merge)
│  └─ topic refunds
└─ table customer (inner join)
   └─ stream customers
      └─ topic people
table everywhere
├─ stream orders ...
└─ table customer (inner join, broadcast) ...
table moves
└─ table customer (changes) ...
table totals
└─ table order_now (rows)
   └─ stream orders ...
table both
├─ table order_now (outer join) ...
└─ table refund_now (outer join)
   └─ stream refunds ...
table placed
├─ table order_now (rows) ...
└─ table customer (left join by a foreign key) ...
topic enriched
├─ stream orders (left join) ...
├─ stream payments (left join)
│  └─ topic payments
└─ table customer (left join as of event time) ...
changelog customer-changelog
└─ table customer ...
function tell
└─ table customer (alert level) ..."""


def test_as_text() -> None:
    assert sorted(str(lh.lineage(APP)).splitlines()) == sorted(TEXT.splitlines())
    assert str(lh.lineage(APP)).splitlines()[:8] == TEXT.splitlines()[:8]


def test_what_reads_itself_twice_is_told_once() -> None:
    nested = ORDER.join(ORDER, on="customer", how="left", prefix="other_").table("nested")
    assert str(lh.lineage(lh.app(nested))).splitlines()[:2] == [
        "table nested",
        "└─ table order_now (rows, left join by a foreign key)",
    ]


def chain(length: int) -> lh.App:
    """Tables, each made from the two before it: so there are very many ways from the first to the last."""
    before = last = ORDER
    for number in range(length):
        joined = last.select("amount").table(f"left{number}").join(before.select("customer").table(f"right{number}"))
        before, last = last, joined.table(f"both{number}")
    return lh.app(last)


def boxes(svg: str) -> dict[str, tuple[float, float]]:
    """The place of each box of a picture, by its title."""
    result = {}
    for group in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}g"):
        (title,) = group.iter("{http://www.w3.org/2000/svg}title")
        x, y = map(float, re.findall(r"[\d.]+", group.attrib["transform"]))
        assert title.text is not None
        result[title.text] = (x, y)
    return result


@pytest.mark.parametrize("app", [APP, chain(8)], ids=["every join", "a chain"])
def test_as_a_picture(app: lh.App) -> None:
    drawing = lh.lineage(app)
    places = boxes(drawing.svg())
    assert set(places) == {f"{node.kind} {node.name}" for node in drawing.graph.nodes}
    assert len(set(places.values())) == len(places), "no box lies upon another"
    for edge in drawing.graph.edges:
        start, end = (places[f"{node.kind} {node.name}"] for node in (edge.start, edge.end))
        assert start[0] < end[0], f"{edge.start.name} is to the left of {edge.end.name}"
    texts = {text.text for text in ElementTree.fromstring(drawing.svg()).iter("{http://www.w3.org/2000/svg}text")}
    assert {", ".join(edge.relations) for edge in drawing.graph.edges if edge.relations} <= texts


def test_a_picture_holds_no_markup_of_a_name() -> None:
    drawn = as_svg(Graph((GraphNode("table", "<script>alert(1)</script>&"),), ()))
    assert "<script" not in drawn
    assert set(boxes(drawn)) == {"table <script>alert(1)</script>&"}


def test_describe_leads_back_to_the_topics() -> None:
    """Of each kind of join: the tables that are read are described as well, down to the first streams."""
    for table in APP.tables:
        text = lh.describe(table)
        above = {item.name for item in table.stream.tables}
        assert {line.split()[1] for line in text.splitlines() if line.startswith("TABLE ")} == {table.name, *above}
        for source in table.stream.sources:
            assert f"FROM topic {source.topic} (stream {source.name}" in text, table.name
    text = lh.describe(APP)
    for words in (
        "MERGE", "INNER JOIN TABLE customer ON customer BROADCAST", "CHANGES OF TABLE customer",
        "ROWS OF TABLE order_now", "OUTER JOIN OF TABLES order_now, refund_now", "LEFT JOIN TABLE customer ON customer",
        "LEFT JOIN TABLE customer ON customer AS OF EVENT TIME", "FUNCTION tell <- ALERT level",
    ):  # fmt: skip
        assert words in text


@pytest.mark.parametrize("app", [APP, chain(8)], ids=["every join", "a chain"])
def test_the_page_places_each_table_to_the_right_of_those_it_reads(app: lh.App, tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs Node.js, to run the page's script outside of a browser")
    facts = manifest.manifest_of_app(app, "/shop/app.py", load(environ={}, start=tmp_path), "shop")["lineage"]
    script = f"""
        import {{ places }} from {json.dumps(JS.as_uri())};
        const {{ found }} = places({json.dumps(facts)});
        console.log(JSON.stringify([...found]));
    """
    process = subprocess.run(
        [node, "--input-type=module", "-e", script], capture_output=True, text=True, timeout=60, check=True
    )
    at = {name: (place["x"], place["y"]) for name, place in json.loads(process.stdout)}
    assert set(at) == {node["id"] for node in facts["nodes"]}
    assert len(set(at.values())) == len(at)
    for start, end in facts["edges"]:
        assert at[start][0] < at[end][0], f"{start} is to the left of {end}"


@pytest.mark.parametrize("page", ["alerts", "flights-joined", "tables-from-tables"])
def test_the_examples_of_a_page_run_and_their_lineage_is_the_one_that_it_shows(page: str) -> None:
    text = (JS.parents[3] / "docs" / f"{page}.md").read_text()
    names: dict[str, Any] = {}
    exec("\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL)), names)
    drawn = "\n".join(f"    {line}" for line in str(lh.lineage(names["app"])).splitlines())
    assert drawn in text or "lh.lineage" not in text
