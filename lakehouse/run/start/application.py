"""Loading an application: a file, or an importable module, that declares one; and functions beside it.

A file of ksqlDB's SQL (app.sql) is an application as well: all that its statements declare, under the name `app`.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from lakehouse.errors import ConfigError, LakehouseError, PlanError, reason
from lakehouse.plan.app import App
from lakehouse.plan.refused.near import near
from lakehouse.plan.refused.place import in_file
from lakehouse.plan.refused.steps import shown
from lakehouse.plan.table import Table
from lakehouse.run.start.wrong_line import message, place

MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


@dataclass(frozen=True, slots=True)
class Found:
    """An application and its place: a file or a module, and its name in there."""

    app: App
    where: str
    name: str
    module: ModuleType

    @property
    def file(self) -> Path | None:
        """The file of Python or SQL, None for a module."""
        return Path(self.where) if self.where.endswith((".py", ".sql")) else None


def load_app(target: str) -> App:
    """Return the application that `target` names: "flights.py", "flights.py:app", "flights.sql", "package.module".

    Without a name the module's one `App` is taken. Raises ConfigError if there is none, PlanError as declared there.
    """
    return find_app(target).app


def find_app(target: str) -> Found:
    """Return the application that `target` names, with its place; see `load_app`."""
    where, _, name = target.rpartition(":") if ":" in target else (target, "", "")
    module = _load(where, f"application {target!r}")
    # An application under two names is one.
    apps = {id(value): Found(value, where, n, module) for n, value in vars(module).items() if isinstance(value, App)}
    if name:
        found = getattr(module, name, None)
        if not isinstance(found, App):
            raise ConfigError(f"{target}: {_no_app(module, where, name, [one.name for one in apps.values()])}")
        return Found(found, where, name, module)
    if not apps:
        tables = [n for n, value in vars(module).items() if isinstance(value, Table)]
        raise ConfigError(
            f"{target}: declares no application. Add a line such as app = lh.app({', '.join(tables) or 'table'})."
        )
    if len(apps) > 1:
        names = " or ".join(f"{where}:{one.name}" for one in apps.values())
        raise ConfigError(f"{target}: declares {len(apps)} applications. Name one: {names}.")
    return next(iter(apps.values()))


def _no_app(module: ModuleType, where: str, name: str, apps: list[str]) -> str:
    """Say what a name that is no application is, and which ones there are."""
    there = f"The application there is {' or '.join(f'{where}:{one}' for one in apps)}." if apps else ""
    if name in vars(module):
        said = f"{name!r} is {shown(vars(module)[name])}, expected an application: {name} = lh.app(...)."
        return f"{said} {there}".strip()
    meant = "" if apps else near(name, [one for one in vars(module) if not one.startswith("_")])
    return f"{where} has no {name!r}.{meant} {there or 'Declare one: app = lh.app(...).'}"


def load_function(target: str, of: Found) -> Callable[..., Any]:
    """Return the function that `target` names: "fixes.py:repair", "package.fixes:repair", or "repair" beside the app.

    Raises ConfigError when there is none.
    """
    where, _, name = target.rpartition(":")
    module = _load(where, f"function {target!r}", sql=False) if where else of.module
    found = getattr(module, name, None)
    if not callable(found):
        there = f"found {shown(found)}" if name in vars(module) else f"{where or of.where} has no {name!r}"
        functions = [n for n, value in vars(module).items() if callable(value) and not n.startswith("_")]
        raise ConfigError(
            f"function {target!r}: {there}, expected a function.{near(name, functions)} "
            "Name it as FILE.py:NAME, MODULE:NAME, or NAME for one of the application's file."
        )
    function: Callable[..., Any] = found
    return function


def _load(where: str, what: str, *, sql: bool = True) -> ModuleType:
    """`what` is loaded, for messages; sql: a file of SQL can have it."""
    if sql and where.endswith(".sql"):
        return _load_sql(where, what)
    if where.endswith(".py"):
        return _load_file(where, what)
    return _import(where, what, "a file (flights.py, flights.sql)" if sql else "a Python file (flights.py)")


def _load_sql(where: str, what: str) -> ModuleType:
    from lakehouse.ksql.script import application

    text = statements_in(Path(where), what)
    module = ModuleType(Path(where).stem)
    try:
        with in_file(where):
            vars(module)["app"] = application(text)
    except PlanError as error:
        raise PlanError(f"{where}: {error}") from error
    return module


def statements_in(file: Path, what: str = "") -> str:
    """Return the text of a file of SQL; `what` is read, for messages (empty: the file). Raises ConfigError."""
    try:
        return file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{what or file}: can't be read: {reason(error)}. Expected SQL statements in UTF-8."
        ) from error


def _load_file(where: str, what: str) -> ModuleType:
    path = Path(where)
    if not path.is_file():
        raise ConfigError(
            f"{what}: no such file; expected a Python file. `lakehouse init NAME` makes one with an application."
        )
    try:
        path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{where}: can't be read: {reason(error)}. Expected a Python file.") from error
    name = f"lakehouse_application_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{where}: can't be loaded as Python.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise _where(error) from error
    return module


def _where(error: Exception) -> LakehouseError:
    """Return an error of an application's file with its place, as an error of lakehouse."""
    kind = type(error) if isinstance(error, LakehouseError) else PlanError
    return kind(message(error))


def _import(where: str, what: str, files: str) -> ModuleType:
    if not MODULE.fullmatch(where):
        raise ConfigError(f"{what}: expected {files} or a module (package.flights).")
    if "" not in sys.path:
        sys.path.append("")  # after all others: a file here never replaces an installed module
    try:
        return importlib.import_module(where)
    except ModuleNotFoundError as error:
        if place(error) is not None:
            raise _where(error) from error
        raise ConfigError(f"{what}: {error}. Expected a Python file (flights.py) or an importable module.") from error
    except Exception as error:
        raise _where(error) from error
