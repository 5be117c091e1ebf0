"""The two references of the docs' site: of the commands, from their help; of Python, from the docstrings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import typer
import typer.main

import lakehouse
import lakehouse.errors
import lakehouse.testing
from lakehouse.cli.main import app

COMMANDS = """\
# All commands

What `lakehouse COMMAND --help` says, on one page. By what you want to do: [commands](../docs/commands.md).
Exit codes: [operations](../docs/operations.md).
"""
PYTHON = """\
# Python

`import lakehouse as lh`: what an application is declared with. Nothing heavy starts until `Lake.run` or `Lake.read`.
"""
# What calls take beside declarations, and what they return: not in `lakehouse` itself, since few programs name them.
TAKEN = (
    "semantics.time.moment.AtVersion", "semantics.time.moment.AtTick", "semantics.time.moment.AtCommit",
    "semantics.time.moment.AtEvent", "semantics.time.moment.AtOffsets", "run.repair.backfill.Range",
    "run.watch.event.JobEvent", "semantics.record.Record",
)  # fmt: skip
RETURNED = (
    "lake.moment.answer.Answered", "semantics.difference.Difference", "run.explain.explanation.Explained",
    "run.explain.explanation.RowStep", "run.audit.finding.Audit", "run.audit.finding.PartitionAudit",
    "run.audit.finding.Problem", "run.repair.backfill.Backfilled", "run.repair.correct.Corrected",
    "run.repair.replay.FixOutcome", "run.repair.stages.RepairPlan", "spark.fold.content.Content",
    "run.repair.rebuild.Proof", "run.repair.rebuild.Backtested", "run.repair.rehydrate.Rehydrated",
    "plan.lineage.drawing.Drawing", "spark.audit.tried_rule.TriedRule",
)  # fmt: skip


def commands() -> str:
    """Return the page of all commands, in the order of `lakehouse --help`."""
    top = typer.main.get_command(app)
    return COMMANDS + "".join(_sections(top, ("lakehouse",), None))


def _sections(command: Any, path: tuple[str, ...], above: Any) -> Iterator[str]:
    context = typer.Context(command, info_name=path[-1], parent=above)
    if hasattr(command, "commands"):
        if len(path) > 1:
            yield f"\n## {' '.join(path)} ...\n\n{_prose(command.help)}\n"
        for name in command.list_commands(context):
            yield from _sections(command.commands[name], (*path, name), context)
        return
    yield f"\n{'#' * (len(path) if len(path) > 2 else 2)} {' '.join(path)}\n\n"
    usage = [re.sub(r"\{(\w+)\}", lambda name: name[1].upper(), one) for one in command.collect_usage_pieces(context)]
    yield f"    {' '.join([*path, *usage])}\n\n"
    yield f"{_prose(command.help)}\n"
    rows = [_row(parameter) for parameter in command.params if not getattr(parameter, "hidden", False)]
    if rows:
        yield "\n" + "\n".join(["| | |", "|---|---|", *rows]) + "\n"


def _prose(help_text: str | None) -> str:
    """A command's help as Markdown: its example becomes a block, since it is a line to type."""
    lines = []
    for part in re.split(r"\n\s*\n", (help_text or "").strip()):
        said, example, line = " ".join(part.split()).partition("Example: ")
        lines.append(_plain(said))
        if example:
            lines += ["Example:", *(f"    {one}" for one in [line])]
    return "\n\n".join(line for line in lines if line)


def _row(parameter: Any) -> str:
    names = [*parameter.opts, *parameter.secondary_opts]
    if parameter.param_type_name == "argument":
        names = [parameter.metavar or parameter.name.upper()]
    shown = ", ".join(f"`{name}`" for name in names)
    said = _plain(" ".join((getattr(parameter, "help", None) or "").split()))
    default = parameter.default
    plain = isinstance(default, str | int | float) and not isinstance(default, bool) and default != ""
    return (
        f"| {shown} | {said}{f' Default: `{default}`.' if plain else ''}{' Required.' if parameter.required else ''} |"
    )


def _plain(text: str) -> str:
    """A text in which nothing but code quotes means something to Markdown."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(
        part if part.startswith("`") else re.sub(r"([*_<>|\[\]#])", r"\\\1", part) for part in parts
    ).replace("`|`", "`\\|`")


def python() -> str:
    """Return the page of the public Python names, for Sphinx's autodoc to fill."""
    names = {name: getattr(lakehouse, name) for name in lakehouse.__all__}
    parts = [PYTHON, "## Declaring\n"]
    functions = sorted(name for name, one in names.items() if not isinstance(one, type))
    classes = sorted(name for name, one in names.items() if isinstance(one, type) and not issubclass(one, Exception))
    parts += [_autodoc("function", f"lakehouse.{name}") for name in functions]
    for name in classes:
        parts += [f"## {name}\n", _autodoc("class", f"lakehouse.{name}", ":members:\n   :inherited-members:")]
    for heading, classes in (("Moments, ranges, events", TAKEN), ("What calls return", RETURNED)):
        parts += [f"## {heading}\n", *(_autodoc("class", f"lakehouse.{name}", ":members:") for name in classes)]
    parts += ["## lakehouse.testing\n", _autodoc("module", "lakehouse.testing", ":members:")]
    parts += ["## Errors\n", _autodoc("module", "lakehouse.errors", ":members:\n   :show-inheritance:")]
    return "\n".join(parts)


def _autodoc(kind: str, name: str, options: str = "") -> str:
    body = f".. auto{kind}:: {name}\n" + (f"   {options}\n" if options else "")
    return f"```{{eval-rst}}\n{body}```\n"
