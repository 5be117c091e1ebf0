"""`lakehouse kafka produce`: records from a file or from stdin to a topic."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from lakehouse.cli.terminal import show
from lakehouse.cli.terminal.options import ConfigOption, JsonOption, LakeOption, settings_of
from lakehouse.errors import ConfigError, NotFound
from lakehouse.markup.quantity import quantity

if TYPE_CHECKING:
    from lakehouse.run.schemas.produced import ProducedSchema
    from lakehouse.settings.config import Settings

STDIN = Path("-")
# The topics of a lake are its truth: Kafka keeps their records until somebody changes that.
TOPIC_CONFIG = {"retention.ms": "-1"}


class Format(StrEnum):
    """The form of a line that describes a record."""

    json = "json"
    tsv = "tsv"
    avro = "avro"
    json_sr = "json_sr"
    protobuf = "protobuf"
    protobuf_nosr = "protobuf_nosr"


# The kinds of schemas, as registries call them, by the formats that are written by one.
SCHEMA_KINDS = {Format.avro: "AVRO", Format.json_sr: "JSON", Format.protobuf: "PROTOBUF"}


def produce(
    topic: Annotated[str, typer.Argument(help="The topic.")],
    file: Annotated[Path, typer.Argument(help="Lines of text; - is stdin.")] = STDIN,
    format: Annotated[
        Format | None,
        typer.Option(
            help="json: {key, value, timestamp, headers}; tsv: key, value, timestamp; avro, protobuf: as json, with "
            "the value written in that; json_sr: as json, behind the id of its JSON Schema; protobuf_nosr: as "
            "protobuf, without a registry, by --schema. By default tsv for a file named .tsv, else json.",
            show_default=False,
        ),
    ] = None,
    partitions: Annotated[
        int | None,
        typer.Option(min=1, max=10_000, metavar="N", help="Create the topic with N partitions if it does not exist."),
    ] = None,
    schema: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="With --format avro, protobuf or json_sr: the value's schema; the registry's newest if left out. With "
            "protobuf_nosr: its .proto file.",
        ),
    ] = None,
    key_schema: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="With --format avro, protobuf or json_sr: write the key by a schema, too, by this one."
        ),
    ] = None,
    config: ConfigOption = None,
    lake: LakeOption = None,
    json: JsonOption = False,
) -> None:
    """Write records to a topic, one for each line.

    JSON: {"key": "alice", "value": {"city": "Rome"}, "timestamp": "2026-01-31T12:00:00Z"}; only value is
    there, null deletes. TSV: key, value and timestamp with tabs between. Avro, Protobuf: as JSON, each value with the
    type that its schema gives it: a timestamp as ISO text, bytes as base64; in Avro a decimal as a number. json_sr: as
    JSON, each value as it stands, if it fits its schema.

    Example: lakehouse kafka produce orders orders.jsonl --partitions 4
    """
    from lakehouse.kafka.produce import NO_WRITERS, parse_lines
    from lakehouse.kafka.produce import produce as send
    from lakehouse.kafka.topics import Cluster
    from lakehouse.plan.expression.schema import check_topic
    from lakehouse.run.schemas.produced import own_schema_writer
    from lakehouse.run.start.kafka import open_kafka

    check_topic(topic)
    if file != STDIN and not file.is_file():
        raise ConfigError(f"{file}: no such file; expected lines of text, or - for stdin.")
    settings = settings_of(config, lake)
    line_format = format or (Format.tsv if file.suffix == ".tsv" else Format.json)
    has_own_schema = line_format is Format.protobuf_nosr
    if line_format not in SCHEMA_KINDS and not has_own_schema and (schema or key_schema):
        option = "--schema" if schema else "--key-schema"
        raise ConfigError(f"{option} names a schema; expected it with --format avro, protobuf or json_sr.")
    if has_own_schema and schema is None:
        raise ConfigError("--format protobuf_nosr writes by a .proto file, without a registry: --schema FILE.")
    with open_kafka(settings) as servers, sys.stdin if file == STDIN else file.open(encoding="utf-8-sig") as lines:
        cluster = Cluster(servers, settings.kafka.options)
        if partitions is not None and topic not in cluster.names():
            cluster.create(topic, partitions, TOPIC_CONFIG)
        writers, schemas = NO_WRITERS, {}
        if line_format in SCHEMA_KINDS:
            cluster.topics([topic])  # raises NotFound before a schema is registered
            schemas = _find_schemas(settings, topic, {"value": schema, "key": key_schema}, SCHEMA_KINDS[line_format])
            writers = {part_name: produced.writer() for part_name, produced in schemas.items()}
        if has_own_schema:
            files = {"value": schema, "key": key_schema}
            writers = {name: own_schema_writer(path) for name, path in files.items() if path is not None}
        text_format: Literal["json", "tsv"] = "tsv" if line_format is Format.tsv else "json"
        try:
            record_count = send(servers, settings.kafka.options, topic, parse_lines(lines, text_format, writers))
        except UnicodeDecodeError as error:
            raise ConfigError(f"{file}: is not UTF-8 text: {error.reason} at byte {error.start}.") from None
    if json:
        schema_facts = {
            name: {"subject": written_by.subject, "id": written_by.id} for name, written_by in schemas.items()
        }
        show.print_json({"topic": topic, "records": record_count} | ({"schemas": schema_facts} if schemas else {}))
    else:
        by_schemas = ", ".join(f"{written_by.subject} (schema {written_by.id})" for written_by in schemas.values())
        show.say(
            f"{quantity(record_count, 'record')} written to topic {topic}{f', by {by_schemas}' if schemas else ''}."
        )


def _find_schemas(
    settings: Settings, topic: str, files: Mapping[str, Path | None], kind: str
) -> dict[str, ProducedSchema]:
    """Return the schemas of a kind to write by, of the "value", and of the "key" if there is one.

    Raises NotFound if neither a file nor the registry has the value's.
    """
    from lakehouse.registry.opening import open_registry
    from lakehouse.run.schemas.newest_schemas import is_named_by_topic
    from lakehouse.run.schemas.produced import newest_to_write, schema_in_file

    registry, schemas = open_registry(settings.registry), {}
    for part_name, schema_file in files.items():
        if schema_file is not None:
            schemas[part_name] = schema_in_file(registry, settings.registry, topic, part_name, schema_file, kind)
        elif (part_name == "value" or is_named_by_topic(settings.registry)) and (
            newest := newest_to_write(registry, settings.registry, topic, part_name, kind)
        ) is not None:
            schemas[part_name] = newest
    if "value" not in schemas:
        example = {"AVRO": "value.avsc", "PROTOBUF": "value.proto"}.get(kind, "value.json")
        raise NotFound(
            f"The schema registry at {registry.url} has no schema of the values of topic {topic!r}. Give one: --schema "
            f"{example}."
        )
    return schemas
