"""`lakehouse status`: the broker and the lake at a glance."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from lakehouse.cli.terminal import show
from lakehouse.cli.terminal.options import ConfigOption, JsonOption, LakeOption, lake_of


def status(
    skew: Annotated[
        bool, typer.Option("--skew", help="Also read how records spread over partitions, and the heaviest keys.")
    ] = False,
    config: ConfigOption = None,
    lake: LakeOption = None,
    json: JsonOption = False,
) -> None:
    """Show the broker, and the lake: processes, topics, tables, lag, late records, failures, quarantines and gaps.

    A table whose stream time is ahead of the clock is named: see docs/windows.md.

    So are fields that a topic's newest records have and its stream does not declare.

    Lag is how many records Kafka has that bronze does not; behind is how many ticks of bronze a table lacks; late is
    how many records came too late for it; null keys is how many had no key, so that it left them out.
    A process keeps bronze, tables, topics and functions while it runs. On S3 one that is silent may have ended.

    Example: lakehouse status
    """
    from lakehouse.cli.start import facts
    from lakehouse.lake.layout import Layout

    settings = lake_of(config, lake)
    lake_facts = facts.lake_facts(settings)
    if skew:
        from lakehouse.cli.start.skew import topic_skews

        lake_facts["skew"] = topic_skews(Layout(settings.lake.path))
    if json:
        show.print_json(lake_facts)
        return
    _print_facts(lake_facts)


def _print_facts(lake_facts: dict[str, Any]) -> None:
    from lakehouse.lake.clocks_ahead import ClockAhead
    from lakehouse.lake.null_keys import null_keys_sentence

    show.say(_describe_kafka(lake_facts["kafka"]))
    tick_text = f"bronze is at tick {lake_facts['tick']:,}" if lake_facts["tick"] else "no tick yet"
    show.say(f"Lake   {lake_facts['lake']}: {tick_text}")
    for title, columns, rows in _tables_of(lake_facts):
        if rows:
            show.print_table(title, columns, rows)
    for table in lake_facts["ahead"]:
        show.say(str(ClockAhead(**table)))
    if lake_facts.get("skew"):
        _show_skew(lake_facts["skew"])
    for entry in lake_facts["tables"]:
        if sentence := null_keys_sentence(entry["name"], entry["rows"], entry["null_keys"]):
            show.say(sentence)
    late_count = sum(entry["late"] for entry in lake_facts["tables"])
    show.say(
        f"Quarantined records: {sum(lake_facts['quarantined'].values()):,}, "
        f"{sum(lake_facts['quarantined_open'].values()):,} of them open. Late records: {late_count:,}. "
        f"Gaps written down: {lake_facts['gaps']:,}."
    )


def _tables_of(lake_facts: dict[str, Any]) -> list[tuple[str, tuple[str, ...], list[tuple[Any, ...]]]]:
    """Return the tables that are printed if they have rows: title, names of the columns, rows."""
    topics, tables, open_counts = lake_facts["topics"], lake_facts["tables"], lake_facts["quarantined_open"]
    return [
        (
            "Processes",
            ("process", "keeps"),
            [(entry["process"], ", ".join(entry["keeps"])) for entry in lake_facts["processes"]],
        ),
        (
            "Topics",
            ("topic", "partitions", "rows", "lag", "last commit"),
            [
                (
                    entry["name"], entry["partitions"], entry["rows"], _format_lag(entry),
                    show.moment(entry["last_commit_ms"]),
                )
                for entry in topics
            ],
        ),
        (
            "Tables",
            ("table", "rows", "version", "tick", "behind", "late", "null keys", "last commit"),
            [
                (
                    entry["name"], entry["rows"], entry["version"], entry["tick"], _format_behind(entry), entry["late"],
                    entry["null_keys"], show.moment(entry["last_commit_ms"]),
                )
                for entry in tables
            ],
        ),
        (
            "Functions that failed",
            ("table", "function", "records", "the first", "its error"),
            [(entry["name"], *function.values()) for entry in tables for function in entry["failed"]],
        ),
        (
            "Expectations that warn",
            ("table", "expectation", "records", "the first", "its reason"),
            [(entry["name"], *unmet.values()) for entry in tables for unmet in entry["unmet"]],
        ),
        (
            "Quarantined",
            ("stream", "records", "open"),
            [(name, count, open_counts[name]) for name, count in lake_facts["quarantined"].items() if count],
        ),
        (
            "Expectations that refuse",
            ("stream", "expectation", "records", "open"),
            [tuple(entry.values()) for entry in lake_facts["refused"]],
        ),
        (
            "Fields that are not declared",
            ("stream", "field", "newest records"),
            [
                (entry["stream"], entry["field"], f"{entry['records']:,} of {entry['of_records']:,}")
                for entry in lake_facts["undeclared"]
            ],
        ),
    ]  # fmt: skip


def _show_skew(topics: list[dict[str, Any]]) -> None:
    partition_rows = [
        (topic_skew["name"], _format_partition(topic_skew, partition), partition["records"], _format_share(partition))
        for topic_skew in topics
        for partition in topic_skew["partitions"]
    ]
    show.print_table("Partitions", ("topic", "partition", "records", "share"), partition_rows)
    key_rows = [
        (topic_skew["name"], _format_key(key["key"]), key["records"], _format_share(key))
        for topic_skew in topics
        for key in topic_skew["keys"]
    ]
    show.print_table("Heaviest keys", ("topic", "key", "records", "share"), key_rows)
    for topic_facts in topics:
        looked_at = topic_facts["looked_at"]
        ticks = f"ticks {looked_at['first_tick']:,} to {looked_at['last_tick']:,}"
        show.say(f"Keys of {topic_facts['name']}: counted over its last {looked_at['records']:,} records, {ticks}.")


def _format_partition(topic: dict[str, Any], partition: dict[str, Any]) -> str:
    is_present = partition["topic_id"] == topic["partitions"][-1]["topic_id"]
    return str(partition["partition"]) if is_present else f"{partition['partition']}, before it was recreated"


def _format_key(key: bytes | None) -> str:
    key_text = "null" if key is None else show.cell(key)
    return key_text if key is None or key_text.isprintable() else f"0x{key.hex()}"


def _format_share(spread_part: dict[str, Any]) -> str:
    return f"{spread_part['share']:.1%}"


def _format_behind(table: dict[str, Any]) -> Any:
    if not table["behind"] or not table["behind_records"]:
        return table["behind"]
    return f"{table['behind']:,} ({table['behind_records']:,} records, {table['behind_seconds']:,.0f} s)"


def _format_lag(topic: dict[str, Any]) -> Any:
    return "topic was recreated" if topic["made_anew"] else topic["lag"]


def _describe_kafka(kafka_facts: dict[str, Any]) -> str:
    if kafka_facts["running"] is False and not kafka_facts.get("error"):
        return "Kafka  embedded, not running; `lakehouse kafka up` starts it"
    kafka_kind = "embedded" if kafka_facts["embedded"] else "configured"
    state_text = {True: "answers", None: "not asked", False: kafka_facts.get("error", "does not answer")}[
        kafka_facts["running"]
    ]
    return f"Kafka  {kafka_kind}, {kafka_facts['bootstrap_servers']}: {state_text}"
