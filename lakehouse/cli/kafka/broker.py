"""`lakehouse kafka up` and `lakehouse kafka down`: the embedded broker."""

from __future__ import annotations

from lakehouse.cli.terminal import show
from lakehouse.cli.terminal.options import ConfigOption, JsonOption, LakeOption, settings_of
from lakehouse.kafka.embedded.broker import Broker, find_broker
from lakehouse.settings.config import Settings


def up(config: ConfigOption = None, lake: LakeOption = None, json: JsonOption = False) -> None:
    """Start the embedded Kafka and leave it running.

    Does nothing when it is already running, or when the settings name a Kafka.

    Example: lakehouse kafka up
    """
    settings = settings_of(config, lake)
    if not settings.kafka.embedded:
        _say_broker_state(
            settings, json, settings.kafka.bootstrap_servers, False, "is configured; there is nothing to start."
        )
    elif (running_broker := find_broker(settings.kafka.folder)) is not None:
        _say_broker_state(
            settings,
            json,
            running_broker.bootstrap_servers,
            False,
            f"is already running, as process {running_broker.pid}.",
        )
    else:
        broker = Broker(settings.kafka.folder, settings.kafka.port)
        broker.start(detach=True)
        _say_broker_state(
            settings, json, broker.bootstrap_servers, True, "was started. `lakehouse kafka down` stops it."
        )


def down(config: ConfigOption = None, lake: LakeOption = None, json: JsonOption = False) -> None:
    """Stop the embedded Kafka. Its records stay.

    Example: lakehouse kafka down
    """
    settings = settings_of(config, lake)
    running_broker = find_broker(settings.kafka.folder) if settings.kafka.embedded else None
    if running_broker is not None:
        running_broker.stop()
        _say_broker_state(settings, json, running_broker.bootstrap_servers, True, "was stopped. Its records stay.")
    elif settings.kafka.embedded:
        _say_broker_state(settings, json, None, False, "does not run; there is nothing to stop.")
    else:
        _say_broker_state(
            settings, json, settings.kafka.bootstrap_servers, False, "is configured, not embedded; it is left alone."
        )


def _say_broker_state(settings: Settings, json: bool, servers: str | None, is_changed: bool, state_text: str) -> None:
    kafka_folder = str(settings.kafka.folder) if settings.kafka.embedded else None
    if json:
        show.print_json({"bootstrap_servers": servers, "folder": kafka_folder, "changed": is_changed})
    else:
        show.say(
            f"Kafka {f'at {servers} ' if servers else ''}{f'({kafka_folder}) ' if kafka_folder else ''}{state_text}"
        )
