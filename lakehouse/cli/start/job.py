"""Runs an application for a command or a job: its events, its summary."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from lakehouse.cli.start.run_signals import STOP_SECONDS, RunSignals
from lakehouse.cli.terminal import show
from lakehouse.cli.terminal.failure import BAD_INPUT, FAILED, OK, exit_code
from lakehouse.cli.terminal.standard_streams import open_missing_streams
from lakehouse.cli.terminal.waiting import show_phases
from lakehouse.errors import ConfigError, LakehouseError
from lakehouse.lake import reader
from lakehouse.lake.layout import Layout
from lakehouse.plan.app import App
from lakehouse.run.watch.event import JobEvent
from lakehouse.settings.config import Settings
from lakehouse.spark.jvm.kept.choice import allow_keeping

if TYPE_CHECKING:
    from lakehouse.run.job.job import Part

CUT_OFF = (
    f"it took longer than {STOP_SECONDS:.0f} s to stop, so Java was ended. The next start does what was under way."
)
CAUGHT_UP = "caught-up"
STOPPED = "stopped"


def run_until(
    settings: Settings, app: App, parts: tuple[Part, ...] | None, until: str, listen: Callable[[JobEvent], None]
) -> dict[str, Any]:
    """Run an application until it is caught up, or until a signal stops it; return the "done" event."""
    from lakehouse.run.lake import Lake
    from lakehouse.run.start import cheap_checks, topics
    from lakehouse.run.start.kafka import open_kafka

    cheap_checks.check_before_run(settings, app, parts)
    start_time, rows = time.monotonic(), 0

    def tell(event: JobEvent) -> None:
        nonlocal rows
        rows += event.records if event.kind == "tick" else 0
        listen(event)

    with RunSignals() as signals, open_kafka(settings) as servers, signals.ending_by_fault():
        if parts is None or "ingest" in parts:
            topics.check_topics(settings, app, servers)  # the last check before Spark starts
        lake = Lake(settings=settings)
        _ = lake.spark
        signals.set_handlers()  # pyspark has set its own for Ctrl-C
        if until == CAUGHT_UP:
            lake.run(app, until="caught_up", parts=parts, listen=tell)
        else:
            try:
                with signals.stopping() as stop_event:
                    lake.run(app, parts=parts, stop=stop_event, listen=tell)
            except Exception:
                if not signals.is_cut_off:
                    raise
                tell(JobEvent("cut off", 0, 0, time.monotonic() - start_time, {"message": CUT_OFF}))
    return {
        "event": "done",
        "rows": rows,
        **_lake_state(settings, app),
        "seconds": round(time.monotonic() - start_time, 1),
    }


def divide_app(app: App, part: str | None, table_names: str | None) -> App:
    """Return the part of an application that --part or --tables choose; without both, all of it. Raises ConfigError."""
    from lakehouse.run.start.division import limited_to, part_of

    if part is not None and table_names is not None:
        raise ConfigError("--part and --tables: expected one of the two.")
    if part is not None:
        return part_of(app, part)
    if table_names is not None:
        return limited_to(app, [name.strip() for name in table_names.split(",") if name.strip()])
    return app


def _lake_state(settings: Settings, app: App) -> dict[str, Any]:
    """Return the lake's state after a run, without Spark. quarantined: the records that no replay has fixed;
    null_keys: the records that a table left out because they have no key."""
    from lakehouse.lake import null_keys
    from lakehouse.lake.clocks_ahead import tables_ahead
    from lakehouse.lake.record.quarantine import count_open_by_stream

    layout = Layout(settings.lake.path)
    table_names = [table.name for table in app.tables]
    existing_tables = set(reader.table_names(layout, "silver"))
    facts_by_table = {
        name: reader.read_table_facts(layout, "silver", name) for name in table_names if name in existing_tables
    }
    streams = {source.name for source in app.sources} & set(reader.table_names(layout, "quarantine"))
    null_keys_by_table = null_keys.null_keys_by_table(layout)
    bad_streams = sorted(stream for stream, records in reader.count_quarantined(layout, streams).items() if records)
    return {
        "tick": reader.read_bronze_coverage(layout).tick,
        "tables": {
            name: {"rows": table_facts.rows, "version": table_facts.version, "tick": table_facts.tick}
            for name, table_facts in facts_by_table.items()
        },
        "quarantined": {stream: count for stream, count in count_open_by_stream(layout, bad_streams).items() if count},
        "null_keys": {name: null_keys_by_table[name] for name in facts_by_table if null_keys_by_table.get(name)},
        **({"ahead": [asdict(table) for table in ahead]} if (ahead := tables_ahead(layout)) else {}),
    }


class _JobArgumentParser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{message}. {self.format_usage().strip()}")


def main(
    arguments: Sequence[str],
    about: str,
    run_job: Callable[[Settings, App, str], dict[str, Any]],
    *,
    is_divisible: bool = False,
) -> int:
    """Run a job of `spark_jobs`: --app, --config, --until; JSON lines on stdout; return the exit code.

    run_job: called with the settings, the application and --until; gives the last event. Any other than "done" is a
    failure. is_divisible: take --part and --tables, too; the application is then that part.
    """
    from lakehouse.cli.terminal.options import settings_of
    from lakehouse.run.start.application import load_app

    open_missing_streams()
    parser = _JobArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--app", required=True, help="a file that declares an application, or a module")
    parser.add_argument("--config", type=Path, help="settings; lakehouse.toml of this folder if left out")
    parser.add_argument("--until", choices=(CAUGHT_UP, STOPPED), default=CAUGHT_UP, help="caught-up if left out")
    if is_divisible:
        parser.add_argument("--part", metavar="K/N", help="one of N parts of the tables, such as 1/3")
        parser.add_argument("--tables", metavar="NAMES", help="these tables, such as totals,orders")
    try:
        options = parser.parse_args(arguments)
        app = load_app(options.app)
        if is_divisible:
            app = divide_app(app, options.part, options.tables)
        allow_keeping(allowed=options.until == CAUGHT_UP)
        with show_phases(quiet=False):
            last_event = run_job(settings_of(options.config, None), app, options.until)
    except LakehouseError as error:
        show.print_json({"event": "error", "message": str(error)})
        return BAD_INPUT if exit_code(error) == BAD_INPUT else FAILED
    except Exception as error:
        show.print_json({"event": "error", "message": f"{type(error).__name__}: {error}"})
        raise
    finally:
        allow_keeping(allowed=False)
    show.print_json(last_event)
    return OK if last_event["event"] == "done" else FAILED


def run_part(part: Part, arguments: Sequence[str], about: str) -> int:
    """Run "ingest" or "silver" as a job; return its exit code."""

    def work(settings: Settings, app: App, until: str) -> dict[str, Any]:
        from lakehouse.run.watch.event import as_event

        return run_until(settings, app, (part,), until, lambda event: show.print_json(as_event(event)))

    return main(arguments, about, work, is_divisible=part == "silver")


def run_checks(arguments: Sequence[str], about: str) -> int:
    """Run the checks as a job; return its exit code."""
    from lakehouse.cli.start.verify import verify_tables

    def work(settings: Settings, app: App, until: str) -> dict[str, Any]:
        check_result = verify_tables(Layout(settings.lake.path), app)
        error_message = {} if check_result["ok"] else {"message": "; ".join(check_result["problems"])}
        return {"event": "done" if check_result["ok"] else "error", **error_message, **check_result}

    return main(arguments, about, work)
