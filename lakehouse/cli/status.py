"""`lakehouse status`: the broker and the lake at a glance."""

from __future__ import annotations

from typing import Any

import typer

from lakehouse.cli import show
from lakehouse.cli.options import ConfigOption, JsonOption, LakeOption, settings_of


def status(config: ConfigOption = None, lake: LakeOption = None, json: JsonOption = False) -> None:
    """Show the broker, and the lake: topics, tables, lag, quarantines and gaps.

    Lag is how many records Kafka has that bronze does not; behind is how many ticks of bronze a table lacks.

    Example: lakehouse status
    """
    from lakehouse.cli import facts

    found = facts.lake(settings_of(config, lake))
    if json:
        show.as_json(found)
        return
    typer.echo(_kafka(found["kafka"]))
    tick = f"bronze is at tick {found['tick']:,}" if found["tick"] else "no tick yet"
    typer.echo(f"Lake   {found['lake']}: {tick}")
    if found["topics"]:
        rows = [
            (t["name"], t["partitions"], t["rows"], _lag(t), show.moment(t["last_commit_ms"])) for t in found["topics"]
        ]
        show.table("Topics", ("topic", "partitions", "rows", "lag", "last commit"), rows)
    if found["tables"]:
        columns = ("table", "rows", "version", "tick", "behind", "last commit")
        values = [
            (t["name"], t["rows"], t["version"], t["tick"], t["behind"], show.moment(t["last_commit_ms"]))
            for t in found["tables"]
        ]
        show.table("Tables", columns, values)
    if bad := {name: count for name, count in found["quarantined"].items() if count}:
        show.table("Quarantined", ("stream", "records"), list(bad.items()))
    typer.echo(f"Quarantined records: {sum(bad.values()):,}. Gaps written down: {found['gaps']:,}.")


def _lag(topic: dict[str, Any]) -> Any:
    return "topic was made anew" if topic["made_anew"] else topic["lag"]


def _kafka(kafka: dict[str, Any]) -> str:
    if kafka["running"] is False and not kafka.get("error"):
        return "Kafka  embedded, not running; `lakehouse up` starts it"
    kind = "embedded" if kafka["embedded"] else "configured"
    state = {True: "answers", None: "not asked", False: kafka.get("error", "does not answer")}[kafka["running"]]
    return f"Kafka  {kind}, {kafka['bootstrap_servers']}: {state}"
