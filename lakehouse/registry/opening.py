"""Opens the registry that the settings name: a configured one, or the embedded one if it runs."""

from __future__ import annotations

from lakehouse.errors import RegistryUnavailable
from lakehouse.registry.client import Registry
from lakehouse.registry.embedded import find_registry
from lakehouse.settings.sections import RegistrySection


def open_registry(settings: RegistrySection) -> Registry:
    """Return a client of the configured registry, or of the embedded one that runs; nothing is asked yet.

    Raises RegistryUnavailable if none is configured and none runs; ConfigError as `Registry` does.
    """
    if settings.url is not None:
        return Registry(settings, settings.url)
    if (running := find_registry(settings.folder)) is not None:
        return Registry(settings, running.url)
    raise RegistryUnavailable(
        f"Found no schema registry: none is configured (registry.url), and none runs on {settings.folder}. Start one: "
        "`lakehouse registry up`."
    )
