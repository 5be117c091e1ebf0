"""`lakehouse plan`: what an application would do to the lake, before it runs."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakehouse.cli.terminal import show
from lakehouse.cli.terminal.failure import FAILED
from lakehouse.cli.terminal.options import AppOption, ConfigOption, JsonOption, LakeOption, app_of, settings_of

if TYPE_CHECKING:
    from lakehouse.lake.clocks_ahead import ClockAhead
    from lakehouse.lake.layout import Layout
    from lakehouse.lake.record.tried_rules import SampledRule
    from lakehouse.plan.app import App
    from lakehouse.plan.lineage.drawing import Drawing
    from lakehouse.run.start.declared_changes import Planned

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
    from lakehouse.lake.layout import Layout
    from lakehouse.run.start.application import load_app

    settings = settings_of(config, lake)
    run_plan = _read_plan(Layout(settings.lake.path), load_app(app_of(app, settings)))
    if svg is not None:
        svg.write_text(run_plan.drawing.svg(), "utf-8")
    if json:
        show.print_json(_plan_as_json(run_plan, lineage=lineage))
    else:
        _print_plan(run_plan, lineage=lineage)
    if not run_plan.ok:
        raise typer.Exit(FAILED)


@dataclass(frozen=True, slots=True)
class _RunPlan:
    """What a run of an application would do to a lake.

    below: by table, the names of those that read it. problems, refusals: why a run would be refused. ahead: tables
    whose stream time is ahead of the clock. tried_rules: new rules that some of the newest records do not meet.
    topics, functions, snapshots: a row of the printed table each.
    """

    app: App
    tables: list[Planned]
    below: dict[str, list[str]]
    problems: list[str]
    refusals: list[str]
    ahead: list[ClockAhead]
    tried_rules: list[SampledRule]
    topics: list[dict[str, str]]
    functions: list[dict[str, str]]
    snapshots: list[dict[str, Any]]
    drawing: Drawing

    @property
    def ok(self) -> bool:
        return not (self.problems or self.refusals)


def _read_plan(layout: Layout, app: App) -> _RunPlan:
    from lakehouse.lake.clocks_ahead import tables_ahead
    from lakehouse.lake.reader import read_bronze_coverage
    from lakehouse.lake.record.topic_places import misplaced_topics
    from lakehouse.lake.record.tried_rules import try_new_rules
    from lakehouse.plan.lineage.drawing import lineage
    from lakehouse.run.snapshots.taking import describe_snapshots
    from lakehouse.run.start.declared_changes import compare_declarations, refusals_of

    planned_tables = compare_declarations(layout, app)
    table_names = {table.name for table in app.tables}
    return _RunPlan(
        app=app,
        tables=planned_tables,
        below={
            planned.table.name: [table.name for table in app.tables_below(planned.table)] for planned in planned_tables
        },
        problems=list(misplaced_topics(layout, app.topics, app.own_topics).values()),
        refusals=refusals_of(layout, app, planned_tables),
        ahead=[table for table in tables_ahead(layout) if table.table in table_names],
        tried_rules=try_new_rules(layout, read_bronze_coverage(layout), app.sources),
        topics=_plan_topics(app),
        functions=[{"function": sink.name, "of": sink.source.source.name} for sink in app.functions],
        snapshots=describe_snapshots(app),
        drawing=lineage(app),
    )


def _plan_topics(app: App) -> list[dict[str, str]]:
    """Return the topics that a run writes: of streams and changelogs, then those that keep all for a restore."""
    from lakehouse.plan.app import has_state_topic
    from lakehouse.plan.names.beside_topic import state_topic
    from lakehouse.plan.table import Table

    published = [
        {
            "topic": sink.topic,
            "of": sink.source.name if isinstance(sink.source, Table) else sink.source.source.name,
            "is": f"{sink.mode} changelog" if isinstance(sink.source, Table) else "stream",
        }
        for sink in app.sinks
    ]
    return published + [
        {"topic": state_topic(sink.topic), "of": sink.source.name, "is": "all that it keeps, for a restore"}
        for sink in app.sinks
        if isinstance(sink.source, Table) and has_state_topic(sink)
    ]


def _plan_as_json(run_plan: _RunPlan, *, lineage: bool) -> dict[str, Any]:
    """Return the object that `--json` prints; parts without content are left out."""
    table_plans = [
        {
            "table": planned.table.name,
            "change": planned.kind,
            "reasons": list(planned.change.reasons) if planned.change else [],
        }
        | ({"read_by": below} if (below := run_plan.below[planned.table.name]) else {})
        for planned in run_plan.tables
    ]
    further_parts = {
        "functions": run_plan.functions,
        "snapshots": run_plan.snapshots,
        "upstream": [table.name for table in run_plan.app.upstream],
        "ahead": [asdict(table) for table in run_plan.ahead],
        "new_rules": [asdict(rule) for rule in run_plan.tried_rules],
        "lineage": run_plan.drawing.graph.as_json() if lineage else None,
        "warnings": list(run_plan.app.warnings),
    }
    return {
        "ok": run_plan.ok,
        "problems": run_plan.problems,
        "tables": table_plans,
        "sinks": run_plan.topics,
        **{name: part for name, part in further_parts.items() if part},
    }


def _print_plan(run_plan: _RunPlan, *, lineage: bool) -> None:
    table_rows = [(planned.table.name, WORDS[planned.kind]) for planned in run_plan.tables]
    show.print_table("Tables", ("table", "its declaration"), table_rows)
    if run_plan.snapshots:
        titles = ("topic", "path", "snapshots", "first", "last")
        show.print_table("Snapshots", titles, [tuple(map(item.get, titles)) for item in run_plan.snapshots])
    if run_plan.topics:
        show.print_table("Topics", ("topic", "from", "what"), [tuple(topic.values()) for topic in run_plan.topics])
    if run_plan.functions:
        function_rows = [tuple(function.values()) for function in run_plan.functions]
        show.print_table("Functions", ("function", "is told"), function_rows)
    if run_plan.app.upstream:
        upstream_names = ", ".join(table.name for table in run_plan.app.upstream)
        show.say(f"\nTables of other applications, which are only read: {upstream_names}")
    for message in _messages(run_plan):
        show.say(f"\n{message}")
    if lineage:
        show.say(f"\n{run_plan.drawing}")


def _messages(run_plan: _RunPlan) -> list[str]:
    """Return what people should know of a plan, in the order in which it is printed."""
    from lakehouse.plan.evolution.change import explain_reach

    continuations = [
        "\n".join([f"table {planned.table.name!r} continues:", *(f"  {reason}" for reason in planned.change.reasons)])
        for planned in run_plan.tables
        if planned.change is not None and planned.kind == "compatible"
    ]
    reach_texts = [
        explain_reach(planned.table.name, run_plan.below[planned.table.name])
        for planned in run_plan.tables
        if planned.kind == "refold"
    ]
    return [
        *continuations,
        *map(str, run_plan.ahead),
        *map(str, run_plan.tried_rules),
        *run_plan.problems,
        *run_plan.refusals,
        *filter(None, reach_texts),
        *(f"warning: {message}" for message in run_plan.app.warnings),
    ]
