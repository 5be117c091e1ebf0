"""`lakehouse deploy plan`: what a deployment would do with each table, before anything is built."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from lakehouse.cli.terminal import show
from lakehouse.cli.terminal.failure import FAILED
from lakehouse.cli.terminal.options import AppOption, ConfigOption, JsonOption, LakeOption, app_of, lake_of, with_app

if TYPE_CHECKING:
    from lakehouse.run.deploy.declared import TableEffect

WORDS = {
    "new": "new: the next run builds it",
    "nothing": "stays",
    "continues": "continues",
    "rebuilt": "is built anew",
    "refused": "needs another name",
}


def plan(app: AppOption = None, config: ConfigOption = None, lake: LakeOption = None, json: JsonOption = False) -> None:
    """Say what a deployment would do with each table, why, and how much it would read. Nothing is built.

    A table is built anew if its own logic is new, or that of a table above it. Exit code 1 if a table can't become what
    is declared, or what it reads is declared otherwise than in the lake.

    Example: lakehouse deploy plan --app app.py
    """
    from lakehouse.run.lake import Lake
    from lakehouse.run.start.application import load_app

    settings = lake_of(config, lake)
    effects = Lake(settings=settings).deployment_effects(load_app(app_of(app, settings)))
    refused = [effect for effect in effects if effect.effect == "refused"]
    if json:
        show.print_json({"ok": not refused, "tables": [asdict(effect) for effect in effects]})
    else:
        _say_effects(effects, app)
    if refused:
        raise typer.Exit(FAILED)


def _say_effects(effects: list[TableEffect], app: str | None) -> None:
    rebuilt = [effect for effect in effects if effect.effect == "rebuilt"]
    rows = [
        (
            effect.table,
            _word_of(effect),
            f"{effect.records:,}" if effect.effect == "rebuilt" else "",
            _format_size(effect.stored_bytes) if effect.effect == "rebuilt" else "",
            ", ".join(effect.above),
        )
        for effect in effects
    ]
    show.print_table("Tables", ("table", "what happens", "records to read", "size now", "new logic above"), rows)
    for effect in effects:
        lines = [f"  {reason}" for reason in effect.reasons]
        lines += [f"  gets column {name}" for name in effect.columns]
        if lines:
            show.say("\n".join([f"\n{effect.table} {_word_of(effect)}:", *lines]))
    for problem in dict.fromkeys(problem for effect in effects for problem in effect.problems):
        show.say(f"\n{problem}")
    refused = [effect for effect in effects if effect.effect == "refused"]
    if any(not effect.problems for effect in refused):
        show.say("\nDeclare a table that needs another name under one: its readers would find another table.")
    elif rebuilt and not refused:
        show.say(f"\nNext: lakehouse deploy stage{with_app(app)}")
    elif not refused:
        show.say("\nNothing to deploy: `lakehouse run` goes on with these declarations.")


def _word_of(effect: TableEffect) -> str:
    return "is refused" if effect.problems else WORDS[effect.effect]


def _format_size(byte_count: int) -> str:
    return f"{byte_count / 1e3:,.0f} kB" if byte_count < 1e6 else f"{byte_count / 1e6:,.1f} MB"
