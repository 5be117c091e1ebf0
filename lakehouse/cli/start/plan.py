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

    A new rule of a stream is tried on the newest records that the lake has of its topic.

    Exit code 1 when a run would be refused.

    Example: lakehouse plan --app app.py --lineage --svg lineage.svg
    """
    from lakehouse.lake.clocks_ahead import tables_ahead
    from lakehouse.lake.layout import Layout
    from lakehouse.lake.reader import read_bronze_coverage
    from lakehouse.lake.record.tried_rules import try_new_rules
    from lakehouse.plan.app import has_state_topic
    from lakehouse.plan.evolution.change import explain_reach
    from lakehouse.plan.lineage.drawing import lineage as drawn
    from lakehouse.plan.names.beside_topic import state_topic
    from lakehouse.plan.table import Table
    from lakehouse.run.snapshots.taking import describe_snapshots
    from lakehouse.run.start.application import load_app
    from lakehouse.run.start.declared_changes import compare_declarations, misplaced_topics, refusals_of

    settings = settings_of(config, lake)
    application, layout = load_app(app_of(app, settings)), Layout(settings.lake.path)
    planned_tables, problems = compare_declarations(layout, application), misplaced_topics(layout, application)
    tables_below = {
        planned_item.table.name: [table.name for table in application.tables_below(planned_item.table)]
        for planned_item in planned_tables
    }
    table_names = {table.name for table in application.tables}
    ahead = [table for table in tables_ahead(layout) if table.table in table_names]
    refusals = refusals_of(layout, application, planned_tables)
    tried_rules = try_new_rules(layout, read_bronze_coverage(layout), application.sources)
    sink_plans = [
        {
            "topic": sink.topic,
            "of": sink.source.name if isinstance(sink.source, Table) else sink.source.source.name,
            "is": f"{sink.mode} changelog" if isinstance(sink.source, Table) else "stream",
        }
        for sink in application.sinks
    ]
    sink_plans += [
        {"topic": state_topic(sink.topic), "of": sink.source.name, "is": "all that it keeps, for a restore"}
        for sink in application.sinks
        if isinstance(sink.source, Table) and has_state_topic(sink)
    ]
    function_plans = [
        {"function": planned_item.name, "of": planned_item.source.source.name} for planned_item in application.functions
    ]
    snapshot_plans = describe_snapshots(application)
    drawing = drawn(application)
    if svg is not None:
        svg.write_text(drawing.svg(), "utf-8")
    if json:
        table_plans = [
            {
                "table": planned_item.table.name,
                "change": planned_item.kind,
                "reasons": list(planned_item.change.reasons) if planned_item.change else [],
            }
            | ({"read_by": tables_below[planned_item.table.name]} if tables_below[planned_item.table.name] else {})
            for planned_item in planned_tables
        ]
        further_plans: dict[str, object] = {"functions": function_plans} if function_plans else {}
        further_plans |= {"snapshots": snapshot_plans} if snapshot_plans else {}
        further_plans |= {"upstream": [table.name for table in application.upstream]} if application.upstream else {}
        further_plans |= {"ahead": [asdict(table) for table in ahead]} if ahead else {}
        further_plans |= {"new_rules": [asdict(rule) for rule in tried_rules]} if tried_rules else {}
        further_plans |= {"lineage": drawing.graph.as_json()} if lineage else {}
        further_plans |= {"warnings": list(application.warnings)} if application.warnings else {}
        show.print_json(
            {
                "ok": not (problems or refusals),
                "problems": problems,
                "tables": table_plans,
                "sinks": sink_plans,
                **further_plans,
            }
        )
    else:
        show.print_table(
            "Tables",
            ("table", "its declaration"),
            [(planned_item.table.name, WORDS[planned_item.kind]) for planned_item in planned_tables],
        )
        if snapshot_plans:
            titles = ("topic", "path", "snapshots", "first", "last")
            show.print_table("Snapshots", titles, [tuple(map(item.get, titles)) for item in snapshot_plans])
        if sink_plans:
            show.print_table("Topics", ("topic", "from", "what"), [tuple(sink.values()) for sink in sink_plans])
        if function_plans:
            show.print_table(
                "Functions", ("function", "is told"), [tuple(planned_item.values()) for planned_item in function_plans]
            )
        if application.upstream:
            upstream_names = ", ".join(table.name for table in application.upstream)
            show.say(f"\nTables of other applications, which are only read: {upstream_names}")
        continuations = [
            "\n".join(
                [
                    f"table {planned_item.table.name!r} continues:",
                    *(f"  {reason}" for reason in planned_item.change.reasons),
                ]
            )
            for planned_item in planned_tables
            if planned_item.change is not None and planned_item.kind == "compatible"
        ]
        reach_texts = [
            explain_reach(planned_item.table.name, tables_below[planned_item.table.name])
            for planned_item in planned_tables
            if planned_item.kind == "refold"
        ]
        warnings = [f"warning: {message}" for message in application.warnings]
        for message in (
            *continuations,
            *map(str, ahead),
            *map(str, tried_rules),
            *problems,
            *refusals,
            *filter(None, reach_texts),
            *warnings,
        ):
            show.say(f"\n{message}")
        if lineage:
            show.say(f"\n{drawing}")
    if problems or refusals:
        raise typer.Exit(FAILED)
