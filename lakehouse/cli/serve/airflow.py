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
    from lakehouse.airflow.report import Process

HomeOption = Annotated[
    Path | None, typer.Option("--home", metavar="FOLDER", help="Airflow's home; wins over the setting airflow.home.")
]
NameOption = Annotated[
    str | None, typer.Option("--name", help="Its name in Airflow; made from the file's or folder's name if left out.")
]


def _load_settings(config: Path | None, home: Path | None) -> Settings:
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

    Without --app it adds the application of the settings (lake.app), if Airflow knows none yet. The first time, its
    environment is installed (700 MB; some minutes). Does nothing when it is already running.

    Example: lakehouse airflow up --app app.py
    """
    from lakehouse.airflow import report, service

    if name is not None and app is None:
        raise ConfigError(f"airflow up: found --name {name!r:.80} without --app; expected the file that it names, too.")
    settings = _load_settings(config, home)
    if app is None and not _has_applications(settings):
        app = settings.lake.app
    if app is not None:
        manifest, _ = _add_application(settings, app, name)
        show.say(_describe_added(manifest), stderr=True)
    start_time = time.monotonic()
    running_airflow, changed = service.start_airflow(settings.airflow, lambda text: show.say(text, stderr=True))
    start_seconds = time.monotonic() - start_time
    if json:
        status_report = report.report_airflow(settings.airflow).as_json()
        show.print_json(status_report | {"changed": changed, "seconds": round(start_seconds, 1)})
        return
    airflow_state = f"is healthy after {start_seconds:.0f} s" if changed else "is already running"
    show.say(f"Airflow {airflow_state}: {running_airflow.url}")
    admin_user = next(user_name for user_name, role in settings.airflow.users.items() if role == "admin")
    show.say(f"Sign in as {admin_user}; the password is in {running_airflow.home.passwords}")
    show.say("`lakehouse airflow down` stops it.")


def down(config: ConfigOption = None, home: HomeOption = None, json: JsonOption = False) -> None:
    """Stop Airflow with everything that it started. Runs under way are ended too; history and settings stay.

    Example: lakehouse airflow down
    """
    from lakehouse.airflow import service

    airflow_settings = _load_settings(config, home).airflow
    changed = service.stop_airflow(airflow_settings)
    if json:
        show.print_json({"home": str(airflow_settings.home), "changed": changed})
    else:
        show.say(f"Airflow ({airflow_settings.home}) {'was stopped.' if changed else 'does not run; nothing to stop.'}")


def status(config: ConfigOption = None, home: HomeOption = None, json: JsonOption = False) -> None:
    """Show Airflow's processes, its health, DAGs and applications. The exit code is 1 unless it runs and is healthy.

    Memory counts what a process started, too.

    Example: lakehouse airflow status
    """
    from lakehouse.airflow.report import report_airflow

    status_report = report_airflow(_load_settings(config, home).airflow)
    if json:
        show.print_json(status_report.as_json())
    elif not status_report.running:
        show.say(f"Airflow ({status_report.home}) does not run; `lakehouse airflow up` starts it.")
        show.say(f"Applications: {', '.join(status_report.applications) or 'none'}")
    else:
        show.say(f"Airflow {'is healthy' if status_report.healthy else 'is not healthy'}: {status_report.url}")
        process_rows = [
            (
                process.name,
                str(process.pid or show.ABSENT),
                _format_uptime(process.uptime_seconds),
                process.memory_bytes // 2**20,
                _process_state(process),
                process.restarts,
            )
            for process in status_report.processes
        ]
        show.print_table("Processes", ("process", "pid", "up for", "MB", "state", "restarts"), process_rows)
        show.say(f"Memory: {status_report.memory_bytes // 2**20} MB. Logs: {status_report.home}/logs")
        show.say(
            f"DAGs: {_format_dag_count(status_report.dags)}. Applications: "
            f"{', '.join(status_report.applications) or 'none'}"
        )
        for file, line in (status_report.import_errors or {}).items():
            show.say(f"{file} can't be imported: {line}")
        show.say(f"Sign in as {status_report.user}; the password is in {status_report.password_file}")
    if not status_report.healthy:
        raise typer.Exit(FAILED)


def add(
    app: AppOption = None,
    name: NameOption = None,
    schedule: Annotated[
        str | None,
        typer.Option(
            metavar="CRON", help='When it catches up: "*/15 * * * *", "@hourly"; "none": by hand, as at first.'
        ),
    ] = None,
    backfill_schedule: Annotated[
        str | None,
        typer.Option(metavar="CRON", help='The schedule of the DAG whose runs backfill one interval each; or "none".'),
    ] = None,
    freshness_minutes: Annotated[
        int | None,
        typer.Option(metavar="M", help="Alert when a catch-up has not succeeded this long after it was due; 0: never."),
    ] = None,
    config: ConfigOption = None,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Tell Airflow of an application: its DAGs appear within seconds. Repeat it after the declaration changed.

    Schedules that are left out stay as they were.

    Example: lakehouse airflow add --app app.py --schedule "@hourly"
    """
    from lakehouse.airflow import service
    from lakehouse.airflow.home import Home

    settings = _load_settings(config, home)
    schedule_options = (schedule, backfill_schedule, freshness_minutes)
    manifest, path = _add_application(settings, app_of(app, settings), name, schedule_options)
    if (running := service.find_running(Home(settings.airflow.home))) is not None:
        service.make_pools(running, settings.airflow)
    if json:
        show.print_json(manifest | {"file": str(path)})
    else:
        show.say(_describe_added(manifest))


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

    manifest.remove_manifest(Home(_load_settings(config, home).airflow.home).applications, name)
    if json:
        show.print_json({"name": name, "changed": True})
    else:
        show.say(f"Removed {name}. Its DAGs disappear within seconds.")


def _has_applications(settings: Settings) -> bool:
    from lakehouse.airflow import manifest
    from lakehouse.airflow.home import Home

    return bool(list(manifest.read_manifests(Home(settings.airflow.home).applications)))


def _add_application(
    settings: Settings,
    app: str,
    name: str | None = None,
    schedule_options: tuple[str | None, str | None, int | None] = (None, None, None),
) -> tuple[dict[str, Any], Path]:
    from lakehouse.airflow import manifest
    from lakehouse.airflow.home import Home
    from lakehouse.run.start.application import find_app

    found_app = find_app(app)
    if found_app.file is None:
        raise ConfigError(
            f"{app} is a module; expected the application's file, such as shop/app.py: Airflow's tasks run elsewhere."
        )
    app_file = found_app.file.resolve()
    app_target = f"{app_file}:{found_app.name}" if ":" in app else str(app_file)
    name = name if name is not None else manifest.suggest_app_name(app_file)
    home = Home(settings.airflow.home)
    schedules = manifest.chosen_schedules(manifest.earlier_schedules(home.applications, name), *schedule_options)
    new_manifest = manifest.manifest_of_app(found_app.app, app_target, settings, name, schedules)
    home.make_folders()
    return new_manifest, manifest.write_manifest(home.applications, new_manifest)


def _describe_added(manifest: dict[str, Any]) -> str:
    table_names = ", ".join(table["name"] for table in manifest["tables"]) or "none"
    kinds = (("schedule", "catch-up"), ("backfill_schedule", "backfill"), ("freshness_minutes", "minutes of freshness"))
    schedules = ", ".join(f"{kind} {manifest[key]}" for key, kind in kinds if manifest[key] is not None) or "by hand"
    return (
        f"Added {manifest['name']} ({manifest['app']}), tables: {table_names}; schedules: {schedules}. Its DAGs: "
        f"{manifest['name']}__..."
    )


def _format_uptime(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    minutes, rest_seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return (
        f"{hours} h {minutes:02} min"
        if hours
        else f"{minutes} min {rest_seconds:02} s"
        if minutes
        else f"{rest_seconds} s"
    )


def _process_state(process: Process) -> str:
    if process.given_up:
        return f"given up: {process.last_end}"
    if process.pid is None:
        return f"waits to start again: {process.last_end}"
    return process.health or ("runs" if process.name == "supervisor" else "does not answer")


def _format_dag_count(dags: int | None) -> str:
    return "Airflow did not say" if dags is None else str(dags)
