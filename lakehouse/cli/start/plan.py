"""`lakehouse plan`: what an application would do to the lake, before it runs."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from lakehouse.cli.terminal import show
from lakehouse.cli.terminal.failure import FAILED
from lakehouse.cli.terminal.options import AppOption, ConfigOption, JsonOption, LakeOption, app_of, settings_of

WORDS = {
    "new": "new",
    "same": "unchanged",
    "compatible": "compatible",
    "refold": "needs a refold",
    "new_table": "needs a new table",
}


LineageOption = Annotated[
    bool, typer.Option("--lineage", help="Draw what each table and topic is made from, back to the topics it reads.")
]
SvgOption = Annotated[Path | None, typer.Option("--svg", help="Write the lineage to this file, as a picture.")]


def plan(
    app: AppOption = None,
    lineage: LineageOption = False,
    svg: SvgOption = None,
    config: ConfigOption = None,
    lake: LakeOption = None,
    json: JsonOption = False,
) -> None:
    """Say what a run would do with each table: make it, continue it, or refuse it, and why. Nothing is run.

    Exit code 1 when a run would be refused.

    Example: lakehouse plan --app app.py --lineage --svg lineage.svg
    """
    from lakehouse.lake.ahead import by_table
    from lakehouse.lake.layout import Layout
    from lakehouse.plan.app import has_state_topic
    from lakehouse.plan.evolution.change import reaches, refusal
    from lakehouse.plan.lineage.drawing import lineage as drawn
    from lakehouse.plan.schema import state_topic
    from lakehouse.plan.table import Table
    from lakehouse.run.start.application import load_app
    from lakehouse.run.start.changing import misplaced, planned

    settings = settings_of(config, lake)
    application, layout = load_app(app_of(app, settings)), Layout(settings.lake.path)
    tables, problems = planned(layout, application), misplaced(layout, application)
    below = {of.table.name: [table.name for table in application.below(of.table)] for of in tables}
    known = {table.name for table in application.tables}
    ahead = [table for table in by_table(layout) if table.table in known]
    refused = [refusal(of.table.name, of.change) for of in tables if of.change is not None and not of.can_go_on]
    sinks = [
        {
            "topic": sink.topic,
            "of": sink.of.name if isinstance(sink.of, Table) else sink.of.source.name,
            "is": f"{sink.mode} changelog" if isinstance(sink.of, Table) else "stream",
        }
        for sink in application.sinks
    ]
    sinks += [
        {"topic": state_topic(sink.topic), "of": sink.of.name, "is": "all that it keeps, for a restore"}
        for sink in application.sinks
        if isinstance(sink.of, Table) and has_state_topic(sink)
    ]
    functions = [{"function": of.name, "of": of.of.source.name} for of in application.functions]
    drawing = drawn(application)
    if svg is not None:
        svg.write_text(drawing.svg(), "utf-8")
    if json:
        found = [
            {"table": of.table.name, "change": of.kind, "reasons": list(of.change.reasons) if of.change else []}
            | ({"read_by": below[of.table.name]} if below[of.table.name] else {})
            for of in tables
        ]
        more: dict[str, object] = {"functions": functions} if functions else {}
        more |= {"ahead": [asdict(table) for table in ahead]} if ahead else {}
        more |= {"lineage": drawing.graph.as_json()} if lineage else {}
        more |= {"warnings": list(application.warnings)} if application.warnings else {}
        show.as_json({"ok": not (problems or refused), "problems": problems, "tables": found, "sinks": sinks, **more})
    else:
        show.table("Tables", ("table", "its declaration"), [(of.table.name, WORDS[of.kind]) for of in tables])
        if sinks:
            show.table("Topics", ("topic", "from", "what"), [tuple(sink.values()) for sink in sinks])
        if functions:
            show.table("Functions", ("function", "is told"), [tuple(of.values()) for of in functions])
        goes_on = [
            "\n".join([f"table {of.table.name!r} continues:", *(f"  {reason}" for reason in of.change.reasons)])
            for of in tables
            if of.change is not None and of.kind == "compatible"
        ]
        reach = [reaches(of.table.name, below[of.table.name]) for of in tables if of.kind == "refold"]
        warnings = [f"warning: {text}" for text in application.warnings]
        for text in (*goes_on, *map(str, ahead), *problems, *refused, *filter(None, reach), *warnings):
            show.say(f"\n{text}")
        if lineage:
            show.say(f"\n{drawing}")
    if problems or refused:
        raise typer.Exit(FAILED)
