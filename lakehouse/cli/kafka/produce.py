"""`lakehouse kafka produce`: records from a file or from stdin to a topic."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from lakehouse.cli.terminal import show
from lakehouse.cli.terminal.options import ConfigOption, JsonOption, LakeOption, settings_of
from lakehouse.errors import ConfigError

STDIN = Path("-")
# The topics of a lake are its truth: Kafka keeps their records until somebody changes that.
TOPIC_CONFIG = {"retention.ms": "-1"}


class Format(StrEnum):
    """The form of a line that describes a record."""

    json = "json"
    tsv = "tsv"


def produce(
    topic: Annotated[str, typer.Argument(help="The topic.")],
    file: Annotated[Path, typer.Argument(help="Lines of text; - is stdin.")] = STDIN,
    format: Annotated[
        Format | None,
        typer.Option(
            help="json: {key, value, timestamp, headers}; tsv: key, value, timestamp. By default tsv for a file "
            "named .tsv, else json.",
            show_default=False,
        ),
    ] = None,
    partitions: Annotated[
        int | None,
        typer.Option(min=1, max=10_000, metavar="N", help="Create the topic with N partitions if it does not exist."),
    ] = None,
    config: ConfigOption = None,
    lake: LakeOption = None,
    json: JsonOption = False,
) -> None:
    """Write records to a topic, one for each line.

    JSON: {"key": "alice", "value": {"city": "Rome"}, "timestamp": "2026-01-31T12:00:00Z"}; only value is
    there, null deletes. TSV: key, value and timestamp with tabs between.

    Example: lakehouse kafka produce orders orders.jsonl --partitions 4
    """
    from lakehouse.kafka.produce import parse_lines
    from lakehouse.kafka.produce import produce as send
    from lakehouse.kafka.topics import Cluster
    from lakehouse.plan.schema import check_topic
    from lakehouse.run.start.kafka import open_kafka

    check_topic(topic)
    if file != STDIN and not file.is_file():
        raise ConfigError(f"{file}: no such file; expected lines of text, or - for stdin.")
    settings = settings_of(config, lake)
    line_format = format or (Format.tsv if file.suffix == ".tsv" else Format.json)
    with open_kafka(settings) as servers, sys.stdin if file == STDIN else file.open(encoding="utf-8") as lines:
        if partitions is not None:
            cluster = Cluster(servers, settings.kafka.options)
            if topic not in cluster.names():
                cluster.create(topic, partitions, TOPIC_CONFIG)
        try:
            record_count = send(servers, settings.kafka.options, topic, parse_lines(lines, line_format.value))
        except UnicodeDecodeError as error:
            raise ConfigError(f"{file}: is not UTF-8 text: {error.reason} at byte {error.start}.") from None
    if json:
        show.as_json({"topic": topic, "records": record_count})
    else:
        show.say(f"{record_count:,} records were written to topic {topic}.")
