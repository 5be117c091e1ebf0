"""The records that an erasure is about: with a key of a stream, with a column that holds such a key, or single ones."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.errors import ConfigError, PlanError
from lakehouse.formats.key_text import parse_key
from lakehouse.formats.values.unfit import Unfit
from lakehouse.formats.written_form import encode_written_key
from lakehouse.lake.erasure.subject import ErasureSubject, split_path, types_of_subject
from lakehouse.plan.app import App
from lakehouse.plan.origin import Source
from lakehouse.semantics.commit_number import EVER, NO_TICK
from lakehouse.spark.bronze import bronze, interventions
from lakehouse.spark.bronze.erased import PLACE
from lakehouse.spark.key_column import is_key
from lakehouse.spark.open_lake import OpenLake
from lakehouse.spark.stream.decoded import decode_records

NAMED = "_named"


def check_subject(app: App, subject: ErasureSubject) -> None:
    """Raise PlanError, or ConfigError, for a subject that the application's streams can't have."""
    if not subject.texts and not subject.places:
        raise ConfigError("erase: found no key; expected --key STREAM=KEY, such as --key customers=4711.")
    if "" in subject.texts:
        raise ConfigError("erase: found an empty key; expected a text.")
    for stream_name, text in subject.keys.items():
        source = app.source(stream_name)
        if not source.key:
            raise PlanError(f"stream {stream_name!r} has no key; expected one whose records have a key.")
        parse_key(text, source.key)
    for path in subject.named_by:
        if len(set(subject.keys.values())) > 1 and "=" not in path:
            raise ConfigError(
                f"erase: found {path!r:.200} beside {len(subject.keys)} keys; expected the text that the column has, "
                f"such as {path:.200}=TEXT: without it, records that name another person's key would be erased, too."
            )
        source, column_path = split_path(app, path)
        root_name = column_path.split(".")[0]
        columns = {column.name: column for column in (*source.key, *source.value)}
        if root_name not in columns:
            raise PlanError(
                f"erase: stream {source.name!r} has no column {root_name!r}; expected one of {', '.join(columns)}."
            )
    for topic, _ in map(split_topic, subject.places):
        if topic not in app.topics:
            raise PlanError(f"erase: the application reads no topic {topic!r}; expected {', '.join(app.topics)}.")


def erasable_records(lake: OpenLake, app: App, subject: ErasureSubject) -> DataFrame:
    """Return the rows of bronze that are a subject's, each once.

    A record that does not fit its schema is found by the bytes of its key, as declared, as text or as JSON; one that
    was fixed, also by its new bytes.
    """
    tick, conditions = lake.progress(lake.bronze).tick, dict[Source, list[tuple[str | None, str]]]()
    for stream_name, text in subject.keys.items():
        conditions.setdefault(app.source(stream_name), []).append((None, text))
    for path, text in subject.named_values(types_of_subject(app, subject)):
        source, column_path = split_path(app, path)
        conditions.setdefault(source, []).append((column_path, text))
    places = [
        place_rows
        for source, wanted_keys in conditions.items()
        for place_rows in _places_in_source(lake, app, source, wanted_keys, tick)
    ]
    topics = {*(source.topic for source in conditions), *(topic for topic, _ in map(split_topic, subject.places))}
    bronze_rows = bronze.read_ticks(lake, sorted(topics), NO_TICK, tick, app.own_topics)
    if subject.places:
        place_rows = bronze_rows.where(_is_in(subject.places))
        _refuse_ambiguous(place_rows)
        places.append(place_rows.select(*PLACE))
    chosen_places = reduce(DataFrame.unionByName, places).distinct()
    return bronze_rows.join(chosen_places, list(PLACE), "left_semi").dropDuplicates(list(PLACE))


def records_with_own_key(lake: OpenLake, app: App, source: Source, text: str) -> DataFrame:
    """Return the rows of bronze whose own bytes are a key of a source, each once.

    A record that a fix gave the key has the bytes of another key, or none, in its topic: it is left out.
    """
    rows = bronze.read_ticks(lake, [source.topic], NO_TICK, lake.progress(lake.bronze).tick, app.own_topics)
    key_places = reduce(DataFrame.unionByName, _own_places(lake, source, rows, [(None, text)])).distinct()
    own_rows = rows.where(F.col("key").isNotNull()).join(key_places, list(PLACE), "left_semi")
    return own_rows.dropDuplicates(list(PLACE))


def _places_in_source(
    lake: OpenLake, app: App, source: Source, wanted_keys: list[tuple[str | None, str]], tick: int
) -> Iterator[DataFrame]:
    """Yield the places of a source's records that have one of the wanted keys, in a column or as their own key."""
    topic_rows = bronze.read_ticks(lake, [source.topic], NO_TICK, tick, app.own_topics)
    yield from _own_places(lake, source, topic_rows, wanted_keys)
    fixed_rows = interventions.read_fixed_in_stream(lake, [source.name], NO_TICK, EVER)
    if fixed_rows is not None:
        yield _decoded_places(source, decode_records(source, fixed_rows, lake.schemas.find), wanted_keys)


def _own_places(
    lake: OpenLake, source: Source, topic_rows: DataFrame, wanted_keys: list[tuple[str | None, str]]
) -> Iterator[DataFrame]:
    """Yield the places of rows of bronze that have one of the wanted keys in their own bytes."""
    yield _decoded_places(source, decode_records(source, topic_rows, lake.schemas.find), wanted_keys)
    spellings = {item for column_path, text in wanted_keys if column_path is None for item in _spellings(source, text)}
    if spellings:
        is_same = reduce(Column.__or__, [F.col("key") == F.lit(bytearray(item)) for item in sorted(spellings)])
        yield topic_rows.where(is_same).select(*PLACE)


def _decoded_places(source: Source, records: DataFrame, wanted_keys: list[tuple[str | None, str]]) -> DataFrame:
    """Return the places of decoded records that have one of the wanted keys."""
    matches = []
    for number, (column_path, text) in enumerate(wanted_keys):
        names = [column.name for column in source.key]
        if column_path is not None:
            names = [f"{NAMED}_{number}"]
            records = records.withColumn(names[0], F.col(".".join(f"`{name}`" for name in column_path.split("."))))
        matches.append(is_key(records.schema, names, text))
    place = F.col("_position")
    return records.where(reduce(Column.__or__, matches)).select(*[place[name].alias(name) for name in PLACE])


def _is_in(places: Mapping[str, Mapping[int, tuple[int, int]]]) -> Column:
    conditions = []
    for name, partitions in places.items():
        topic, topic_id = split_topic(name)
        is_of_topic = F.col("topic") == topic
        if topic_id is not None:
            is_of_topic &= F.col("topic_id") == topic_id
        conditions += [
            is_of_topic & (F.col("partition") == partition) & F.col("offset").between(first, last)
            for partition, (first, last) in partitions.items()
        ]
    return reduce(Column.__or__, conditions)


def split_topic(name: str) -> tuple[str, str | None]:
    """Return the topic of "topic" or "topic@id", and the id."""
    topic, at_sign, topic_id = name.partition("@")
    return topic, topic_id if at_sign else None


def _refuse_ambiguous(place_rows: DataFrame) -> None:
    """Raise PlanError if one offset stands for records of several topics of one name, of which all but one are gone."""
    ids = F.collect_set("topic_id")
    row = place_rows.groupBy("topic", "partition", "offset").agg(ids.alias("ids")).where(F.size("ids") > 1).first()
    if row is not None:
        choices = " or ".join(f"{row['topic']}@{topic_id}/{row['partition']}=..." for topic_id in sorted(row["ids"]))
        raise PlanError(
            f"erase: offset {row['offset']} of {row['topic']}/{row['partition']} stands for {len(row['ids'])} records: "
            f"the topic was deleted and recreated. Expected the topic's id, too: {choices}."
        )


def _spellings(source: Source, text: str) -> Iterator[bytes]:
    """Yield the bytes that a key may have in a record that does not fit: as declared, as plain text, and as JSON."""
    yield text.encode()
    yield json.dumps(text, ensure_ascii=False).encode()
    values = parse_key(text, source.key)
    with suppress(Unfit, ValueError, TypeError):  # its bytes depend on more than the key
        data = encode_written_key(source, values[0] if len(values) == 1 else list(values))
        if data is not None:
            yield data
