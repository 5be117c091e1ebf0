"""`lakehouse kafka acls`: the rights that an application needs, as lines of kafka-acls."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from typing import Annotated

import typer

from lakehouse.cli.terminal import show
from lakehouse.cli.terminal.options import AppOption, ConfigOption, JsonOption, app_of, settings_of
from lakehouse.errors import ConfigError

UserOption = Annotated[str | None, typer.Option("--user", help="The user; that of the settings if left out.")]


def acls(app: AppOption = None, user: UserOption = None, config: ConfigOption = None, json: JsonOption = False) -> None:
    """Print the least rights of an application as lines of kafka-acls: to ingest, audit, publish and restore.

    Nothing is asked or changed. Add --command-config with an administrator's properties.

    Example: lakehouse kafka acls --app app.py --user lake
    """
    from lakehouse.kafka.rights import user_of
    from lakehouse.run.start.application import load_app
    from lakehouse.run.start.rights import application_rights

    settings = settings_of(config, None)
    named_user = user or user_of(settings.kafka.options)
    if named_user is None:
        raise ConfigError(
            "the settings have no sasl.username; expected a user. Name one: --user lake, or for the owner "
            "of a certificate --user CN=lake,O=shop."
        )
    rights = application_rights(load_app(app_of(app, settings)), settings.kafka.topics)
    if json:
        show.print_json({"user": named_user, "rights": [asdict(right) for right in rights]})
        return
    servers = shlex.quote(settings.kafka.bootstrap_servers or "SERVERS")
    for right in rights:
        show.say(f"kafka-acls --bootstrap-server {servers} {right.acl_options(named_user)}")
    if settings.kafka.topic_pattern is not None:
        show.say("# and the right to read each topic that kafka.topic_pattern matches")
