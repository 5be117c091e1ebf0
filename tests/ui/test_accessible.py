"""The page by axe-core's rules (WCAG 2.1, A and AA), for those who use a keyboard or a screen reader, or see little."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from .browser import Browser
from .conftest import sign_in

pytestmark = pytest.mark.ui

AXE = Path(__file__).parents[2] / ".ui" / "axe_core_python" / "axe.min.js"
TABLE = "/lakehouse/?app=shop&table=totals"
VIEWS = {
    "rows": (TABLE, "table.rows tbody tr"),
    "changes": (f"{TABLE}&tab=changes", "#panel tbody tr"),
    "history": (f"{TABLE}&tab=history&key=ann", "#history tbody tr"),
    "drills": (f"{TABLE}&tab=drills", ".drill"),
    "stream": ("/lakehouse/?app=shop&node=stream:orders", ".facts"),
    "topic": ("/lakehouse/?app=shop&node=topic:shop-orders", ".facts"),
    "changelog": ("/lakehouse/?app=shop&node=changelog:shop-totals-changelog", "#records tbody tr"),
}
RUN = """
    const standards = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"];
    const told = node => `${node.html} ${node.any.map(check => check.message).join(" ")}`;
    return axe.run(document, {runOnly: standards}).then(
        found => found.violations.map(one => `${one.id}: ${one.help}: ${one.nodes.map(told).join(" ")}`))
"""


def violations(browser: Browser) -> list[Any]:
    assert AXE.is_file(), f"found no {AXE}; expected axe-core. `make test-ui` installs it."
    browser.run(AXE.read_text())
    return list(browser.run(RUN))


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_breaks_no_rule(browser, airflow, view):
    path, shown = VIEWS[view]
    browser.open(airflow.url + path)
    browser.find(shown)
    assert violations(browser) == []


def test_a_rule_that_is_broken_is_found(browser, airflow):
    browser.open(airflow.url + TABLE)
    browser.find("table.rows tbody tr")
    browser.run("document.getElementById('by').removeAttribute('id'); document.documentElement.removeAttribute('lang')")
    assert {text.partition(":")[0] for text in violations(browser)} >= {"html-has-lang", "select-name"}


def test_the_dark_and_the_narrow_break_no_rule(chromium, airflow, tmp_path):
    flags = ("--force-dark-mode", "--blink-settings=preferredColorScheme=0")
    with Browser(tmp_path, width=560, height=900, flags=flags) as dark:
        sign_in(dark, airflow)
        dark.open(airflow.url + TABLE)
        dark.find("table.rows tbody tr")
        assert violations(dark) == []
