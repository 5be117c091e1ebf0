"""`lakehouse schema retry`: schemas that the registry did not have when their ids were met."""

from __future__ import annotations

from dataclasses import asdict

from lakehouse.cli.terminal import show
from lakehouse.cli.terminal.options import AppOption, ConfigOption, JsonOption, LakeOption, app_of, lake_of, with_app

IDS_SHOWN = 10


def retry(
    app: AppOption = None, config: ConfigOption = None, lake: LakeOption = None, json: JsonOption = False
) -> None:
    """Ask the registry again for schemas that it did not have when their ids were met.

    Records of an unknown id are in the quarantine. Once the lake has the schema, new records of it are read, also by a
    job that runs; a backfill of each table takes in the earlier ones.

    Example: lakehouse schema retry --app app.py
    """
    from lakehouse.run.schemas.retry import retry_unknown_ids
    from lakehouse.run.start.application import load_app

    settings = lake_of(config, lake)
    retried_parts = retry_unknown_ids(settings, load_app(app_of(app, settings)))
    if json:
        show.print_json({"parts": [asdict(part) for part in retried_parts]})
        return
    for part in retried_parts:
        show.say(
            f"topic {part.topic}, {part.part}: known now: {_id_list(part.learned)}; "
            f"still unknown: {_id_list(part.unknown)}."
        )
    if not retried_parts:
        show.say("The lake knows the schemas of all ids that it has met in these topics.")
    if tables := dict.fromkeys(name for part in retried_parts for name in part.tables):
        show.say("Their records are in the quarantine. To take them in, build each table again, from bronze:")
        for name in tables:
            show.say(f"    lakehouse repair backfill {name}{with_app(app)}")


def _id_list(ids: tuple[int, ...]) -> str:
    more = f" and {len(ids) - IDS_SHOWN:,} more" if len(ids) > IDS_SHOWN else ""
    return ", ".join(map(str, ids[:IDS_SHOWN])) + more if ids else "none"
