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
    """Show the broker, and the lake: topics, tables, lag, late records, functions that failed, quarantines and gaps.

    A table whose stream time is ahead of the clock is named: see docs/windows.md.

    Lag is how many records Kafka has that bronze does not; behind is how many ticks of bronze a table lacks; late is
    how many records came too late for it; null keys is how many had no key, so that it left them out.

    Example: lakehouse status
    """
    from lakehouse.cli.start import facts
    from lakehouse.lake.ahead import Ahead
    from lakehouse.lake.layout import Layout
    from lakehouse.lake.null_keys import sentence

    settings = lake_of(config, lake)
    found = facts.lake(settings)
    if skew:
        from lakehouse.cli.start.skew import topics

        found["skew"] = topics(Layout(settings.lake.path))
    if json:
        show.as_json(found)
        return
    show.say(_kafka(found["kafka"]))
    tick = f"bronze is at tick {found['tick']:,}" if found["tick"] else "no tick yet"
    show.say(f"Lake   {found['lake']}: {tick}")
    if found["topics"]:
        rows = [
            (t["name"], t["partitions"], t["rows"], _lag(t), show.moment(t["last_commit_ms"])) for t in found["topics"]
        ]
        show.table("Topics", ("topic", "partitions", "rows", "lag", "last commit"), rows)
    if found["tables"]:
        columns = ("table", "rows", "version", "tick", "behind", "late", "null keys", "last commit")
        counts = ("name", "rows", "version", "tick", "behind", "late", "null_keys")
        values = [(*(t[name] for name in counts), show.moment(t["last_commit_ms"])) for t in found["tables"]]
        show.table("Tables", columns, values)
    if failed := [(t["name"], *function.values()) for t in found["tables"] for function in t["failed"]]:
        show.table("Functions that failed", ("table", "function", "records", "the first", "its error"), failed)
    if bad := {name: count for name, count in found["quarantined"].items() if count}:
        still = found["quarantined_open"]
        show.table("Quarantined", ("stream", "records", "open"), [(name, n, still[name]) for name, n in bad.items()])
    for table in found["ahead"]:
        show.say(str(Ahead(**table)))
    if found.get("skew"):
        _skew(found["skew"])
    for text in filter(None, (sentence(t["name"], t["rows"], t["null_keys"]) for t in found["tables"])):
        show.say(text)
    late = sum(t["late"] for t in found["tables"])
    show.say(
        f"Quarantined records: {sum(bad.values()):,}, {sum(found['quarantined_open'].values()):,} of them open. "
        f"Late records: {late:,}. Gaps written down: {found['gaps']:,}."
    )


def _skew(topics: list[dict[str, Any]]) -> None:
    parts = [(t["name"], _partition(t, p), p["records"], _percent(p)) for t in topics for p in t["partitions"]]
    show.table("Partitions", ("topic", "partition", "records", "share"), parts)
    keys = [(t["name"], _key(key["key"]), key["records"], _percent(key)) for t in topics for key in t["keys"]]
    show.table("Heaviest keys", ("topic", "key", "records", "share"), keys)
    for topic in topics:
        seen = topic["looked_at"]
        ticks = f"ticks {seen['first_tick']:,} to {seen['last_tick']:,}"
        show.say(f"Keys of {topic['name']}: counted over its last {seen['records']:,} records, {ticks}.")


def _partition(topic: dict[str, Any], part: dict[str, Any]) -> str:
    is_present = part["topic_id"] == topic["partitions"][-1]["topic_id"]
    return str(part["partition"]) if is_present else f"{part['partition']}, before it was recreated"


def _key(key: bytes | None) -> str:
    text = "null" if key is None else show.cell(key)
    return text if key is None or text.isprintable() else f"0x{key.hex()}"


def _percent(part: dict[str, Any]) -> str:
    return f"{part['share']:.1%}"


def _lag(topic: dict[str, Any]) -> Any:
    return "topic was recreated" if topic["made_anew"] else topic["lag"]


def _kafka(kafka: dict[str, Any]) -> str:
    if kafka["running"] is False and not kafka.get("error"):
        return "Kafka  embedded, not running; `lakehouse kafka up` starts it"
    kind = "embedded" if kafka["embedded"] else "configured"
    state = {True: "answers", None: "not asked", False: kafka.get("error", "does not answer")}[kafka["running"]]
    return f"Kafka  {kind}, {kafka['bootstrap_servers']}: {state}"
