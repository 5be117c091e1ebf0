"""The place of each command: eight on their own, the groups, and the names from before there were groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, cast

import typer
from typer.core import TyperGroup

from lakehouse.cli.deploy import plan as deploy_plan
from lakehouse.cli.deploy import promote, stage
from lakehouse.cli.kafka import acls, broker, consume, produce, registry, topics
from lakehouse.cli.look import erasures, interventions, late, quarantine, read
from lakehouse.cli.past import blame, changes, diff, explain, rebuild
from lakehouse.cli.repair import backfill, correct, erase, rehydrate, replay, restore, revert, upkeep
from lakehouse.cli.schema import check as schema_check
from lakehouse.cli.schema import pull, retry
from lakehouse.cli.serve import airflow, spark
from lakehouse.cli.spelling import ApplicationFirst
from lakehouse.cli.spelling import RenamedOptions as Spelled
from lakehouse.cli.sql import sql
from lakehouse.cli.start import demo, doctor, explain_error, infer, init, plan, run_app, setup, status
from lakehouse.cli.test import audit, backtest, capture, check, drill, expect, test

Command = Callable[..., None]


@dataclass(frozen=True)
class Group:
    """Commands for one kind of question. ``about`` begins the group's line in `lakehouse --help`."""

    name: str
    about: str
    commands: Mapping[str, Command]

    @property
    def help(self) -> str:
        return f"{self.about}: {', '.join(self.commands)}."


ALONE: Mapping[str, Command] = {
    "setup": setup.setup,
    "doctor": doctor.doctor,
    "init": init.init,
    "demo": demo.demo,
    "infer": infer.infer,
    "plan": plan.plan,
    "run": run_app.run,
    "status": status.status,
    "query": read.query,
    "sql": sql.sql,
}
UNLISTED: Mapping[str, Command] = {"explain-error": explain_error.explain_error}  # an error names it
GROUPS = (
    Group(
        "kafka",
        "Kafka, records",
        {
            "up": broker.up,
            "down": broker.down,
            "produce": produce.produce,
            "consume": consume.consume,
            "topics": topics.topics,
            "groups": topics.groups,
            "acls": acls.acls,
        },
    ),
    Group(
        "registry",
        "The schema registry on this machine",
        {"up": registry.up, "down": registry.down},
    ),
    Group(
        "spark",
        "The Spark that is kept between commands",
        {"status": spark.status, "stop": spark.stop},
    ),
    Group(
        "schema",
        "The registry's schemas",
        {"pull": pull.pull, "check": schema_check.check, "retry": retry.retry},
    ),
    Group(
        "look",
        "What the lake holds",
        {
            "tables": read.tables,
            "describe": read.describe,
            "late": late.late,
            "quarantine": quarantine.quarantine,
            "interventions": interventions.interventions,
            "erasures": erasures.erasures,
        },
    ),
    Group(
        "past",
        "How a table came to be, and what it was",
        {
            "log": read.log,
            "changes": changes.changes,
            "show": diff.show,
            "diff": diff.diff,
            "blame": blame.blame,
            "bisect": blame.bisect,
            "explain": explain.explain,
            "checkout": rebuild.checkout,
            "rebuild": rebuild.rebuild,
        },
    ),
    Group(
        "repair",
        "Repair a table, and keep the lake in order",
        {
            "backfill": backfill.backfill,
            "revert": revert.revert,
            "correct": correct.correct,
            "replay": replay.replay,
            "restore": restore.restore,
            "rehydrate": rehydrate.rehydrate,
            "erase": erase.erase,
            "upkeep": upkeep.upkeep,
        },
    ),
    Group(
        "deploy",
        "New logic, at one tick",
        {
            "plan": deploy_plan.plan,
            "stage": stage.stage,
            "show": stage.show_staged,
            "promote": promote.promote,
            "back": promote.back,
            "discard": stage.discard,
        },
    ),
    Group(
        "test",
        "Test an application, and check a lake",
        {
            "run": test.run_scenarios,
            "capture": capture.capture,
            "check": check.check,
            "audit": audit.audit,
            "backtest": backtest.backtest,
            "expect": expect.expect,
            "drill": drill.drill,
        },
    ),
    Group(
        "airflow",
        "Airflow on this machine, its jobs",
        {
            "up": airflow.up,
            "down": airflow.down,
            "status": airflow.status,
            "add": airflow.add,
            "remove": airflow.remove,
        },
    ),
)
YOUNGER = ("replay", "acls", "consume", "topics", "groups", "expect", "erase", "erasures")  # than the groups
YOUNGER_GROUPS = ("airflow", "deploy", "registry", "schema", "spark")  # than the names without a group
# The names from before there were groups, and their groups. `test`, which took paths, is a group itself.
MOVED = {
    name: group.name
    for group in GROUPS
    if group.name not in YOUNGER_GROUPS
    for name in group.commands
    if name not in (*ALONE, *YOUNGER)
}
# These had the application first, in front of the tables, before all commands had --app.
APPLICATION_FIRST = (
    plan.plan, run_app.run, rebuild.checkout, rebuild.rebuild, backfill.backfill, revert.revert, correct.correct,
    capture.capture, check.check, backtest.backtest, airflow.add,
)  # fmt: skip


class Names(TyperGroup):
    """A group that can name the place of a command that it does not have itself."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command of a line. Raises a usage error that names similar commands, with their groups."""
        is_unknown = self.get_command(ctx, args[0]) is None and not ctx.resilient_parsing
        if is_unknown and (meant_lines := lines_meant_by(args[0])):
            ctx.fail(f"No such command {args[0]!r}. Did you mean {' or '.join(meant_lines)}?")
        return super().resolve_command(ctx, args)


class Top(Names):
    """The commands directly below `lakehouse`. It accepts earlier flat names, but does not list them."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command by its name or by its earlier flat name; None if there is none."""
        if cmd_name not in MOVED:
            return super().get_command(ctx, cmd_name)
        group = MOVED[cmd_name]
        command = copy(cast(TyperGroup, self.commands[group]).commands[cmd_name])
        command.epilog = f"Its name is lakehouse {group} {cmd_name} now."
        return command


class TestOrPaths(Names):
    """The group `test`; `lakehouse test PATH...`, from before it was a group, still runs the scenarios of PATH."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the group's command line; a line that names none of its commands is a line of `test run`."""
        if args and args[0] not in (*self.commands, *ctx.help_option_names):
            misspelt = get_close_matches(args[0], self.commands) and not Path(args[0]).exists()
            args = args if misspelt else ["run", *args]
        return super().parse_args(ctx, args)


def lines_meant_by(word: str) -> list[str]:
    """Return the command lines, without arguments, that an unknown command may mean."""
    command_lines: dict[str, list[str]] = {name: [name] for name in ALONE}
    for group in GROUPS:
        command_lines.setdefault(group.name, []).append(group.name)
        for name in group.commands:
            command_lines.setdefault(name, []).append(f"{group.name} {name}")
    return [
        f"`lakehouse {line}`"
        for near_word in get_close_matches(word, command_lines, 2)
        for line in command_lines[near_word]
    ]


def _command_class(command: Command) -> type[Spelled]:
    return ApplicationFirst if command in APPLICATION_FIRST else Spelled


def _help_text(command: Command) -> str:
    """Return the docstring with each paragraph on one line: Typer would keep our line breaks at any width."""
    return "\n\n".join(" ".join(part.split()) for part in (command.__doc__ or "").split("\n\n"))


def add_to(app: typer.Typer) -> None:
    """Add all commands to an application of Typer, in the order of its help."""
    for name, command in ALONE.items():
        app.command(name, cls=_command_class(command), help=_help_text(command))(command)
    for name, command in UNLISTED.items():
        app.command(name, help=_help_text(command), hidden=True)(command)
    for group in GROUPS:
        group_class = TestOrPaths if group.name == "test" else Names
        group_app = typer.Typer(help=group.help, no_args_is_help=True, cls=group_class)
        for name, command in group.commands.items():
            group_app.command(name, cls=_command_class(command), help=_help_text(command))(command)
        app.add_typer(group_app, name=group.name, rich_help_panel="Groups: lakehouse GROUP --help")
