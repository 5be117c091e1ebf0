"""`lakehouse registry up` and `lakehouse registry down`: the embedded schema registry."""

from __future__ import annotations

from lakehouse.cli.terminal import show
from lakehouse.cli.terminal.options import ConfigOption, JsonOption, LakeOption, settings_of
from lakehouse.registry.embedded import EmbeddedRegistry, find_registry
from lakehouse.registry.opening import open_registry
from lakehouse.settings.config import Settings


def up(config: ConfigOption = None, lake: LakeOption = None, json: JsonOption = False) -> None:
    """Start the embedded schema registry and leave it running; the first time, fetch it (104 MB).

    Does nothing when it is already running. When the settings name a registry, asks that one whether it answers.

    Example: lakehouse registry up
    """
    settings = settings_of(config, lake)
    if settings.registry.url is not None:
        open_registry(settings.registry).check_reachable()
        _say_registry_state(
            settings, json, settings.registry.url, False, "is configured, and answers; there is nothing to start."
        )
    elif (running := find_registry(settings.registry.folder)) is not None:
        _say_registry_state(settings, json, running.url, False, f"is already running, as process {running.pid}.")
    else:
        embedded = EmbeddedRegistry(settings.registry.folder, settings.registry.port)
        embedded.start(detach=True)
        _say_registry_state(settings, json, embedded.url, True, "was started. `lakehouse registry down` stops it.")


def down(config: ConfigOption = None, lake: LakeOption = None, json: JsonOption = False) -> None:
    """Stop the embedded schema registry. Its schemas and their ids stay.

    Example: lakehouse registry down
    """
    settings = settings_of(config, lake)
    running = find_registry(settings.registry.folder) if settings.registry.embedded else None
    if running is not None:
        running.stop()
        _say_registry_state(settings, json, running.url, True, "was stopped. Its schemas stay.")
    elif settings.registry.embedded:
        _say_registry_state(settings, json, None, False, "does not run; there is nothing to stop.")
    else:
        _say_registry_state(
            settings, json, settings.registry.url, False, "is configured, not embedded; it is left alone."
        )


def _say_registry_state(settings: Settings, json: bool, url: str | None, is_changed: bool, state_text: str) -> None:
    folder = str(settings.registry.folder) if settings.registry.embedded else None
    if json:
        show.print_json({"url": url, "folder": folder, "changed": is_changed})
    else:
        show.say(f"Schema registry {f'at {url} ' if url else ''}{f'({folder}) ' if folder else ''}{state_text}")
