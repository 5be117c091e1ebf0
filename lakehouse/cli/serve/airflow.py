"""`lakehouse airflow`: Airflow on this machine, and the applications that it runs."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakehouse.cli.terminal import show
from lakehouse.cli.terminal.failure import FAILED
from lakehouse.cli.terminal.options import AppOption, ConfigOption, JsonOption, app_of
from lakehouse.errors import ConfigError
from lakehouse.settings.config import Settings, load

if TYPE_CHECKING:
    from lakehouse.airflow.manifest import Schedules
    from lakehouse.airflow.report import Process

HomeOption = Annotated[
    Path | None, typer.Option("--home", metavar="FOLDER", help="Airflow's home; wins over the setting airflow.home.")
]
NameOption = Annotated[
    str | None, typer.Option("--name", help="Its name in Airflow; made from the file's or folder's name if left out.")
]


def _settings(config: Path | None, home: Path | None) -> Settings:
    settings = load(config)
    return settings if home is None else replace(settings, airflow=replace(settings.airflow, home=home.resolve()))


def up(
    app: Annotated[str | None, typer.Option("--app", metavar="APP", help="Also add this application: a file.")] = None,
    name: NameOption = None,
    config: ConfigOption = None,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Start Airflow on this machine, wait until it is healthy, and leave it running.

    The first time, its environment is installed (700 MB; some minutes). Does nothing when it is already running.

    Example: lakehouse airflow up --app app.py
    """
    from lakehouse.airflow import report, service

    settings = _settings(config, home)
    if app is not None:
        manifest, _ = _add(settings, app, name)
        show.say(_added(manifest), stderr=True)
    started = time.monotonic()
    running, changed = service.up(settings.airflow, lambda text: show.say(text, stderr=True))
    seconds = time.monotonic() - started
    if json:
        found = report.report(settings.airflow).as_json()
        show.as_json(found | {"changed": changed, "seconds": round(seconds, 1)})
        return
    state = f"is healthy after {seconds:.0f} s" if changed else "is already running"
    show.say(f"Airflow {state}: {running.url}")
    user = next(one for one, role in settings.airflow.users.items() if role == "admin")
    show.say(f"Sign in as {user}; the password is in {running.home.passwords}")
    show.say("`lakehouse airflow down` stops it.")


def down(config: ConfigOption = None, home: HomeOption = None, json: JsonOption = False) -> None:
    """Stop Airflow with everything that it started. Runs under way are ended too; history and settings stay.

    Example: lakehouse airflow down
    """
    from lakehouse.airflow import service

    settings = _settings(config, home).airflow
    changed = service.down(settings)
    if json:
        show.as_json({"home": str(settings.home), "changed": changed})
    else:
        show.say(f"Airflow ({settings.home}) {'was stopped.' if changed else 'does not run; nothing to stop.'}")


def status(config: ConfigOption = None, home: HomeOption = None, json: JsonOption = False) -> None:
    """Show Airflow's processes, its health, DAGs and applications. The exit code is 1 unless it runs and is healthy.

    Memory counts what a process started, too.

    Example: lakehouse airflow status
    """
    from lakehouse.airflow.report import report

    found = report(_settings(config, home).airflow)
    if json:
        show.as_json(found.as_json())
    elif not found.running:
        show.say(f"Airflow ({found.home}) does not run; `lakehouse airflow up` starts it.")
        show.say(f"Applications: {', '.join(found.applications) or 'none'}")
    else:
        show.say(f"Airflow {'is healthy' if found.healthy else 'is not healthy'}: {found.url}")
        rows = [
            (
                one.name,
                str(one.pid or show.ABSENT),
                _seconds(one.uptime_seconds),
                one.memory_bytes // 2**20,
                _state(one),
                one.restarts,
            )
            for one in found.processes
        ]
        show.table("Processes", ("process", "pid", "up for", "MB", "state", "restarts"), rows)
        show.say(f"Memory: {found.memory_bytes // 2**20} MB. Logs: {found.home}/logs")
        show.say(f"DAGs: {_count(found.dags)}. Applications: {', '.join(found.applications) or 'none'}")
        for file, line in (found.import_errors or {}).items():
            show.say(f"{file} can't be imported: {line}")
        show.say(f"Sign in as {found.user}; the password is in {found.password_file}")
    if not found.healthy:
        raise typer.Exit(FAILED)


def add(
    app: AppOption = None,
    name: NameOption = None,
    schedule: Annotated[
        str | None,
        typer.Option(metavar="CRON", help='When it catches up: "*/15 * * * *", "@hourly"; by hand if left out.'),
    ] = None,
    backfill_schedule: Annotated[
        str | None,
        typer.Option(metavar="CRON", help="The schedule of the DAG whose runs backfill one interval each."),
    ] = None,
    freshness_minutes: Annotated[
        int | None, typer.Option(metavar="M", help="Alert when no catch-up has succeeded for this long.")
    ] = None,
    config: ConfigOption = None,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Tell Airflow of an application: its DAGs appear within seconds. Repeat it after the declaration changed.

    Example: lakehouse airflow add --app app.py --schedule "@hourly"
    """
    from lakehouse.airflow import service
    from lakehouse.airflow.home import Home
    from lakehouse.airflow.manifest import Schedules

    settings = _settings(config, home)
    manifest, path = _add(
        settings, app_of(app, settings), name, Schedules(schedule, backfill_schedule, freshness_minutes)
    )
    if (running := service.find(Home(settings.airflow.home))) is not None:
        service.make_pools(running, settings.airflow)
    if json:
        show.as_json(manifest | {"file": str(path)})
    else:
        show.say(_added(manifest))


def remove(
    name: Annotated[str, typer.Argument(help="Its name in Airflow.")],
    config: ConfigOption = None,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Take an application out of Airflow. Its lake, and the history of its runs, stay.

    Example: lakehouse airflow remove shop
    """
    from lakehouse.airflow import manifest
    from lakehouse.airflow.home import Home

    manifest.remove(Home(_settings(config, home).airflow.home).applications, name)
    if json:
        show.as_json({"name": name, "changed": True})
    else:
        show.say(f"Removed {name}. Its DAGs disappear within seconds.")


def _add(
    settings: Settings, app: str, name: str | None = None, schedules: Schedules | None = None
) -> tuple[dict[str, Any], Path]:
    from lakehouse.airflow import manifest
    from lakehouse.airflow.home import Home
    from lakehouse.run.start.application import find_app

    found = find_app(app)
    if found.file is None:
        raise ConfigError(
            f"{app} is a module; expected the application's file, such as shop/app.py: Airflow's tasks run elsewhere."
        )
    file = found.file.resolve()
    target = f"{file}:{found.name}" if ":" in app else str(file)
    name = name if name is not None else manifest.name_of(file)
    made = manifest.of(found.app, target, settings, name, schedules or manifest.BY_HAND)
    home = Home(settings.airflow.home)
    home.make()
    return made, manifest.write(home.applications, made)


def _added(manifest: dict[str, Any]) -> str:
    tables = ", ".join(table["name"] for table in manifest["tables"]) or "none"
    return f"Added {manifest['name']} ({manifest['app']}), tables: {tables}. Its DAGs: {manifest['name']}__..."


def _seconds(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s" if minutes else f"{rest} s"


def _state(one: Process) -> str:
    if one.given_up:
        return f"given up: {one.last_end}"
    if one.pid is None:
        return f"waits to start again: {one.last_end}"
    return one.health or ("runs" if one.name == "supervisor" else "does not answer")


def _count(dags: int | None) -> str:
    return "Airflow did not say" if dags is None else str(dags)
