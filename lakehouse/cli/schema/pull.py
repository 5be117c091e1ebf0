"""`lakehouse schema pull`: the registry's newest schemas, pinned in files beside the application."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakehouse.cli.terminal import show
from lakehouse.cli.terminal.failure import FAILED
from lakehouse.cli.terminal.options import AppOption, ConfigOption, JsonOption, LakeOption, app_of, settings_of
from lakehouse.errors import ConfigError

if TYPE_CHECKING:
    from lakehouse.run.schemas.pull import PulledSchema


def pull(
    topics: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TOPIC]...", help="Topics; all of the application's in Avro and Protobuf if left out."),
    ] = None,
    subject: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The subject of the topic's values, if it is named by their record."),
    ] = None,
    key_subject: Annotated[str | None, typer.Option(metavar="NAME", help="The subject of the topic's keys.")] = None,
    ids: Annotated[
        list[int] | None,
        typer.Option(
            "--id",
            min=1,
            metavar="ID",
            help="Also the schema with this id, for SQL's VALUE_SCHEMA_ID; can be repeated.",
        ),
    ] = None,
    app: AppOption = None,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--folder",
            metavar="FOLDER",
            help="The folder of the application's file; that of --app or lake.app, else the current one, if left out.",
        ),
    ] = None,
    config: ConfigOption = None,
    lake: LakeOption = None,
    json: JsonOption = False,
) -> None:
    """Write the registry's newest schemas of topics into files beside the application, and say which columns differ.

    The files are schemas/TOPIC-value.avsc and schemas/TOPIC-key.avsc, in Protobuf .proto. A stream whose columns are
    not declared has the columns of these. With topics, or --id, the application is not loaded: it may still lack its
    files. The file of an id is schemas/id-ID.avsc. Where subjects are named by records, the file that is there tells
    the subject; name it the first time.

    Exit code 1 if a schema can't be read here; its file is left as it was.

    Example: lakehouse schema pull orders
    """
    from lakehouse.plan.expression.schema import check_topic
    from lakehouse.registry.opening import open_registry
    from lakehouse.run.schemas.pull import parts_of_topics, pull_ids, pull_schemas
    from lakehouse.run.start.application import find_app, folder_of_app

    settings = settings_of(config, lake)
    named = {name: text for name, text in (("value", subject), ("key", key_subject)) if text is not None}
    if named and len(topics or ()) != 1:
        raise ConfigError(f"--subject and --key-subject belong to one topic; found {len(topics or ())}.")
    if topics or ids:
        parts = parts_of_topics(dict.fromkeys(map(check_topic, topics or ())))
        named_app = app or settings.lake.app
        own_folder = folder or (Path() if named_app is None else folder_of_app(named_app))
    else:
        app_name = app_of(app, settings)
        parts = list(find_app(app_name).app.pinned_parts)
        own_folder = folder or folder_of_app(app_name)
        if not parts:
            raise ConfigError(f"{app_name} has no stream in a format with schemas of a registry; expected topics.")
    if not own_folder.is_dir():
        raise ConfigError(f"{own_folder}: no such folder; expected that of the application's file.")
    registry = open_registry(settings.registry)
    pulled_schemas = [
        *pull_schemas(registry, settings.registry, own_folder, parts, named),
        *pull_ids(registry, own_folder, ids or ()),
    ]
    for pulled in pulled_schemas:
        if json:
            show.print_json(_pulled_facts(pulled))
        else:
            show.say(_pulled_text(pulled))
            for note in pulled.notes:
                show.say(f"  {note}.")
    if any(pulled.state == "refused" for pulled in pulled_schemas):
        raise typer.Exit(FAILED)


def _pulled_facts(pulled: PulledSchema) -> dict[str, Any]:
    return {
        "file": str(pulled.file),
        "subject": pulled.subject,
        "version": pulled.version,
        "state": pulled.state,
        "differences": pulled.differences,
        "reason": pulled.reason or None,
        "notes": pulled.notes,
    }


def _pulled_text(pulled: PulledSchema) -> str:
    version_text = "" if pulled.version is None else f", version {pulled.version}"
    begin = f"{os.path.relpath(pulled.file)}: {pulled.subject}{version_text}: "
    match pulled.state:
        case "refused":
            return f"{begin}not written, for it can't be read here: {pulled.reason}"
        case "changed":
            return f"{begin}{'; '.join(pulled.differences) or 'the same columns in another text'}."
    return f"{begin}{pulled.state}."
