"""`lakehouse test expect`: what a rule for a topic's records would have refused."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.cli.terminal import show
from lakehouse.cli.terminal.options import AppOption, ConfigOption, JsonOption, LakeOption, app_of, lake_of

if TYPE_CHECKING:
    from lakehouse.spark.audit.tried_rule import DayOfRule

BAR_LENGTH = 20
DAYS_SHOWN = 40


def expect(
    stream: Annotated[str, typer.Argument(metavar="STREAM", help="The stream's name, as the quarantine has it.")],
    rule: Annotated[str, typer.Option("--rule", metavar="SQL", help="The condition, over the topic's columns.")],
    app: AppOption = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help="Only records of this Kafka timestamp or later.")
    ] = None,
    config: ConfigOption = None,
    lake: LakeOption = None,
    json: JsonOption = False,
) -> None:
    """Try a rule on all records of a topic that the lake has: how many it would refuse, by day, with an example.

    Nothing is written. To turn a rule on, declare it: stream(...).expect(NAME, SQL).

    Example: lakehouse test expect orders --rule "amount > 0"
    """
    from lakehouse.run.lake import Lake
    from lakehouse.run.start.application import load_app
    from lakehouse.semantics.time.named_moment import time_ms

    settings = lake_of(config, lake)
    since_ms = None if since is None else time_ms(since, "--since")
    application = load_app(app_of(app, settings))
    tried = Lake(settings=settings).try_rule(application, stream, rule, since_ms=since_ms)
    if json:
        show.print_json(asdict(tried) | {"records": tried.records, "refused": tried.refused})
        return
    share = f" ({tried.refused / tried.records:.2%})" if tried.refused else ""
    show.say(
        f"Of {tried.records:,} records of {stream} up to tick {tried.tick:,}, {tried.refused:,}{share} do not meet "
        f"{rule}."
    )
    days = [day for day in tried.days if day.refused] if len(tried.days) > DAYS_SHOWN else list(tried.days)
    if days and tried.refused:
        largest = max(day.refused for day in days)
        rows = [
            (day.day, day.records, day.refused, _bar_text(day.refused, largest), *_example_of_day(day)) for day in days
        ]
        left_out = len(tried.days) - len(days)
        caption = f"{left_out:,} days without a refused record are left out." if left_out else None
        columns = ("day", "records", "refused", "", "for example", "reason")
        show.print_table(f"Refused by {rule}", columns, rows, caption=caption)


def _bar_text(count: int, largest: int) -> str:
    return "█" * -(-count * BAR_LENGTH // largest)


def _example_of_day(day: DayOfRule) -> tuple[str, str]:
    if day.first is None:
        return "", ""
    return f"{day.first.place.partition}/{day.first.place.offset}", day.first.reason.partition(": ")[2]
