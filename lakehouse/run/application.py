"""Loading an application: a file, or an importable module, that declares one."""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from lakehouse.errors import ConfigError, LakehouseError, PlanError
from lakehouse.plan.app import App

MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


@dataclass(frozen=True, slots=True)
class Found:
    """An application, and where it is: a file or a module, and its name in there."""

    app: App
    where: str
    name: str

    @property
    def file(self) -> Path | None:
        """The Python file, None for a module."""
        return Path(self.where) if self.where.endswith(".py") else None


def load_app(target: str) -> App:
    """Return the application that `target` names: "flights.py", "flights.py:app", "package.module".

    Without a name the module's one `App` is taken. Raises ConfigError when there is none, PlanError as declared there.
    """
    return find_app(target).app


def find_app(target: str) -> Found:
    """Return the application that `target` names, with its place; see `load_app`."""
    where, _, name = target.rpartition(":") if ":" in target else (target, "", "")
    module = _load_file(where) if where.endswith(".py") else _import(where, target)
    if name:
        found = getattr(module, name, None)
        if not isinstance(found, App):
            raise ConfigError(
                f"{target}: {name!r} is {type(found).__name__}, expected an application: {name} = lh.app(...)."
            )
        return Found(found, where, name)
    # An application under two names is one.
    apps = {id(value): Found(value, where, name) for name, value in vars(module).items() if isinstance(value, App)}
    if len(apps) != 1:
        raise ConfigError(
            f"{target}: found {len(apps)} applications, expected one: app = lh.app(...). Name one with {where}:NAME."
        )
    return next(iter(apps.values()))


def _load_file(where: str) -> ModuleType:
    path = Path(where)
    if not path.is_file():
        raise ConfigError(
            f"{where}: no such file; expected a Python file that declares an application. "
            "`lakehouse init NAME` makes one."
        )
    name = f"lakehouse_application_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{where}: can't be loaded as Python.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except LakehouseError:
        raise
    except Exception as error:
        raise PlanError(f"{where}: {type(error).__name__} while it was loaded: {error}") from error
    return module


def _import(where: str, target: str) -> ModuleType:
    if not MODULE.fullmatch(where):
        raise ConfigError(f"application {target!r}: expected a Python file (flights.py) or a module (package.flights).")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        return importlib.import_module(where)
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"application {target!r}: {error}. Expected a Python file (flights.py) or an importable module."
        ) from error
