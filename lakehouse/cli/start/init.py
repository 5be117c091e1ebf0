"""`lakehouse init`: a first application, with its test."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lakehouse.cli.start.template import files
from lakehouse.cli.terminal import show
from lakehouse.errors import ConfigError

NEXT = """\
{folder}/ is an application that runs:
    cd {folder}
    lakehouse test run .                                    # scenario.json, on the model: without Kafka and Spark
    python -m pytest test_app.py                            # the same in Python; needs pytest
    lakehouse kafka up
    lakehouse kafka produce orders orders.jsonl --partitions 2
    lakehouse run --until caught-up                         # app.py, as lakehouse.toml says
    lakehouse query "SELECT * FROM totals"\
"""


def init(name: Annotated[str, typer.Argument(help="Its name, and the folder to create.")]) -> None:
    """Write a runnable application with its test, settings and sample records.

    Example: lakehouse init shop
    """
    from lakehouse.plan.schema import check_name

    folder = Path(check_name(name, "application"))
    if folder.exists():
        raise ConfigError(f"{folder} exists already; expected a new name. Nothing was written.")
    folder.mkdir()
    for file, text in files(name).items():
        (folder / file).write_text(text, encoding="utf-8")
    show.say(NEXT.format(folder=folder))
