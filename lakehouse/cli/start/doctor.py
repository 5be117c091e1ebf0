"""`lakehouse doctor`: is this machine, and what the settings name, fit for a run?"""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from lakehouse.cli.terminal import show
from lakehouse.cli.terminal.failure import FAILED
from lakehouse.cli.terminal.options import ConfigOption, JsonOption, LakeOption, settings_of
from lakehouse.errors import ConfigError


def doctor(
    report: Annotated[bool, typer.Option("--report", help="Print it as Markdown, to paste into an issue.")] = False,
    config: ConfigOption = None,
    lake: LakeOption = None,
    json: JsonOption = False,
) -> None:
    """Examine what a run needs: Java, memory, disk, Kafka, the clock.

    Also Python and its packages, open files, ports, the registry, the lake and its store. Nothing is started or
    changed, and no secret is shown. Exit code 1 if something keeps a run from working.

    Example: lakehouse doctor --report
    """
    from lakehouse.run.start.doctor import as_report, examine

    if json and report:
        raise ConfigError("doctor: found --json and --report; expected one of them.")
    findings = list(examine(settings_of(config, lake)))
    if json:
        show.print_json([asdict(item) for item in findings])
    elif report:
        show.say(as_report(findings))
    else:
        rows = [(item.subject, item.state, item.found, item.advice) for item in findings]
        show.print_table("", ("subject", "", "found", "to do"), rows)
    if any(item.state == "problem" for item in findings):
        raise typer.Exit(FAILED)
