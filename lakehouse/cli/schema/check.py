"""`lakehouse schema check`: does an application still fit the registry's newest schemas?"""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from lakehouse.cli.terminal import show
from lakehouse.cli.terminal.failure import FAILED
from lakehouse.cli.terminal.options import AppOption, ConfigOption, JsonOption, LakeOption, app_of, settings_of

if TYPE_CHECKING:
    from lakehouse.run.schemas.check import SchemaCheck


def check(
    app: AppOption = None, config: ConfigOption = None, lake: LakeOption = None, json: JsonOption = False
) -> None:
    """Check that an application fits the registry's newest schemas: for CI. Nothing is written.

    Compared are the pinned files, the columns of each stream in Avro or Protobuf, and the schemas of what is published.
    Exit code 1 if one does not fit.

    Example: lakehouse schema check --app app.py
    """
    from lakehouse.registry.opening import open_registry
    from lakehouse.run.schemas.check import check_schemas
    from lakehouse.run.start.application import find_app, folder_of_app

    settings = settings_of(config, lake)
    app_name = app_of(app, settings)
    found_app = find_app(app_name)
    checks = check_schemas(open_registry(settings.registry), settings.registry, found_app.app, folder_of_app(app_name))
    is_ok = not any(one_check.problems for one_check in checks)
    if json:
        show.print_json({"ok": is_ok, "checks": [asdict(one_check) for one_check in checks]})
    else:
        for one_check in checks:
            _say_check(one_check)
        if not checks:
            show.say(f"{app_name} has no topic in a format with schemas of a registry; there is nothing to check.")
    if not is_ok:
        raise typer.Exit(FAILED)


def _say_check(one_check: SchemaCheck) -> None:
    version = "" if one_check.version is None else f", version {one_check.version}"
    name = os.path.relpath(one_check.name) if one_check.compared == "pinned" else one_check.name
    begin = f"{one_check.compared} {name}: {one_check.subject or 'no subject'}{version}"
    if one_check.note:
        show.say(f"-       {begin}: {one_check.note}.")
        return
    show.say(f"{'differs' if one_check.problems else 'ok     '} {begin}")
    for problem in one_check.problems:
        show.say(f"          {problem}")
    for label, text in (("here", one_check.own), ("registry", one_check.registered)):
        if text:
            show.say(f"          {label}: {text}")
