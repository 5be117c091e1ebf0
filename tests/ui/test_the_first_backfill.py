"""A person's first backfill, in Airflow's own pages: docs/first-backfill.md, whose pictures are made here.

The last file, for it changes the shop that the others look at.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from .browser import KEYS, Browser
from .conftest import BATCHES, Airflow, Shop, others

pytestmark = [pytest.mark.ui, pytest.mark.timeout(2400)]

PICTURES = Path(__file__).parents[2] / "docs"
RUN_PATIENCE_S = 600.0
REASON = "orders below 3 do not count"
CONDITION = "amount >= 3"


def picture(browser: Browser, name: str) -> None:
    """Save what the window shows; into the docs when UPDATE_PICTURES is set, else nowhere."""
    if os.environ.get("UPDATE_PICTURES"):
        browser.picture(PICTURES / f"first-backfill-{name}.png")


def shown(browser: Browser) -> str:
    return str(browser.run("return document.body.innerText"))


def trigger(browser: Browser, airflow: Airflow, kind: str) -> None:
    """Open the form of a DAG of the shop."""
    browser.open(f"{airflow.url}/dags/shop__{kind}")
    browser.click("[data-testid=trigger-dag-button]")
    browser.find("[data-testid=trigger-dag-submit]")


def choose(browser: Browser, table: str) -> None:
    browser.type("[role=dialog] input[aria-autocomplete=list]", table + KEYS["Enter"])


def send(browser: Browser) -> None:
    """Press the form's button, and go to the run."""

    def allowed() -> bool:
        return not browser.run("return document.querySelector('[data-testid=trigger-dag-submit]').disabled")

    browser.until(allowed, "the form can be sent")
    browser.click("[data-testid=trigger-dag-submit]")
    browser.until(lambda: "/runs/" in browser.url, "the run's page")


def wait_for(browser: Browser, said: Iterable[str]) -> str:
    """Return which of some texts stands on the page first; the page brings itself up to date."""
    deadline = time.monotonic() + RUN_PATIENCE_S
    while time.monotonic() < deadline:
        text = shown(browser)
        if found := [one for one in said if one in text]:
            return found[0]
        time.sleep(1)
    raise AssertionError(f"waited {RUN_PATIENCE_S:.0f} s for one of {said}; the page: {shown(browser)[:2000]}")


def end(airflow: Airflow, browser: Browser) -> None:
    """Wait for a good end of the run that the browser is at, and look at its page."""
    dag, run = browser.url.split("/dags/")[1].rstrip("/").split("/runs/")
    token, deadline = airflow.token(), time.monotonic() + RUN_PATIENCE_S
    while True:
        _, _, said = airflow.ask(f"/api/v2/dags/{dag}/dagRuns/{run}", token=token)
        if (state := json.loads(said)["state"]) in ("success", "failed"):
            assert state == "success"
            break
        assert time.monotonic() < deadline, f"{dag} {run} is {state}"
        time.sleep(2)
    browser.open(browser.url)
    wait_for(browser, ["Success"])


def wanted(condition: bool) -> dict[str, dict[str, Any]]:
    """The table totals, folded here in plain Python: every order that was ever made, or those of 3 and more."""
    found: dict[str, dict[str, Any]] = {}
    for number, batch in enumerate(BATCHES):
        for _, order in (*batch, *others(number)):
            if not isinstance(order, tuple) or (condition and order[2] < 3):
                continue
            row = found.setdefault(order[0], {"orders": 0, "total": Decimal(0)})
            row["orders"] += 1
            row["total"] += Decimal(str(order[2])).quantize(Decimal("0.01"))  # some were floats with a tail
    return found


def totals(shop: Shop) -> dict[str, dict[str, Any]]:
    rows = shop.query("SELECT customer, orders, CAST(total AS VARCHAR) AS total FROM totals")
    return {row["customer"]: {"orders": row["orders"], "total": Decimal(row["total"])} for row in rows}


def test_the_first_backfill(browser: Browser, airflow: Airflow, shop: Shop) -> None:
    browser.size(1280, 1000)
    trigger(browser, airflow, "catch_up")
    send(browser)
    end(airflow, browser)
    picture(browser, "catch-up")
    assert totals(shop) == wanted(condition=False)

    app = shop.folder / "app.py"
    app.write_text(app.read_text().replace("totals = orders.", f'totals = orders.filter("{CONDITION}").'))
    shop.command("airflow", "add", "app.py", "--name", "shop", "--home", str(shop.folder / "airflow"))

    trigger(browser, airflow, "backfill_range")
    choose(browser, "totals")
    picture(browser, "form")
    send(browser)  # a dry run, without a reason
    end(airflow, browser)
    assert totals(shop) == wanted(condition=False), "a dry run changes nothing"

    trigger(browser, airflow, "backfill_range")
    choose(browser, "totals")
    browser.run("document.querySelector('input[name=element_dry_run]').click()")
    browser.type("#element_reason", REASON)
    send(browser)
    wait_for(browser, ["Required Action"])
    log = shop.folder / "airflow" / "logs" / "scheduler.log"
    heard = "executor event with state success for task instance TaskInstanceKey(dag_id='shop__backfill_range', "
    # An answer before that may be lost, and the task then asks again: docs/airflow-dags.md.
    browser.until(lambda: f"{heard}task_id='approve'" in log.read_text(), "the scheduler has heard of the question")
    browser.click("button", "Required Action")
    browser.find("[data-testid=hitl-option-Approve]")
    asked = shown(browser)
    before, after = wanted(condition=False), wanted(condition=True)
    assert f"reason: {REASON}" in asked
    assert f"removed: {len(before.keys() - after.keys())}" in asked
    assert f"changed: {sum(before[name] != row for name, row in after.items())}" in asked
    picture(browser, "approve")
    browser.click("[data-testid=hitl-option-Approve]")
    end(airflow, browser)
    picture(browser, "done")
    assert totals(shop) == wanted(condition=True)

    browser.open(browser.url.rstrip("/") + "/plugin/lakehouse_dag_run")
    browser.frame("iframe")
    browser.find("h2", "totals")  # the table that the run was about
    browser.click("[role=tab]", "What changed")
    browser.find("#panel tbody tr")
    browser.run("document.querySelector('#panel').scrollIntoView()")
    picture(browser, "changed")
