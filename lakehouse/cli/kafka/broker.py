"""`lakehouse kafka up` and `lakehouse kafka down`: the embedded broker."""

from __future__ import annotations

from lakehouse.cli.terminal import show
from lakehouse.cli.terminal.options import ConfigOption, JsonOption, LakeOption, settings_of
from lakehouse.kafka.broker import Broker, find
from lakehouse.settings.config import Settings


def up(config: ConfigOption = None, lake: LakeOption = None, json: JsonOption = False) -> None:
    """Start the embedded Kafka and leave it running.

    Does nothing when it is already running, or when the settings name a Kafka.

    Example: lakehouse kafka up
    """
    settings = settings_of(config, lake)
    if not settings.kafka.embedded:
        _say(settings, json, settings.kafka.bootstrap_servers, False, "is configured; there is nothing to start.")
    elif (running := find(settings.kafka.folder)) is not None:
        _say(settings, json, running.bootstrap_servers, False, f"is already running, as process {running.pid}.")
    else:
        broker = Broker(settings.kafka.folder, settings.kafka.port)
        broker.start(detach=True)
        _say(settings, json, broker.bootstrap_servers, True, "was started. `lakehouse kafka down` stops it.")


def down(config: ConfigOption = None, lake: LakeOption = None, json: JsonOption = False) -> None:
    """Stop the embedded Kafka. Its records stay.

    Example: lakehouse kafka down
    """
    settings = settings_of(config, lake)
    running = find(settings.kafka.folder) if settings.kafka.embedded else None
    if running is not None:
        running.stop()
        _say(settings, json, running.bootstrap_servers, True, "was stopped. Its records stay.")
    elif settings.kafka.embedded:
        _say(settings, json, None, False, "does not run; there is nothing to stop.")
    else:
        _say(settings, json, settings.kafka.bootstrap_servers, False, "is configured, not embedded; it is left alone.")


def _say(settings: Settings, json: bool, servers: str | None, changed: bool, text: str) -> None:
    folder = str(settings.kafka.folder) if settings.kafka.embedded else None
    if json:
        show.as_json({"bootstrap_servers": servers, "folder": folder, "changed": changed})
    else:
        show.say(f"Kafka {f'at {servers} ' if servers else ''}{f'({folder}) ' if folder else ''}{text}")
