"""A person's first backfill, in Airflow's own pages: docs/first-backfill.md, whose pictures are made here.

The last file, since it changes the shop that the other tests look at.
"""

from __future__ import annotations

import json
import time
from decimal import Decimal
from typing import Any

import pytest

from .browser import KEYS, Browser
from .conftest import BATCHES, Airflow, Shop, others

pytestmark = pytest.mark.ui

RUN_PATIENCE_S = 600.0
REASON = "orders below 3 do not count"
CONDITION = "amount >= 3"


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


def end(airflow: Airflow, browser: Browser) -> None:
    """Wait until the run in the browser has succeeded, and look at its page."""
    dag, run = browser.url.split("/dags/")[1].rstrip("/").split("/runs/")
    token = airflow.token()

    def ended() -> bool:
        time.sleep(1)  # the one api-server also answers the tasks
        _, _, said = airflow.ask(f"/api/v2/dags/{dag}/dagRuns/{run}", token=token)
        state = json.loads(said)["state"]
        assert state != "failed"
        return bool(state == "success")

    browser.until(ended, f"the end of {dag}", RUN_PATIENCE_S)
    browser.open(browser.url)
    browser.until(lambda: "Success" in shown(browser), "the run's good end")


def wanted(condition: bool) -> dict[str, dict[str, Any]]:
    """The table totals, folded here in plain Python: all orders ever made, or those of 3 and more."""
    result: dict[str, dict[str, Any]] = {}
    for number, batch in enumerate(BATCHES):
        for _, order in (*batch, *others(number)):
            if not isinstance(order, tuple) or (condition and order[2] < 3):
                continue
            row = result.setdefault(order[0], {"orders": 0, "total": Decimal(0)})
            row["orders"] += 1
            row["total"] += Decimal(str(order[2])).quantize(Decimal("0.01"))  # some were floats with a tail
    return result


def totals(shop: Shop) -> dict[str, dict[str, Any]]:
    rows = shop.query("SELECT customer, orders, CAST(total AS VARCHAR) AS total FROM totals")
    return {row["customer"]: {"orders": row["orders"], "total": Decimal(row["total"])} for row in rows}


def test_the_first_backfill(browser: Browser, airflow: Airflow, shop: Shop) -> None:
    browser.size(1280, 1000)
    trigger(browser, airflow, "catch_up")
    send(browser)
    end(airflow, browser)
    browser.picture("first-backfill-catch-up")
    assert totals(shop) == wanted(condition=False)

    app = shop.folder / "app.py"
    app.write_text(app.read_text().replace("totals = orders.", f'totals = orders.filter("{CONDITION}").'))
    shop.command("airflow", "add", "app.py", "--name", "shop", "--home", str(shop.folder / "airflow"))

    trigger(browser, airflow, "backfill_range")
    choose(browser, "totals")
    browser.picture("first-backfill-form")
    send(browser)  # a dry run, without a reason
    end(airflow, browser)
    assert totals(shop) == wanted(condition=False), "a dry run changes nothing"

    trigger(browser, airflow, "backfill_range")
    choose(browser, "totals")
    browser.run("document.querySelector('input[name=element_dry_run]').click()")
    browser.type("#element_reason", REASON)
    send(browser)
    browser.until(lambda: "Required Action" in shown(browser), "the question", RUN_PATIENCE_S)
    log = shop.folder / "airflow" / "logs" / "scheduler.log"
    heard = "executor event with state success for task instance TaskInstanceKey(dag_id='shop__backfill_range', "
    # An earlier answer may be lost, and then the task asks again: docs/airflow-dags.md.
    browser.until(lambda: f"{heard}task_id='approve'" in log.read_text(), "the scheduler has heard of the question")
    browser.click("button", "Required Action")
    browser.find("[data-testid=hitl-option-Approve]")
    asked = shown(browser)
    before, after = wanted(condition=False), wanted(condition=True)
    assert f"reason: {REASON}" in asked
    assert f"rows removed: {len(before.keys() - after.keys())}" in asked
    assert f"rows changed: {sum(before[name] != row for name, row in after.items())}" in asked
    browser.picture("first-backfill-approve")
    browser.click("[data-testid=hitl-option-Approve]")
    end(airflow, browser)
    browser.picture("first-backfill-done")
    assert totals(shop) == wanted(condition=True)

    browser.open(browser.url.rstrip("/") + "/plugin/lakehouse_dag_run")
    browser.frame("iframe")
    browser.find("h2", "totals")  # the table that the run was about
    browser.click("[role=tab]", "What changed")
    browser.find("#panel tbody tr")
    browser.run("document.querySelector('#panel').scrollIntoView()")
    browser.picture("first-backfill-changed")
