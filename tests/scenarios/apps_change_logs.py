"""Applications over other tools' change logs of databases: the declarations of docs/change-logs.md."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import lakehouse as lh

PAGE = Path(__file__).parent.parent.parent / "docs" / "change-logs.md"


@cache
def declared() -> dict[str, Any]:
    names: dict[str, Any] = {"lh": lh}
    exec("\n".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)), names)
    return names


def maxwell() -> lh.App:
    return lh.app(declared()["e"])


def several_tables() -> lh.App:
    return lh.app(declared()["visits"])


def canal() -> lh.App:
    return lh.app(declared()["products"])


def goldengate() -> lh.App:
    return lh.app(declared()["ogg_products"])


def dms() -> lh.App:
    return lh.app(declared()["people"])


def mongo() -> lh.App:
    return lh.app(declared()["tutorial_orders"])
