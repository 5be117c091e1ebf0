"""`lakehouse kafka consume`: the records of a topic, with their keys and values as text."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from lakehouse.cli.terminal import show
from lakehouse.cli.terminal.options import AppOption, ConfigOption, JsonOption, LakeOption, settings_of
from lakehouse.cli.terminal.repeating import until_ctrl_c
from lakehouse.errors import ConfigError, LakehouseError, RegistryUnavailable
from lakehouse.markup.plain import plain_text
from lakehouse.run.schemas.part_text import BYTES, LookUp, PartText, part_text
from lakehouse.semantics.epoch_time import to_datetime
from lakehouse.semantics.time.window import Span
from lakehouse.semantics.time.windowed_key import split_windowed_key
from lakehouse.semantics.time.years import is_possible_time

if TYPE_CHECKING:
    from confluent_kafka import Message

    from lakehouse.plan.registered.writer_schema import WriterSchema
    from lakehouse.run.schemas.topic_formats import TopicFormats
    from lakehouse.settings.config import Settings

LONGEST_TEXT = 2000
_BREAKS = re.compile(r"[\n\r\t]")


class TextFormat(StrEnum):
    """The format in which a key or a value is read."""

    json = "json"
    json_sr = "json_sr"
    avro = "avro"
    protobuf = "protobuf"
    string = "string"
    int = "int"
    bigint = "bigint"
    double = "double"
    bytes = "bytes"


_BY_DEFAULT = "by default as the application declares it, else what the bytes suggest"


def consume(
    topic: Annotated[str, typer.Argument(help="The topic.")],
    begin: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="beginning|end|OFFSET|TIME",
            help="Where to begin in each partition; -5 is the last five offsets, a TIME the first record since then.",
        ),
    ] = "beginning",
    until: Annotated[
        str | None,
        typer.Option(
            "--until",
            metavar="end|OFFSET|TIME",
            help="Before which record to end in each partition; the present end if left out.",
        ),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what comes, until Ctrl-C or --limit.")
    ] = False,
    limit: Annotated[int | None, typer.Option("--limit", min=1, metavar="N", help="End after N records.")] = None,
    partition: Annotated[int | None, typer.Option("--partition", min=0, help="Only this partition.")] = None,
    format: Annotated[
        TextFormat | None, typer.Option(help=f"The values' format; {_BY_DEFAULT}.", show_default=False)
    ] = None,
    key_format: Annotated[
        TextFormat | None, typer.Option("--key-format", help="The keys' format, as --format.", show_default=False)
    ] = None,
    uncommitted: Annotated[
        bool, typer.Option("--uncommitted", help="Also records of transactions that are open, or were given up.")
    ] = False,
    app: AppOption = None,
    config: ConfigOption = None,
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the records of a topic: where each stands, its time, its key and its value.

    Nothing is changed: no consumer group is left behind. Records of one partition come in their order. Bytes that have
    no text in the format are shown escaped, with the reason. Those in Avro are read by their writers' schemas, which
    the registry has.

    Example: lakehouse kafka consume orders --from -5
    """
    from lakehouse.kafka.consume import consume as read_records
    from lakehouse.kafka.consume import parse_bound
    from lakehouse.kafka.topics import Cluster
    from lakehouse.plan.expression.schema import check_topic
    from lakehouse.run.start.kafka import open_kafka

    check_topic(topic)
    begin_bound = parse_bound(begin, "--from")
    goes_on = follow or begin_bound.kind == "end"
    if goes_on and until is not None:
        raise ConfigError("--follow and --from end go on, and --until ends; expected one of them.")
    end_bound = None if goes_on else parse_bound(until or "end", "--until")
    settings = settings_of(config, lake)
    formats = _chosen_formats(settings, topic, app, key_format, format)
    look_up = _RememberingLookUp(settings)
    options = settings.kafka.options
    with open_kafka(settings) as servers, until_ctrl_c():
        messages = read_records(
            Cluster(servers, options), options, topic, begin_bound, end_bound,
            partition=partition, committed=not uncommitted,
        )  # fmt: skip
        record_count = _show_records(islice(messages, limit), formats, look_up, as_json=as_json)
        if not as_json and not record_count:
            show.say(f"Topic {topic} has no such record.", stderr=True)


def _chosen_formats(
    settings: Settings, topic: str, app: str | None, key_format: TextFormat | None, format: TextFormat | None
) -> TopicFormats:
    """Return the formats that the options name; without options, those that the application declares, if there is one.

    If an application can't be loaded, a line says so, and the topics can be shown all the same. An application that
    this command line names must load.
    """
    from lakehouse.run.schemas.topic_formats import TopicFormats, topic_formats
    from lakehouse.run.start.application import load_app

    declared = TopicFormats()
    app_name = app or settings.lake.app
    if app_name is not None and (format is None or key_format is None):
        try:
            declared = topic_formats(load_app(app_name), topic)
        except LakehouseError as error:
            if app is not None:
                raise
            show.say(f"The formats are guessed, because the application can't be loaded: {error}", stderr=True)
    if key_format is not None:
        declared = replace(declared, key=str(key_format), window=None)
    return replace(declared, value=str(format)) if format is not None else declared


class _RememberingLookUp:
    """Looks schemas up in the registry: it is asked once for an id, and while it is away once for all."""

    def __init__(self, settings: Settings) -> None:
        from lakehouse.run.start.registry import SchemaLookUp

        self._look_up: LookUp = SchemaLookUp(settings)
        self._schemas: dict[int, WriterSchema | None] = {}
        self._failure: LakehouseError | None = None

    def __call__(self, id: int) -> WriterSchema | None:
        """Return the schema with an id; None if there is none. Raises RegistryUnavailable, also for a refused login."""
        if id not in self._schemas and self._failure is None:
            try:
                self._schemas[id] = self._look_up(id)
            except (RegistryUnavailable, ConfigError) as error:
                self._failure = error
        if id in self._schemas:
            return self._schemas[id]
        raise RegistryUnavailable(str(self._failure))


def _show_records(messages: Iterable[Message], formats: TopicFormats, look_up: LookUp, *, as_json: bool) -> int:
    """Show records as they come; return how many there were."""
    record_count = 0
    for message in messages:
        record_count += 1
        parts = _shown_parts(message, formats, look_up)
        if as_json:
            show.print_json_text(_record_json(message, parts))
        else:
            show.say(_record_line(message, parts))
    return record_count


@dataclass(frozen=True, slots=True)
class _ShownPart:
    """A key or a value: its bytes, and their text; None for a null. window: that a key names."""

    data: bytes | None
    text: PartText | None
    window: Span | None = None


def _shown_parts(message: Message, formats: TopicFormats, look_up: LookUp) -> tuple[_ShownPart, _ShownPart]:
    key, value, window = message.key(), message.value(), None
    if key is not None and formats.window is not None and (split_key := split_windowed_key(key, formats.window)):
        key, window = split_key
    return (
        _ShownPart(key, None if key is None else part_text(formats.key, key, look_up), window),
        _ShownPart(value, None if value is None else part_text(formats.value, value, look_up)),
    )


def _record_line(message: Message, parts: tuple[_ShownPart, _ShownPart]) -> str:
    """Return a record as a line for people: orders/0/12  2026-01-31 12:00:00.000Z  key  value  (2 headers)."""
    time = _record_time(message)
    words = [
        f"{message.topic()}/{message.partition()}/{message.offset()}",
        show.moment(time, "milliseconds") if isinstance(time, datetime) else show.number(time),
        *map(_part_line, parts),
    ]
    if header_count := len(_message_headers(message)):
        words.append(f"({header_count} header{'s' * (header_count > 1)})")
    return "  ".join(words)


def _part_line(part: _ShownPart) -> str:
    """Return a part's text in one line: a value may have line breaks, and must not look like another record."""
    if part.text is None:
        return "null"
    text = _BREAKS.sub(lambda match: repr(match[0])[1:-1], part.text.text)
    if len(text) > LONGEST_TEXT:
        text = f"{text[:LONGEST_TEXT]}... ({len(part.data or b''):,} bytes; all of them with --json)"
    if part.window is not None:
        text += f"@{part.window.start}/{part.window.end}"  # as ksqlDB shows it
    return f"{text} ({part.text.reason})" if part.text.reason else text


def _record_json(message: Message, parts: tuple[_ShownPart, _ShownPart]) -> str:
    """Return a record as a JSON text in one line.

    A key or a value in JSON stands there as it is, so that no number loses digits; bytes without a text stand in base64
    under a name of their own, such as value_base64.
    """
    facts: dict[str, Any] = {"topic": message.topic(), "partition": message.partition(), "offset": message.offset()}
    time = _record_time(message)
    facts["timestamp"] = plain_text(time) if isinstance(time, datetime) else time
    members = {name: json.dumps(value) for name, value in facts.items()}
    for name, part in zip(("key", "value"), parts, strict=True):
        members |= _part_members(name, part)
    members["headers"] = json.dumps(
        [{"name": name} | _bytes_member("value", data) for name, data in _message_headers(message)], ensure_ascii=False
    )
    return f"{{{', '.join(f'{json.dumps(name)}: {text}' for name, text in members.items())}}}"


def _part_members(name: str, part: _ShownPart) -> dict[str, str]:
    """Return the members of a key or a value, as JSON texts by their names."""
    if part.text is None or part.data is None:
        return {name: "null"}
    if part.text.is_json:
        members = {name: part.text.text}
    elif part.text.format == BYTES:
        members = {f"{name}_base64": json.dumps(base64.b64encode(part.data).decode())}
    else:
        members = {name: json.dumps(part.text.text, ensure_ascii=False)}
    if part.text.reason:
        members[f"{name}_reason"] = json.dumps(part.text.reason, ensure_ascii=False)
    if part.window is not None:
        members[f"{name}_window"] = json.dumps({"start": part.window.start, "end": part.window.end})
    return members


def _message_headers(message: Message) -> list[tuple[str, bytes | str | None]]:
    return [(name, data) for name, data in cast(Any, message.headers()) or ()]


def _bytes_member(name: str, data: bytes | str | None) -> dict[str, str | None]:
    if not isinstance(data, bytes):
        return {name: data}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode()}


def _record_time(message: Message) -> datetime | int | None:
    """Return a record's timestamp; its number if it is outside of the calendar, and None if the record has none."""
    kind, milliseconds = message.timestamp()
    if kind == 0:  # Kafka's TIMESTAMP_NOT_AVAILABLE
        return None
    return to_datetime(milliseconds) if is_possible_time(milliseconds) else milliseconds
