"""The application from before a deployment takes it back, whatever its file is called and however it is formatted."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lakehouse.errors import PlanError
from lakehouse.plan.app import App
from lakehouse.plan.evolution.change import declaration_of, declarations_digest
from lakehouse.run.deploy import deployment
from lakehouse.run.start.application import load_app

TEXT = """
import logging
import lakehouse as lh
log = logging.getLogger(__name__)
class Rate:
    def of(self, amount): return amount * 2
RATE = Rate()
def fee(total, amount):
    log.debug("fee")
    return total + RATE.of(amount)
orders = lh.stream("orders", key="id string", schema="city string, amount double").filter("amount <> 1")
app = lh.app(orders.group_by("city").agg(s=lh.reduce("amount", fee)).table("totals"))
"""


def loaded(folder: Path, name: str, text: str) -> App:
    file = folder / name
    file.write_text(text)
    return load_app(str(file))


def check(monkeypatch: pytest.MonkeyPatch, before: str | None, app: App) -> None:
    decisions = [SimpleNamespace(at=7, details={"before": before})]
    monkeypatch.setattr(deployment.interventions, "read_interventions", lambda *_: decisions)
    lake: Any = None
    deployment.check_way_back(lake, app)


def test_the_same_text_in_another_file_takes_a_deployment_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app, before = (loaded(tmp_path, name, TEXT) for name in ("app.py", "before.py"))
    assert declarations_digest(app.tables) == declarations_digest(before.tables)
    check(monkeypatch, declaration_of(app.table("totals")), before)


def test_what_says_the_same_takes_a_deployment_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stored fingerprint may have its SQL in the form of another release."""
    app = loaded(tmp_path, "app.py", TEXT)
    check(monkeypatch, declaration_of(app.table("totals")).replace("amount <> 1", "amount  !=  1"), app)


def test_another_declaration_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app, other = (loaded(tmp_path, "app.py", text) for text in (TEXT, TEXT.replace("* 2", "* 3")))
    for before in (declaration_of(app.table("totals")), None):
        with pytest.raises(PlanError, match="declared otherwise than before their deployment: totals"):
            check(monkeypatch, before, other)
