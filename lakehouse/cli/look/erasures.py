"""`lakehouse look erasures`: what was erased on request, and the searches that prove it; read without Spark."""

from __future__ import annotations

from lakehouse.cli.terminal import show
from lakehouse.cli.terminal.options import ConfigOption, JsonOption, LakeOption, lake_of


def erasures(config: ConfigOption = None, lake: LakeOption = None, json: JsonOption = False) -> None:
    """List what was erased on request: when, why, by whom, how many records of which topics, and the last search.

    An erasure that was interrupted goes on when its command is given again.

    Example: lakehouse look erasures
    """
    from lakehouse.lake.erasure import erasure_log
    from lakehouse.lake.layout import Layout

    all_erasures = erasure_log.read_erasures(Layout(lake_of(config, lake).lake.path))
    if json:
        for item in all_erasures:
            show.print_json(item.facts())
        return
    if not all_erasures:
        show.say("No erasures.")
        return
    rows = [
        (
            item.begun_at,
            item.finished_at or f"not finished: {item.progress}",
            item.decided_by,
            item.reason,
            ", ".join(f"{topic}: {count:,}" for topic, count in item.records.items()),
            "" if item.tick is None else f"{item.tick:,}",
            f"{item.searches[-1].searched_at}: {item.searches[-1].occurrences:,} found" if item.searches else "",
        )
        for item in all_erasures
    ]
    show.print_table("Erasures", ("begun", "finished", "by", "why", "records", "tick", "last search"), rows)
