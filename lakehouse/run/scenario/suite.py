"""Runs many scenarios on one engine or both, for `lakehouse test run`.

The model runs them one after the other. Spark runs them packed into one lake (`lakehouse.run.scenario.packing`). After
an error the pack is halved until the scenario at fault is alone, so that no other fails because of it.
"""

from __future__ import annotations

import json
import re
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from itertools import chain, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from lakehouse.errors import ConfigError, LakehouseError, NeedsSpark
from lakehouse.lake.layout import Layout
from lakehouse.model.model import Result
from lakehouse.plan.app import App
from lakehouse.run.scenario.packing import Trial, pack, unpack
from lakehouse.run.scenario.scenario import (
    Batch,
    Engine,
    Scenario,
    build_records,
    check_scenario,
    find_files,
    load_application,
    on_model,
    read_scenario,
)
from lakehouse.semantics.record import Record
from lakehouse.settings.config import Options, load

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EngineName = Literal["model", "spark"]
# How many scenarios share a lake: few at first, so that results come early. More than a hundred would save little,
# and plans and threads of a thousand tables take memory.
PACKS = (10, 30, 100)
# The error of a Python worker's trace: the first line after the trace that is not indented.
PYTHON_ERROR = re.compile(r"^Traceback \(most recent call last\):\n(?:[ \t].*\n|\n)*(\S.*)", re.MULTILINE)
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
# Thousands of small plans: code that compiles quickly beats code that runs quickly. With the first option alone the
# room for compiled code is 48 MB; one batch of scenarios fills it, and after that Java compiles nothing at all.
QUICK_TO_COMPILE = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m"


@dataclass(frozen=True, slots=True)
class CaseResult:
    """The outcome of one scenario on one engine under one batching. `passed` is None if it was skipped.

    `seconds`: on Spark its share of the run of its pack.
    """

    file: str
    name: str
    engine: EngineName
    batch: Batch
    passed: bool | None
    message: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Case:
    """A file, and its scenario, or the reason why it can't be read."""

    file: Path
    scenario: Scenario | None
    refused: str = ""


def find_cases(paths: Iterable[Path], excluded_file: Path | None = None) -> list[Case]:
    """Return the scenarios in files and folders, each file once. excluded_file: the report, which is no scenario.

    In a folder it leaves out lakes, and folders that begin with a dot or an underscore (.venv, _delta_log). A path that
    does not exist, or a folder without scenarios, is a case that fails: a run that tests nothing must not pass.
    """
    cases_by_file: dict[Path, Case] = {}
    for path in paths:
        try:
            scenario_files = [file for file in find_files(path) if file == path or not _is_apart(path, file)]
            scenario_files = [
                file for file in scenario_files if excluded_file is None or file.resolve() != excluded_file.resolve()
            ]
            if not scenario_files:
                raise ConfigError(f"{path}: no scenario in this folder; expected files *.json.")
        except (ConfigError, OSError) as error:
            cases_by_file[path] = Case(path, None, error_message(error))
            continue
        for file in scenario_files:
            if file.resolve() not in cases_by_file:
                cases_by_file[file.resolve()] = _read_case(file)
    return list(cases_by_file.values())


def _is_apart(root: Path, file: Path) -> bool:
    """Say whether a JSON file below `root` belongs to a tool, to Delta, or to a lake, so that it is no scenario."""
    folders = [folder for folder in file.parents if folder.is_relative_to(root)]
    return any(folder.name.startswith((".", "_")) for folder in folders[:-1]) or any(map(_is_lake, folders))


@lru_cache
def _is_lake(folder: Path) -> bool:
    return Path(Layout(str(folder)).records, "_delta_log").is_dir()


def _read_case(file: Path) -> Case:
    try:
        return Case(file, read_scenario(file))
    except Exception as error:  # whatever the file contains, only this case fails
        return Case(file, None, error_message(error))


def error_message(error: BaseException) -> str:
    """Return an error's message for a reader: lakehouse's own as it is, another with its kind; never a trace."""
    return str(error) if isinstance(error, LakehouseError) else f"{type(error).__name__}: {error}"


def run_on_model(cases: Sequence[Case], batch: Batch, *, skip: bool = False) -> Iterator[CaseResult]:
    """Run each case on the model. skip: skip cases that need Spark, because Spark runs them too; else they fail."""
    for case in cases:
        started = time.perf_counter()
        passed, outcome = _check_case(case, on_model, batch)
        if passed is None and not skip:
            passed, outcome = False, f"{outcome.rstrip('.')}; run with --engine spark"
        yield _case_result(case, "model", batch, passed, outcome, time.perf_counter() - started)


def run_on_spark(cases: Sequence[Case], batch: Batch, engine: Engine) -> Iterator[CaseResult]:
    """Run the cases on Spark, packed; yield the results in the cases' order, those of a pack when it has run."""
    sizes = chain(PACKS, repeat(PACKS[-1]))
    first = 0
    while first < len(cases):
        last = first + next(sizes)
        yield from _run_pack(cases[first:last], batch, engine)
        first = last


def _run_pack(cases: Sequence[Case], batch: Batch, engine: Engine) -> Iterator[CaseResult]:
    started = time.perf_counter()
    trials_by_number = {
        number: part for number, case in enumerate(cases) if (part := _make_trial(case, batch)) is not None
    }
    results_by_number = dict(zip(trials_by_number, _run_halving(list(trials_by_number.values()), engine), strict=True))
    share_seconds = (time.perf_counter() - started) / max(len(trials_by_number), 1)
    for number, case in enumerate(cases):
        # A case without a part needs no engine for its check: it is refused, as it may expect, or it fails.
        result = results_by_number.get(number, LakehouseError("not run"))
        passed, outcome = _check_case(case, _finished_engine(result), batch)
        yield _case_result(
            case, "spark", batch, bool(passed), outcome, share_seconds if number in trials_by_number else 0.0
        )


def _make_trial(case: Case, batch: Batch) -> Trial | None:
    """Return the part of a case that an engine runs; None if it can't be read: `_check_case` reports that."""
    if case.scenario is None or case.scenario.error is not None:
        return None
    try:
        app = load_application(case.scenario)
        return Trial(app, build_records(case.scenario, app, batch))
    except (Exception, SystemExit):
        return None


def _run_halving(trials: list[Trial], engine: Engine) -> list[Result | LakehouseError]:
    """Return the result of each part, or its error."""
    if not trials:
        return []
    try:
        return list(unpack(engine(*pack(trials)), trials))
    except Exception as error:
        if len(trials) == 1:
            return [LakehouseError(_spark_message(error))]
        middle = len(trials) // 2
        return [*_run_halving(trials[:middle], engine), *_run_halving(trials[middle:], engine)]


def _spark_message(error: Exception) -> str:
    """Return Spark's error as one line: of a Python worker's trace the error itself, of a Java trace the cause."""
    from lakehouse.spark.cluster.root_cause import root_cause

    if isinstance(error, LakehouseError):
        return str(error)
    in_python = PYTHON_ERROR.search(str(error))
    return f"{type(error).__name__}: {in_python.group(1) if in_python else root_cause(str(error))}"


def _finished_engine(result: Result | LakehouseError) -> Engine:
    """Return an engine that gives a result which is there already."""

    def engine(app: App, records: list[Record]) -> Result:
        if isinstance(result, LakehouseError):
            raise result
        return result

    return engine


def _check_case(case: Case, engine: Engine, batch: Batch) -> tuple[bool | None, str]:
    """Check a case; return whether it passed, None if it needs Spark, and the message. Raises nothing."""
    if case.scenario is None:
        return False, case.refused
    try:
        failures = check_scenario(case.scenario, engine, batch)
    except NeedsSpark as error:
        return None, f"needs Spark: {error}"
    except (Exception, SystemExit) as error:  # of the user's application, or of the engine: only this scenario fails
        return False, error_message(error)
    return not failures, "\n".join(failures)


def _case_result(
    case: Case, engine: EngineName, batch: Batch, passed: bool | None, outcome: str, seconds: float
) -> CaseResult:
    name = case.file.stem if case.scenario is None else case.scenario.name
    return CaseResult(str(case.file), name, engine, batch, passed, outcome, round(seconds, 3))


def run_cases(
    cases: Sequence[Case],
    engines: Sequence[EngineName],
    batches: Sequence[Batch],
    spark: Callable[[], AbstractContextManager[Engine]],
) -> Iterator[CaseResult]:
    """Run every case on every engine under every batching, the model first.

    spark: gives the Spark engine; entered once, and only if `engines` name Spark. If it can't start, all its cases fail
    with that message.
    """
    if "model" in engines:
        for batch in batches:
            yield from run_on_model(cases, batch, skip="spark" in engines)
    if "spark" in engines:
        with ExitStack() as stack:
            try:
                engine = stack.enter_context(spark())
            except Exception as error:
                engine = _finished_engine(LakehouseError(f"Spark did not start: {_spark_message(error)}"))
            for batch in batches:
                yield from run_on_spark(cases, batch, engine)


def session_for_tests() -> SparkSession:
    """Return the process's Spark session, set up for many small plans; start it if there is none yet."""
    from lakehouse.spark.jvm.session.session import open_session

    settings = load()
    java_options = f"{QUICK_TO_COMPILE} {settings.spark.options.get(JAVA_OPTIONS, '')}".strip()
    options = Options({**settings.spark.options, JAVA_OPTIONS: java_options})
    return open_session(replace(settings, spark=replace(settings.spark, options=options, keep="off")))


@contextmanager
def spark_engine() -> Iterator[Engine]:
    """Give the Spark engine, with a session and a temporary folder; end both at the end.

    A session that was there before stays: a notebook's, or that of the surrounding tests.
    """
    from lakehouse.run.scenario.replay import SparkReplay
    from lakehouse.spark.jvm.session.session import is_session_open

    is_own = not is_session_open()
    session = session_for_tests()
    try:
        with tempfile.TemporaryDirectory(prefix="lakehouse-test-", ignore_cleanup_errors=True) as folder:
            yield SparkReplay(session, Path(folder))
    finally:
        if is_own:
            session.stop()


def write_report(file: Path, outcomes: Iterable[CaseResult]) -> None:
    """Write the outcomes that count, passed and failed, as a JSON list. Raises ConfigError if it can't write."""
    lines = [json.dumps(asdict(outcome), ensure_ascii=False) for outcome in outcomes if outcome.passed is not None]
    try:
        # Half of a surrogate pair, as a file's name may have, is written as JSON's escape of it.
        file.write_text("[" + ",\n ".join(lines) + "]\n", encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise ConfigError(f"--report {file}: can't be written: {error}") from error
