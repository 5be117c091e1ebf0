"""`lakehouse sql`: ksqlDB's statements from a file, a line, a pipe, or the shell."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from lakehouse.cli.sql.answer import run_statements
from lakehouse.cli.terminal.options import AppOption, ConfigOption, JsonOption, LakeOption, settings_of
from lakehouse.errors import ConfigError, PlanError


def sql(
    file: Annotated[
        Path | None, typer.Option("--file", "-f", metavar="FILE", help="Run the statements of a file.")
    ] = None,
    execute: Annotated[
        list[str] | None,
        typer.Option("--execute", "-e", metavar="SQL", help="Run statements; can be given several times."),
    ] = None,
    app: AppOption = None,
    config: ConfigOption = None,
    lake: LakeOption = None,
    json: JsonOption = False,
) -> None:
    """Ask and declare in ksqlDB's SQL: SELECT, SHOW, DESCRIBE, EXPLAIN, PRINT, INSERT INTO ... VALUES, CREATE ...

    Without -f and -e it is a shell; from a pipe, statements are read to its end. The statements of an application
    in SQL (--app app.sql) are known; the shell's own declarations are forgotten at the end.

    Example: lakehouse sql --app app.sql -e "SELECT * FROM visits WHERE name = 'ann';"
    """
    from lakehouse.run.sql.session import SqlSession
    from lakehouse.run.start.application import statements_in

    settings = settings_of(config, lake)
    session = SqlSession(settings)
    app_name = app or settings.lake.app
    if app is not None and not app.endswith(".sql"):
        raise ConfigError(f"--app {app}: expected a file of SQL (app.sql). For Python applications: `lakehouse query`.")
    if app_name is not None and app_name.endswith(".sql"):
        try:
            session.script.folder = Path(app_name).resolve().parent
            session.script.run(statements_in(Path(app_name)))
        except PlanError as error:
            raise PlanError(f"{app_name}: {error}") from error
    statement_texts = [*([statements_in(file)] if file is not None else []), *(execute or [])]
    if not statement_texts and sys.stdin.isatty():
        from lakehouse.cli.sql.shell import run_shell

        run_shell(session)
        return
    for sql_text in statement_texts or [sys.stdin.read()]:
        run_statements(session, sql_text, as_json=json)
