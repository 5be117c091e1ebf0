"""`lakehouse test capture`: a slice of real bronze as a scenario file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.cli.terminal import show
from lakehouse.cli.terminal.options import AppOption, ConfigOption, LakeOption, app_of, lake_of
from lakehouse.cli.terminal.waiting import show_bronze_reads
from lakehouse.errors import ConfigError
from lakehouse.markup.quantity import quantity

if TYPE_CHECKING:
    from lakehouse.run.start.application import LoadedApp


def capture(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="A table of the application.")],
    key: Annotated[str, typer.Option(help="Its key; the values of a key of several joined by commas, as in CSV.")],
    app: AppOption = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", min=1, metavar="N", help="Only the first N records of the key; all if left out."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Beside the application, TABLE-KEY.json, if left out.")
    ] = None,
    config: ConfigOption = None,
    lake: LakeOption = None,
) -> None:
    """Write a test from real records: those in bronze that reach one key, and what the model makes of them.

    Without Spark. The test holds these records alone: stream time is that of the slice, without the records of other
    keys that move it in the lake, so windows can close, and records be late, at other points than they did there. All
    windows of a key are captured; leave the window out of --key.

    Example: lakehouse test capture totals --key ann
    """
    from lakehouse.lake.layout import Layout
    from lakehouse.run.explain.capture import capture as capture_key
    from lakehouse.run.start.application import find_app

    settings = lake_of(config, lake)
    found_app = find_app(app_of(app, settings))
    declared_table = found_app.app.table(table)
    scenario_file = out or _folder_of_app(found_app) / f"{table}-{_file_name_part(key)}.json"
    if scenario_file.exists():
        raise ConfigError(f"{scenario_file} exists already; expected a new name: --out FILE. Nothing was written.")
    location = found_app.location if found_app.file is None else found_app.file.name
    if (
        found_app.file is not None
        and scenario_file.absolute().parent.resolve() != found_app.file.absolute().parent.resolve()
    ):
        raise ConfigError(
            f"--out {scenario_file}: expected a file in {found_app.file.absolute().parent}: a scenario finds "
            f"{found_app.file.name} beside itself."
        )
    if not scenario_file.absolute().parent.is_dir():
        raise ConfigError(
            f"--out {scenario_file}: there is no folder {scenario_file.parent}. Make it, or name another file."
        )
    layout = Layout(settings.lake.path)
    with show_bronze_reads() as show_read:
        scenario = capture_key(
            layout, found_app.app, f"{location}:{found_app.name}", declared_table, key, limit,
            listen=show_read,
        )  # fmt: skip
    scenario_file.write_text(scenario.text, encoding="utf-8")
    part_text = f"the first {scenario.taken_count:,} of " if scenario.taken_count < scenario.record_count else ""
    record_text = f"{part_text}{quantity(scenario.record_count, 'record')} of {', '.join(declared_table.stream.topics)}"
    show.say(f"{scenario_file}: {record_text} behind the key {key} of {table}.")
    if scenario.reordered:
        show.say(
            "In the file, records of several partitions are in the order of their order times, unlike in the lake."
        )
    show.say(f"Run it: lakehouse test run {scenario_file}")


def _folder_of_app(found_app: LoadedApp) -> Path:
    return Path() if found_app.file is None else found_app.file.parent


def _file_name_part(key: str) -> str:
    """Return a key as a part of a file's name."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", key)[:80] or "empty"
