"""`lakehouse init`: a first application, with its test."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lakehouse.cli.start.template import files_of_app
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
    from lakehouse.plan.expression.schema import check_name

    app_folder = Path(check_name(name, "application"))
    if app_folder.exists():
        raise ConfigError(f"{app_folder} exists already; expected a new name. Nothing was written.")
    app_folder.mkdir()
    for file_name, file_text in files_of_app(name).items():
        (app_folder / file_name).write_text(file_text, encoding="utf-8")
    show.say(NEXT.format(folder=app_folder))
