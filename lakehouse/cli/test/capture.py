"""`lakehouse test capture`: a slice of real bronze as a scenario file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.cli.terminal import show
from lakehouse.cli.terminal.options import AppOption, ConfigOption, LakeOption, app_of, lake_of
from lakehouse.errors import ConfigError

if TYPE_CHECKING:
    from lakehouse.run.start.application import Found


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
    from lakehouse.run.explain.capture import capture as captured
    from lakehouse.run.start.application import find_app

    settings = lake_of(config, lake)
    found = find_app(app_of(app, settings))
    of = found.app.table(table)
    file = out or _folder(found) / f"{table}-{_slug(key)}.json"
    if file.exists():
        raise ConfigError(f"{file} exists already; expected a new name: --out FILE. Nothing was written.")
    module = found.where if found.file is None else found.file.stem
    if found.file is not None and file.absolute().parent.resolve() != found.file.absolute().parent.resolve():
        raise ConfigError(
            f"--out {file}: expected a file in {found.file.absolute().parent}: a scenario finds {found.file.name} "
            "beside itself."
        )
    if not file.absolute().parent.is_dir():
        raise ConfigError(f"--out {file}: there is no folder {file.parent}. Make it, or name another file.")
    layout = Layout(settings.lake.path)
    with show.console(stderr=True).status("reading bronze") as status:
        made = captured(
            layout, found.app, f"{module}:{found.name}", of, key, limit,
            listen=lambda records: status.update(f"{records:,} records of bronze read"),
        )  # fmt: skip
    file.write_text(made.text, encoding="utf-8")
    part = f"the first {made.taken:,} of {made.of:,}" if made.taken < made.of else f"{made.of:,}"
    records = f"{part} {'record' if made.of == 1 else 'records'} of {', '.join(of.stream.topics)}"
    show.say(f"{file}: {records} behind the key {key} of {table}.")
    if made.reordered:
        show.say(
            "In the file, records of several partitions are in the order of their order times, unlike in the lake."
        )
    show.say(f"Run it: lakehouse test run {file}")


def _folder(found: Found) -> Path:
    return Path() if found.file is None else found.file.parent


def _slug(key: str) -> str:
    """A key as a part of a file's name."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", key)[:80] or "empty"
