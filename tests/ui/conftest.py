"""The basis of the page's tests: a lake that Spark made from Kafka, the real Airflow beside it, and a browser.

shop       an application over the session's broker: orders in five batches, one commit of each table a batch
airflow    `lakehouse airflow up` for it, with a home of its own; `lakehouse airflow down` at the end
browser    chromium, signed in through Airflow's own form
"""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lakehouse.kafka.embedded.broker import Broker
from lakehouse.spark.changelog.upstream import open_lake

from .browser import Browser, needed

HOSTILE = '<img src=x onerror="document.title=1">'
APP = """
import lakehouse as lh

orders = lh.stream({topic!r}, key="id string", schema="customer string, item string, amount decimal(10, 2)",
                   name="orders")
current = orders.latest("current_orders")
totals = orders.group_by("customer").agg(orders=lh.count(), total=lh.sum("amount")).table("totals")
items = orders.group_by("customer", "item").agg(orders=lh.count()).table("customer_items")
app = lh.app(current, items, totals.changes().to_topic({changelog!r}))
"""
# Batches of (order, customer, item, amount); None deletes the order, a text in its place is a bad record. With `others`
# there is something to see in the shop.
BATCHES: list[list[tuple[str, Any]]] = [
    [("1", ("ann", "tea", 2.5)), ("2", ("bob", "pie", 4)), ("3", ("ann", "jam", 3.25)), ("4", "no order")],
    [],
    [],
    [("5", ("cat", "cake", 9)), ("2", None), ("6", ("ann", "tea", 2.5)), ("7", (HOSTILE, "tea", 1))],
    [("8", ("bob", "pie", 4)), ("9", ("dan", "rye bread", 3.8)), ("10", ("ann", "pie", 4)), ("11", "nor this")],
]

CUSTOMERS = ("eve", "fay", "gus", "hal", "ivy", "jon", "kim", "lee", "mia", "ned", "oda", "pam")
ITEMS = {"tea": 2.5, "jam": 3.25, "pie": 4, "cake": 9, "rye bread": 3.8}


def others(batch: int) -> list[tuple[str, Any]]:
    """Orders of other customers, more of whom come with each batch."""
    result: list[tuple[str, Any]] = []
    for n in range(12 + 7 * batch):
        item = list(ITEMS)[(n * 3 + batch) % len(ITEMS)]
        customer = CUSTOMERS[(n * 5 + batch) % (4 + 2 * batch)]
        result.append((f"{batch}-{n:02}", (customer, item, ITEMS[item] * (1 + n % 3))))
    return [*result, *((f"{batch - 1}-{n:02}", None) for n in range(2 * batch))]


@dataclass(frozen=True)
class Shop:
    """An application with a lake, in a folder."""

    folder: Path
    topic: str

    def command(self, *arguments: str) -> str:
        """Run `lakehouse` in the folder and return what it printed."""
        process = subprocess.run(
            [sys.executable, "-m", "lakehouse.cli.main", *arguments],
            cwd=self.folder, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert process.returncode == 0, process.stdout + process.stderr
        return process.stdout

    def query(self, sql: str, *arguments: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.command("query", sql, "--json", *arguments).splitlines()]


@dataclass(frozen=True)
class Airflow:
    """A running Airflow, and its user."""

    url: str
    user: str
    password: str

    def ask(self, path: str, *, token: str | None = None, body: Any = None, method: str | None = None) -> Any:
        """Ask for JSON; return the status, the headers and the answer."""
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
        data = None if body is None else json.dumps(body).encode()
        asked = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(asked, timeout=120) as answer:
                return answer.status, answer.headers, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.headers, error.read()

    def token(self) -> str:
        _, _, said = self.ask("/auth/token", body={"username": self.user, "password": self.password})
        return str(json.loads(said)["access_token"])


@pytest.fixture(scope="session")
def shop(broker: Broker, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Shop:
    """The application, its lake after five batches, and a drill of one table: all on Kafka and Spark."""
    folder = tmp_path_factory.mktemp("ui") / "shop"
    folder.mkdir()
    topic = "shop-orders"  # no other test uses it
    (folder / "app.py").write_text(APP.format(topic=topic, changelog="shop-totals-changelog"))
    (folder / "lakehouse.toml").write_text(
        f'[lake]\npath = "./lake"\n[kafka]\nbootstrap_servers = "{broker.bootstrap_servers}"\n'
    )
    made = Shop(folder, topic)
    grow(made, request)
    return made


def grow(shop: Shop, request: pytest.FixtureRequest) -> None:
    from lakehouse.lake.layout import Layout
    from lakehouse.run.drill.drill import drill
    from lakehouse.run.lake import Lake
    from lakehouse.run.start.application import load_app
    from lakehouse.settings.config import load

    spark = request.getfixturevalue("spark")
    app = load_app(str(shop.folder / "app.py"))
    lake = Lake(settings=load(shop.folder / "lakehouse.toml", environ={}))
    for number, batch in enumerate(BATCHES):
        lines = [json.dumps({"key": key, "value": _value(of)}) for key, of in (*batch, *others(number))]
        (shop.folder / "batch.jsonl").write_text("\n".join(lines) + "\n")
        shop.command("produce", shop.topic, "batch.jsonl", *(["--partitions", "2"] if number == 0 else []))
        lake.run(app, until="caught_up")
    outcome = drill(
        open_lake(spark, Layout(str(shop.folder / "lake"))).open(app.table("totals")),
        None,
        ("lost file",),
        lambda case: None,
    )
    assert outcome.ok


def _value(of: Any) -> Any:
    return dict(zip(("customer", "item", "amount"), of, strict=True)) if isinstance(of, tuple) else of


@pytest.fixture(scope="session")
def airflow(shop: Shop) -> Iterator[Airflow]:
    home = ("--home", str(shop.folder / "airflow"))
    try:
        data = json.loads(shop.command("airflow", "up", "--app", "app.py", "--name", "shop", "--json", *home))
        passwords = json.loads((shop.folder / "airflow" / "passwords.json").read_text())
        yield Airflow(data["url"].rstrip("/"), "admin", passwords["admin"])
    finally:
        shop.command("airflow", "down", *home)


@pytest.fixture(scope="session")
def chromium() -> None:
    if (missing := needed()) is not None:
        pytest.fail(missing)


@pytest.fixture
def signed_out(chromium: None, tmp_path: Path) -> Iterator[Browser]:
    with Browser(tmp_path) as browser:
        yield browser


@pytest.fixture(scope="session")
def signed_in(chromium: None, airflow: Airflow, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One browser for all tests that need not begin signed out."""
    with Browser(tmp_path_factory.mktemp("browser"), width=1280, height=1040) as browser:
        sign_in(browser, airflow)
        yield browser


@pytest.fixture
def browser(signed_in: Browser) -> Browser:
    signed_in.frame(None)
    signed_in.complaints()
    return signed_in


def sign_in(browser: Browser, airflow: Airflow) -> None:
    browser.open(f"{airflow.url}/auth/login")
    browser.type("input[name=username]", airflow.user)
    browser.type("input[name=password]", airflow.password)
    browser.click("button[type=submit]")
    browser.until(lambda: "/auth/login" not in browser.url, "signed in")
