"""The page in a real browser, in the real Airflow: what a person sees and clicks; docs/ has its pictures."""

from __future__ import annotations

import json
import urllib.parse

import pytest

from .browser import Browser
from .conftest import HOSTILE, sign_in

pytestmark = pytest.mark.ui

NAV = "/plugin/lakehouse"
TABLE = "/lakehouse/?app=shop&table=totals"


def rows(browser) -> list[list[str]]:
    script = "return [...document.querySelectorAll('#panel tbody tr')].map(r => [...r.cells].map(c => c.innerText))"
    return browser.run(script)


def picture(browser: Browser, name: str) -> None:
    """Save the page when it has all its answers."""
    browser.until(lambda: "asking Kafka" not in browser.run("return document.body.innerText"), "what Kafka says")
    browser.picture(name)


def test_signed_out_the_page_says_so_and_signed_in_it_shows(signed_out, airflow):
    signed_out.open(airflow.url + TABLE)
    assert "You are signed out of Airflow" in signed_out.text(signed_out.find("body"))
    assert not signed_out.has("#lineage")
    signed_out.click("a", "Sign in")
    signed_out.find("input[name=username]")
    sign_in(signed_out, airflow)
    signed_out.open(airflow.url + TABLE)
    signed_out.find(".node", "totals")


def test_it_is_in_airflows_navigation(browser, airflow):
    browser.open(airflow.url + "/")
    browser.click("button", "Browse")
    browser.click("a", "Streams & Tables")
    browser.until(lambda: NAV in browser.url, "the page's place in Airflow")
    browser.frame("iframe")
    browser.find(".node", "current_orders")
    browser.find("table.rows tbody tr")
    picture(browser, "airflow-page-in-airflow")
    assert browser.complaints() == []


def test_lineage_selects_by_click_and_by_key(browser, airflow, shop):
    browser.open(airflow.url + TABLE)
    browser.find("h2", "totals")
    browser.find("table.rows tbody tr")
    picture(browser, "airflow-page-table")
    browser.click("[data-node='table:current_orders']")
    browser.find("h2", "current_orders")
    assert "table=current_orders" in browser.url
    facts = browser.text(browser.find(".facts"))
    (counted,) = shop.query("SELECT count(*) AS rows FROM current_orders")
    assert f"Rows\n{counted['rows']}\n" in facts
    assert "Quarantined\n2\n" in facts
    browser.press("[data-node='stream:orders']", "Enter")
    browser.find("h2", "orders")
    assert "2" in browser.text(browser.find(".facts", "Quarantined"))
    assert browser.run("return document.activeElement.dataset.node") == "stream:orders"
    assert browser.complaints() == []


def test_a_published_topic_shows_its_newest_records(browser, airflow):
    browser.open(airflow.url + TABLE)
    browser.find("h2", "totals")
    browser.click("[data-node='changelog:shop-totals-changelog']")
    browser.find("h2", "shop-totals-changelog")
    browser.find("#records tbody tr")
    script = "return [...document.querySelectorAll('#records tbody tr')].map(r => [...r.cells].map(c => c.innerText))"
    shown_records = browser.run(script)
    assert 0 < len(shown_records) <= 20
    assert [row[0] for row in shown_records] == sorted((row[0] for row in shown_records), reverse=True)
    assert all(row[4] == "null" or '"total":' in row[4] for row in shown_records)
    browser.run("document.getElementById('refresh').click()")
    browser.until(lambda: browser.run(script) == shown_records, "the same records")
    assert browser.complaints() == []


def test_the_slider_shows_the_table_at_a_moment(browser, airflow, shop):
    browser.open(airflow.url + TABLE)
    browser.find("table.rows tbody tr")
    now = rows(browser)
    browser.press("#at", "Home")
    browser.find("#panel .hint", "No such row at this moment")
    browser.press("#at", "ArrowRight")
    browser.find("table.rows tbody tr")
    version = browser.run("return new URLSearchParams(location.search).get('at')")
    then = shop.query("SELECT * FROM totals ORDER BY customer", "--version", version)
    browser.until(lambda: rows(browser) == [[str(of) for of in row.values()] for row in then], f"version {version}")
    assert len(then) < len(now)
    browser.press("#at", "End")
    browser.until(lambda: rows(browser) == now, "the newest version")
    browser.type("#named", "whenever")
    browser.click("#panel button", "Go")
    browser.find("#panel .problem", "is not a moment")


def test_a_key_is_found_and_data_is_never_markup(browser, airflow):
    browser.open(airflow.url + TABLE)
    browser.find("table.rows tbody tr")
    assert HOSTILE in [row[0] for row in rows(browser)]
    browser.type("#prefix", "<img")
    browser.until(lambda: [row[0] for row in rows(browser)] == [HOSTILE], "the one row")
    browser.click("#panel button.link")
    browser.find("#history tbody tr")
    assert not browser.has("img")
    assert browser.run("return document.title") == "Streams & Tables"


def counts(browser, shop) -> str:
    """The line of counts for the moments in the address, as `lakehouse past diff` counts them."""
    said = browser.run("return Object.fromEntries(new URLSearchParams(location.search))")
    result = json.loads(shop.command("diff", "totals", said["from"], said["at"], "--json").splitlines()[-1])
    of = [shop.query("SELECT count(*) AS n FROM totals", "--version", said[side])[0]["n"] for side in ("from", "at")]
    kinds = " ".join(f"{result[kind]} {kind}" for kind in ("added", "removed", "changed"))
    return f"{kinds} between version {said['from']} ({of[0]} rows) and version {said['at']} ({of[1]} rows)"


def shown(browser) -> str:
    """The line of counts that the page shows."""
    return " ".join(browser.text(browser.find(".counts")).split())


def test_what_changed_between_two_moments(browser, airflow, shop):
    browser.open(airflow.url + TABLE + "&tab=changes")
    browser.find("#panel tbody tr")
    changed = {row[1]: row[0] for row in rows(browser)}
    for customer, change in (("ann", "changed"), ("bob", "changed"), ("dan", "added")):
        assert changed[f"customer {customer}"] == change
    assert "customer cat" not in changed
    picture(browser, "airflow-page-changes")
    browser.press("#from", "ArrowLeft")
    browser.press("#from", "ArrowLeft")
    browser.until(lambda: "at=" in browser.url, "the moments in the address")
    browser.until(lambda: shown(browser) == counts(browser, shop), "what `lakehouse past diff` says")
    browser.press("#at", "ArrowLeft")
    browser.until(lambda: shown(browser) == counts(browser, shop), "what `lakehouse past diff` says")
    assert browser.complaints() == []


def test_the_history_of_a_row_and_its_explanation(browser, airflow):
    browser.open(airflow.url + "/lakehouse/?app=shop&table=customer_items&tab=history")
    browser.find("#panel .hint", "Type a key")
    browser.type("#key", "ann,tea")
    browser.click("#panel button", "Show")
    browser.until(lambda: len(rows(browser)) == 2, "two changes")
    assert [row[0] for row in rows(browser)] == ["updated", "inserted"]
    browser.click("#explain")
    browser.find("#explained .verdict", "The table has the same. orders=2")
    # The values of a record as those of a row: a decimal is no text in quotes.
    value = "[...r.cells[3].querySelectorAll('.pair')].map(p => p.innerText)"
    told = browser.run(f"return [...document.querySelectorAll('#explained tbody tr')].map(r => {value})")
    assert told == [["customer ann", "item tea", "amount 2.5"]] * 2
    browser.run("window.scrollTo(0, document.body.scrollHeight)")
    picture(browser, "airflow-page-history")
    assert browser.complaints() == []


def test_drills_with_their_recovery_times(browser, airflow):
    browser.open(airflow.url + TABLE)
    browser.find("table.rows tbody tr")
    browser.press("#tab-rows", "ArrowLeft")  # the tabs go round
    browser.find(".drill", "recovered")
    assert browser.text(browser.find(".case .what b")) == "lost file"
    assert "equal" in browser.text(browser.find(".way", "bronze"))
    picture(browser, "airflow-page-drills")


def test_it_fits_a_narrow_window_and_the_dark(chromium, airflow, tmp_path):

    with Browser(
        tmp_path, width=560, height=900, flags=("--force-dark-mode", "--blink-settings=preferredColorScheme=0")
    ) as dark:
        sign_in(dark, airflow)
        dark.open(airflow.url + TABLE)
        dark.find("table.rows tbody tr")
        ground = dark.run("return getComputedStyle(document.body).backgroundColor")
        assert ground == "rgb(20, 23, 26)"
        assert dark.run("return document.documentElement.scrollWidth <= innerWidth")
        picture(dark, "airflow-page-dark")


def test_it_is_a_tab_beside_a_run_of_a_dag(browser, airflow):
    token = airflow.token()
    browser.until(lambda: airflow.ask("/api/v2/dags/shop__catch_up", token=token)[0] == 200, "the application's DAG")
    body = {"logical_date": None, "dag_run_id": "by_hand"}
    status, _, said = airflow.ask("/api/v2/dags/shop__catch_up/dagRuns", token=token, body=body)
    assert status == 200, said
    browser.open(f"{airflow.url}/dags/shop__catch_up/runs/{urllib.parse.quote(body['dag_run_id'])}")
    browser.click("a", "Streams & Tables")
    browser.frame("iframe")
    browser.find("#run", body["dag_run_id"])
    browser.find("table.rows tbody tr")
    picture(browser, "airflow-page-run")
