"""`lakehouse test run`: scenario files, on the model or on Spark."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.cli.terminal import show
from lakehouse.cli.terminal.failure import FAILED
from lakehouse.errors import ConfigError

if TYPE_CHECKING:
    from lakehouse.run.scenario.suite import CaseResult, EngineName


class EngineChoice(StrEnum):
    """The engines to run."""

    model = "model"
    spark = "spark"
    both = "both"


ENGINES: dict[EngineChoice, tuple[EngineName, ...]] = {
    EngineChoice.model: ("model",),
    EngineChoice.spark: ("spark",),
    EngineChoice.both: ("model", "spark"),
}


def run_scenarios(
    paths: Annotated[
        list[Path] | None, typer.Argument(metavar="PATH", help="Scenario files, or folders that hold some.")
    ] = None,
    statements: Annotated[
        Path | None, typer.Option("--sql-file", "-s", metavar="FILE", help="ksqlDB's own form of a test: statements,")
    ] = None,
    inputs: Annotated[
        Path | None, typer.Option("--input-file", "-i", metavar="FILE", help='the inputs, {"inputs": [...]},')
    ] = None,
    outputs: Annotated[
        Path | None, typer.Option("--output-file", "-o", metavar="FILE", help='and {"outputs": [...]}.')
    ] = None,
    engine: Annotated[
        EngineChoice, typer.Option(help="The model runs in milliseconds, in plain Python; what counts is Spark.")
    ] = EngineChoice.model,
    batch: Annotated[
        list[str] | None,
        typer.Option(
            metavar="one|all|N", help="How many records in a batch: one, all, or a number. Can be given several times."
        ),
    ] = None,
    report: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the results there, as JSON.")] = None,
) -> None:
    """Run scenario files: with this application and this input, exactly this comes out.

    Exit code 0 only when all passed. The last line is "N passed, N failed". With --engine both, what the model can't
    evaluate is skipped there, and counts on Spark alone.

    Example: lakehouse test run scenarios --engine both --batch all --batch one
    """
    from lakehouse.run.scenario import suite
    from lakehouse.run.scenario.ksql_files import scenario_of
    from lakehouse.run.scenario.scenario import parse_batch

    batches = list(dict.fromkeys(map(parse_batch, batch or ["all"])))
    engines: tuple[EngineName, ...] = ENGINES[engine]
    if report is not None and not report.absolute().parent.is_dir():
        raise ConfigError(f"--report {report}: there is no folder {report.parent}. Make it, or name another file.")
    # Unlike python, the console script does not look there for "app": "package.module:name".
    if "" not in sys.path:
        sys.path.insert(0, "")
    outcomes: list[CaseResult] = []
    test_cases = suite.find_cases(paths or [], excluded_file=report)
    if statements is not None or inputs is not None or outputs is not None:
        if statements is None or inputs is None or outputs is None:
            raise ConfigError("-s, -i and -o go together: the statements, the inputs, and the expected outputs.")
        test_cases.append(suite.Case(statements, scenario_of(statements, inputs, outputs)))
    if not test_cases:
        raise ConfigError("expected scenario files, or folders that hold some; or -s, -i and -o.")
    if "spark" in engines:
        show.say(
            f"{len(test_cases)} files; Spark runs some at once, a few at first, and they are shown then.", stderr=True
        )
    for outcome in suite.run_cases(test_cases, engines, batches, suite.spark_engine):
        outcomes.append(outcome)
        _show_outcome(outcome)
    if report is not None:
        suite.write_report(report, outcomes)
    passed_count, failed_count = (
        sum(outcome.passed is is_passed for outcome in outcomes) for is_passed in (True, False)
    )
    show.say(f"{passed_count} passed, {failed_count} failed")
    if failed_count:
        raise typer.Exit(FAILED)


def _show_outcome(case_result: CaseResult) -> None:
    outcome_word = {True: "passed", False: "FAILED", None: "skipped"}[case_result.passed]
    show.say(
        f"{outcome_word:7} {case_result.file} ({case_result.engine}, batch {case_result.batch}, "
        f"{case_result.seconds:.2f} s): {case_result.name}"
    )
    for line in case_result.message.splitlines():
        show.say(f"    {line}")
