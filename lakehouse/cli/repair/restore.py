"""`lakehouse repair restore`: a table from its changelog in a topic."""

from __future__ import annotations

from typing import Annotated

import typer

from lakehouse.cli.terminal import show
from lakehouse.cli.terminal.options import AppOption, ConfigOption, JsonOption, LakeOption, app_of, settings_of
from lakehouse.markup.quantity import quantity


def restore(
    table: Annotated[str, typer.Argument(help="The table; it must not exist yet.")],
    topic: Annotated[str, typer.Argument(help="The topic that its changelog was published to.")],
    app: AppOption = None,
    config: ConfigOption = None,
    lake: LakeOption = None,
    json: JsonOption = False,
) -> None:
    """Make a table of an application from its published changelog; `run` goes on from there.

    Example: lakehouse repair restore totals totals-changelog --lake ./other
    """
    from lakehouse.lake.layout import Layout
    from lakehouse.lake.record.lost_records import read_gaps
    from lakehouse.plan.expression.schema import check_topic
    from lakehouse.run.lake import Lake
    from lakehouse.run.start.application import load_app

    settings = settings_of(config, lake)
    declared_table = load_app(app_of(app, settings)).table(table)
    layout = Layout(settings.lake.path)
    gap_count_before = len(read_gaps(layout))
    row_count = Lake(settings=settings).restore(declared_table, check_topic(topic))
    gap_count = len(read_gaps(layout)) - gap_count_before
    if json:
        show.print_json({"table": table, "topic": topic, "rows": row_count, "gaps": gap_count})
        return
    show.say(f"Table {table} was restored from topic {topic}: {quantity(row_count, 'row')}.")
    if gap_count:
        show.say(
            f"Kafka lost records that came after those: {quantity(gap_count, 'range')} of offsets, now written down in "
            "bronze/gaps. The table lacks them."
        )
