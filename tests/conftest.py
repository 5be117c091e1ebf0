"""Fixtures for every test: a broker, a schema registry and a Spark session a run, each started when first asked for."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from lakehouse.kafka.embedded.broker import Broker
from lakehouse.registry.embedded import EmbeddedRegistry
from lakehouse.settings.config import Settings, load
from tests import seeds
from tests.resumed import is_controller, resumed_plugin

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.run.lake import Lake


# Options that a user may give Spark; tests/spark/test_session.py looks where they can be read.
SECRETS = {
    "spark.hadoop.fs.s3a.secret.key": "canary-in-spark",
    "spark.hadoop.lakehouse.odd": ' \\ # ! = : "quoted" \'\u20ac\U0001f600\t${HOME} $(id)',
}

# Compiling each plan to Java code takes a quarter of the time. The command does it; so does make test-all where
# everything that is computed is computed once, and no other test of the shared session.
COMPILED = ("tests/spark/test_scenarios.py", "tests/ksql/", "tests/properties/", "tests/demo/")
PLANS = {
    "compiled": {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"},
    "as they are": {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"},
}

# Tests of some seconds each would be two thirds of `make test`: each run draws one in so many.
ROTATED_SHARE = 10
# A test that hangs fails after this time. It is no measure of speed: a first test also waits for downloads.
PATIENCE_SECONDS = 3600
LONGEST = ("tests/spark/test_scenarios.py", "tests/ksql/test_on_spark.py", "tests/cli/test_end_to_end.py")

# Nothing may depend on the local time zone: one of the two processes of `make test` runs where an hour comes twice.
if os.environ.get("PYTEST_XDIST_WORKER") == "gw1":
    os.environ["TZ"] = "Europe/Berlin"
    time.tzset()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--one-file-in",
        type=int,
        default=1,
        metavar="N",
        help="run one in N of the files with chosen tests, drawn by the run's seed",
    )
    parser.addoption(
        "--resume", metavar="FOLDER", help="leave out files that have passed on this tree: tests/resumed.py"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Properties: other examples in each run, and a third of them in `make test`. A timing never decides a test.

    One seed gives all that is random. Where the variable CI is set, hypothesis would take the same examples each time.
    """
    if config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = str(seeds.draw())
    settings.register_profile(
        "lakehouse",
        max_examples=30 if is_core(config) else 100,
        deadline=None,
        derandomize=False,
        print_blob=True,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("lakehouse")
    if not is_controller(config) and (plugin := resumed_plugin(config.option.resume)) is not None:
        config.pluginmanager.register(plugin)


def pytest_report_header() -> str:
    return f"seed: {seeds.draw()} (the same run again: {seeds.VARIABLE}={seeds.draw()} make test)"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    """Tell how a failing test runs again as it did."""
    report = yield
    if report.failed:
        command = f'{seeds.VARIABLE}={seeds.draw()} .venv/bin/python -m pytest -m "" "{item.nodeid}"'
        report.sections.append(("the same again", command))
    return report


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The longest files first: at the end of a run one of two processes would wait for the other.

    The whole core leaves out those rotated tests that were not drawn. A file that is named runs whole.
    """
    items.sort(key=lambda item: not item.nodeid.startswith(LONGEST))
    for item in items:
        if any(item.get_closest_marker(name) for name in ("slow", "airflow", "ui")):
            item.add_marker(pytest.mark.timeout(PATIENCE_SECONDS))
    if (share := config.option.one_file_in) > 1:
        # Whole files: in some of them each test goes on where the one before ended.
        files = sorted({item.path for item in items})
        drawn_files = set(Random(seeds.draw()).sample(files, -(-len(files) // share)))
        _keep(config, items, {item.nodeid for item in items if item.path in drawn_files})
    if is_core(config) and {Path(argument).resolve() for argument in config.args} == {Path(__file__).parent}:
        rotated = sorted(item.nodeid for item in items if item.get_closest_marker("rotated"))
        drawn = Random(seeds.draw()).sample(rotated, -(-len(rotated) // ROTATED_SHARE))
        _keep(config, items, {item.nodeid for item in items} - (set(rotated) - set(drawn)))


def _keep(config: pytest.Config, items: list[pytest.Item], kept_ids: set[str]) -> None:
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in kept_ids])
    items[:] = [item for item in items if item.nodeid in kept_ids]


def is_core(config: pytest.Config) -> bool:
    """Whether slow tests are left out, as in `make test`."""
    return "not slow" in config.option.markexpr


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("kafka")) as started:
        yield started


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedRegistry]:
    """A schema registry; its program is fetched when the first test asks for it (104 MB)."""
    with EmbeddedRegistry(tmp_path_factory.mktemp("registry")) as started:
        yield started


@pytest.fixture(scope="session")
def spark(pytestconfig: pytest.Config) -> Iterator[SparkSession]:
    from lakehouse.spark.jvm.session.session import open_session

    # Thousands of small plans: code that compiles quickly beats code that runs quickly.
    options = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m"}
    options |= SECRETS | PLANS["as they are"]
    session = open_session(load(environ={"LAKEHOUSE_SPARK_OPTIONS": json.dumps(options)}))
    yield session
    session.stop()


@pytest.fixture
def plain_spark(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[SparkSession]:
    """The session, with the public interfaces of Spark and Delta alone: [spark] internals = false."""
    from lakehouse.spark.jvm.capability import allow_internals
    from lakehouse.spark.jvm.session.session import new_session

    monkeypatch.setenv("LAKEHOUSE_SPARK_INTERNALS", "false")  # for who opens a lake by its settings
    allow_internals(allowed=False)
    try:
        yield new_session(spark)
    finally:
        allow_internals(allowed=True)


@pytest.fixture(scope="module", autouse=True)
def plans(request: pytest.FixtureRequest, pytestconfig: pytest.Config) -> None:
    """Compile a file's plans, or run them as they are; sessions that are opened from the shared one do the same."""
    if is_core(pytestconfig) or not any(
        item.path == request.path and "spark" in getattr(item, "fixturenames", ()) for item in request.session.items
    ):
        return
    session = request.getfixturevalue("spark")
    for name, value in PLANS["compiled" if request.node.nodeid.startswith(COMPILED) else "as they are"].items():
        session.conf.set(name, value)
        session.sparkContext._jsc.sc().conf().set(name, value)


def settings_for(folder: Path, servers: str, **run: str) -> Settings:
    """Settings of a lake in a folder, on a broker; `run` has settings of the section [run]."""
    environ = {"LAKEHOUSE_LAKE_PATH": str(folder), "LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS": servers}
    return load(environ=environ | {f"LAKEHOUSE_RUN_{name.upper()}": value for name, value in run.items()}, start=folder)


@pytest.fixture
def lake(spark: SparkSession, broker: Broker, tmp_path: Path) -> Callable[..., Lake]:
    """Make lakes on the shared broker and session: lake("name", on_data_loss="record")."""
    from lakehouse.run.lake import Lake

    def make(name: str = "lake", **run: str) -> Lake:
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        return Lake(settings=settings_for(folder, broker.bootstrap_servers, **run))

    return make
