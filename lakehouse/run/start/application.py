"""Loads an application from a file, or an importable module, that declares one; and the functions beside it.

A file of ksqlDB's SQL (app.sql) is an application as well: all declarations of its statements, under the name `app`.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from lakehouse.errors import ConfigError, LakehouseError, PlanError, reason_of_error
from lakehouse.plan.app import App
from lakehouse.plan.expression.source import keep_source
from lakehouse.plan.refused.near import suggest_near
from lakehouse.plan.refused.place import in_file
from lakehouse.plan.refused.steps import value_in_message
from lakehouse.plan.table import Table
from lakehouse.run.start.wrong_line import error_place, located_message
from lakehouse.settings.config import FILE_ENDINGS, split_application

_folders: list[str] = []  # that of the file that was loaded last, where Python looks for modules
_names_from_beside: set[str] = set()  # of the modules that it imported from there
MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


@dataclass(frozen=True, slots=True)
class LoadedApp:
    """An application and its place: a file or a module, and its name in there."""

    app: App
    location: str
    name: str
    module: ModuleType

    @property
    def file(self) -> Path | None:
        """The file of Python or SQL; None for a module."""
        return Path(self.location) if self.location.endswith(FILE_ENDINGS) else None


def load_app(target: str) -> App:
    """Return the application that `target` names: "flights.py", "flights.py:app", "flights.sql", "package.module".

    Without a name it takes the module's one `App`. Raises ConfigError if there is none, PlanError for its declarations.
    """
    return find_app(target).app


def find_app(target: str) -> LoadedApp:
    """Return the application that `target` names, with its place; see `load_app`."""
    location, name = split_application(target)
    module = _load_target(location, f"application {target!r}")
    # An application with two names counts once.
    apps_by_id = {
        id(value): LoadedApp(value, location, n, module) for n, value in vars(module).items() if isinstance(value, App)
    }
    if name:
        candidate = getattr(module, name, None)
        if not isinstance(candidate, App):
            raise ConfigError(
                f"{target}: "
                f"{_describe_missing_app(module, location, name, [loaded.name for loaded in apps_by_id.values()])}"
            )
        return LoadedApp(candidate, location, name, module)
    if not apps_by_id:
        tables = [n for n, value in vars(module).items() if isinstance(value, Table)]
        raise ConfigError(
            f"{target}: declares no application. Add a line such as app = lh.app({', '.join(tables) or 'table'})."
        )
    if len(apps_by_id) > 1:
        names = " or ".join(f"{location}:{loaded.name}" for loaded in apps_by_id.values())
        raise ConfigError(f"{target}: declares {len(apps_by_id)} applications. Name one: {names}.")
    return next(iter(apps_by_id.values()))


def _describe_missing_app(module: ModuleType, location: str, name: str, app_names: list[str]) -> str:
    """Say what stands under a name that is no application, and which applications there are."""
    existing_apps = (
        f"The application there is {' or '.join(f'{location}:{known_name}' for known_name in app_names)}."
        if app_names
        else ""
    )
    if name in vars(module):
        description = (
            f"{name!r} is {value_in_message(vars(module)[name])}, expected an application: {name} = lh.app(...)."
        )
        return f"{description} {existing_apps}".strip()
    suggestion = (
        ""
        if app_names
        else suggest_near(name, [known_name for known_name in vars(module) if not known_name.startswith("_")])
    )
    return f"{location} has no {name!r}.{suggestion} {existing_apps or 'Declare one: app = lh.app(...).'}"


def folder_of_app(target: str) -> Path:
    """Return the folder of the file that `target` names; it is not loaded. Raises ConfigError for a missing module."""
    location, _ = split_application(target)
    if location.endswith(FILE_ENDINGS):
        return Path(location).absolute().parent
    if "" not in sys.path:
        sys.path.append("")
    try:
        spec = importlib.util.find_spec(location)
    except (ImportError, ValueError):
        spec = None
    if spec is None or spec.origin is None:
        raise ConfigError(f"application {target!r}: there is no such module. Expected a file (flights.py) or a module.")
    return Path(spec.origin).absolute().parent


def load_function(target: str, loaded_app: LoadedApp) -> Callable[..., Any]:
    """Return the function that `target` names: "fixes.py:repair", "package.fixes:repair", or "repair" beside the app.

    Raises ConfigError when there is none.
    """
    location, _, name = target.rpartition(":")
    module = _load_target(location, f"function {target!r}", sql=False) if location else loaded_app.module
    candidate = getattr(module, name, None)
    if not callable(candidate):
        description = (
            f"found {value_in_message(candidate)}"
            if name in vars(module)
            else f"{location or loaded_app.location} has no {name!r}"
        )
        function_names = [n for n, value in vars(module).items() if callable(value) and not n.startswith("_")]
        raise ConfigError(
            f"function {target!r}: {description}, expected a function.{suggest_near(name, function_names)} "
            "Name it as FILE.py:NAME, MODULE:NAME, or NAME for one of the application's file."
        )
    function: Callable[..., Any] = candidate
    return function


def _load_target(location: str, label: str, *, sql: bool = True) -> ModuleType:
    """Load a file or a module. label: what it is, for messages. sql: a file of SQL can have it."""
    if sql and location.endswith(".sql"):
        return _load_sql(location, label)
    if location.endswith(".py"):
        return load_file(location, label)
    return _import_module(location, label, "a file (flights.py, flights.sql)" if sql else "a Python file (flights.py)")


def _load_sql(location: str, label: str) -> ModuleType:
    from lakehouse.ksql.script import application

    text = statements_in(Path(location), label)
    module = ModuleType(Path(location).stem)
    try:
        with in_file(location):
            vars(module)["app"] = application(text, Path(location).resolve().parent)
    except PlanError as error:
        raise PlanError(f"{location}: {error}") from error
    return module


def statements_in(file: Path, label: str = "") -> str:
    """Return the text of a file of SQL. label: what it is, for messages (empty: the file). Raises ConfigError."""
    try:
        return file.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{label or file}: can't be read: {reason_of_error(error)}. Expected SQL statements in UTF-8."
        ) from error


class _SourceLoader(SourceFileLoader):
    """Compiles the file itself. Python's cache of compiled files goes by size and second: it would miss an edit of one
    digit within a second, and the lake would get tables of the logic before it. The text is kept: the fingerprints of
    its functions are of what was loaded, whatever becomes of the file."""

    def get_code(self, fullname: str) -> CodeType:
        source = self.get_data(self.path)
        code: CodeType = self.source_to_code(source, self.path)
        keep_source(code, importlib.util.decode_source(source))
        return code


def load_file(location: str, label: str) -> ModuleType:
    """Load a file of Python, each time anew. label: what it is, for messages. Raises ConfigError, PlanError."""
    path = Path(location)
    if not path.is_file():
        raise ConfigError(
            f"{label}: no such file; expected a Python file. `lakehouse init NAME` makes one with an application."
        )
    try:
        path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{location}: can't be read: {reason_of_error(error)}. Expected a Python file.") from error
    name = f"lakehouse_application_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path, loader=_SourceLoader(name, str(path.absolute())))
    if spec is None or spec.loader is None:
        raise ConfigError(f"{location}: can't be loaded as Python.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    with _imports_beside(path.absolute().parent), _located_errors():
        spec.loader.exec_module(module)
    return module


@contextmanager
def _imports_beside(folder: Path) -> Iterator[None]:
    """Let a file import the modules beside it, as one that Python runs can; here, and later in its functions.

    The folder is the last place where Python looks: a file in it never replaces an installed module. Modules that
    an earlier file imported from its own folder are forgotten: they may be edited, or have a namesake here.
    """
    while _names_from_beside:
        sys.modules.pop(_names_from_beside.pop(), None)
    while _folders:
        with suppress(ValueError):
            sys.path.remove(_folders.pop())
    if str(folder) not in sys.path:
        _folders.append(str(folder))
        sys.path.append(str(folder))
    importlib.invalidate_caches()
    names_before = set(sys.modules)
    try:
        yield
    finally:
        new_roots = {name for name in sys.modules if "." not in name} - names_before
        _names_from_beside.update(
            name
            for name, module in sys.modules.items()
            if name.partition(".")[0] in new_roots and _is_below(folder, module)
        )


def _is_below(folder: Path, module: ModuleType) -> bool:
    file = getattr(module, "__file__", None)
    return file is not None and Path(file).is_relative_to(folder)


@contextmanager
def _located_errors() -> Iterator[None]:
    """Raise the errors of an application's file as errors of lakehouse, with their place in it."""
    try:
        yield
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # also SystemExit: a process that ends here would have succeeded
        kind = type(error) if isinstance(error, LakehouseError) else PlanError
        raise kind(located_message(error)) from error


def _import_module(location: str, label: str, files: str) -> ModuleType:
    if not MODULE.fullmatch(location):
        raise ConfigError(f"{label}: expected {files} or a module (package.flights).")
    if "" not in sys.path:
        sys.path.append("")  # behind all others: a file here never replaces an installed module
    with _located_errors():
        try:
            return importlib.import_module(location)
        except ModuleNotFoundError as error:
            if error_place(error) is not None:
                raise
            expected = "Expected a Python file (flights.py) or an importable module."
            raise ConfigError(f"{label}: {error}. {expected}") from error
