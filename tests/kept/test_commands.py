"""Commands on a kept engine: they say and write what they do on their own, whatever is killed."""

from __future__ import annotations

import re
import shutil
import signal
import time

import psutil
import pytest

from lakehouse.kafka.embedded.broker import Broker
from tests.kept.conftest import Desk, finish, send

CAUGHT_UP = ("run", "--until", "caught-up")
OFF = {"LAKEHOUSE_SPARK_KEEP": "off"}
COMMANDS = (
    CAUGHT_UP,
    ("query", "select * from customers order by customer"),
    ("query", "select * from added order by customer"),
    ("past", "explain", "customers", "--key", "c1"),
    ("past", "changes", "latest", "--per-event", "--from", "1"),
    ("past", "checkout", "customers", "then", "--tick", "1"),
    ("past", "rebuild", "added", "--prove"),
    ("repair", "backfill", "customers", "--plan"),
    ("repair", "backfill", "customers", "--why", "a test"),
    ("test", "audit", "latest", "--deep"),
    ("sql", "-e", "SHOW TABLES;"),
    ("past", "changes", "no_such_table"),
    CAUGHT_UP,
)
# Times differ in each run, and so do names that are drawn. Which phases are said depends on how long each takes.
NO_PHASE = re.compile(r"^(\S+ info    (run:|tick \d|tables at|done:|upkeep of)|\S+ warning|error: )")
VARYING = re.compile(r"[\d.,]+ ?(s|seconds)\b| +\d+\.\d │|\d{4}-\d\d-\d\dT[\d:.]+Z?|-[0-9a-f]{8}\b")


def all_outputs(desk: Desk, **variables: str) -> list[tuple[int, str, str]]:
    shutil.rmtree(desk.folder / "lake", ignore_errors=True)
    outputs = []
    for command in COMMANDS:
        done = desk.run(*command, **variables)
        err = "\n".join(filter(NO_PHASE.match, done.stderr.splitlines()))
        outputs.append((done.returncode, VARYING.sub("~", done.stdout), VARYING.sub("~", err)))
    return outputs


def check_tables(desk: Desk, records: int) -> None:
    answers = [
        desk.run("query", sql, "--csv").stdout.splitlines()[-1]
        for sql in (
            'select count(*), count(distinct ("partition", "offset")) from bronze.kept_orders',
            "select sum(n), sum(amount) from customers",
            "select sum(amount) from added",
        )
    ]
    total = records * (records - 1) // 2
    assert answers == [f"{records},{records}", f"{records},{total}", str(total)]


@pytest.mark.slow
def test_a_kept_and_a_cold_engine_give_the_same_output(shop: Desk, broker: Broker) -> None:
    send(broker, 0, 400)
    cold = all_outputs(shop, **OFF)
    assert shop.engines() == []
    java, _ = shop.ask()
    kept = all_outputs(shop)
    assert [engine["pid"] for engine in shop.engines()] == [java["java"]], "one Java served all of them"
    assert [
        (command, *after) for command, before, after in zip(COMMANDS, cold, kept, strict=True) if after != before
    ] == []
    assert [code for code, *_ in kept] == [2 if command[-1] == "no_such_table" else 0 for command in COMMANDS]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("victim", "places"),
    [("client", ("bronze/records", "silver/latest", "silver/added")), ("java", ("silver/latest",))],
)
def test_killed_in_the_midst_of_a_write(shop: Desk, broker: Broker, victim: str, places: tuple[str, ...]) -> None:
    """The next command finds nothing of it but what was committed."""
    records = 0
    for place in places:
        send(broker, records, records + 3_000)
        records += 3_000
        files = set((shop.folder / "lake").glob(f"{place}/**/*.parquet"))
        command = shop.start(*CAUGHT_UP)
        while set((shop.folder / "lake").glob(f"{place}/**/*.parquet")) == files:
            assert command.poll() is None
            time.sleep(0.002)
        (engine,) = shop.engines() if victim == "java" else ({},)
        (command if victim == "client" else psutil.Process(engine["pid"])).kill()
        done = finish(command)
        if victim == "java" and done.returncode:  # else it was done by then
            assert "error: Spark's process has ended" in done.stderr
        again = shop.run(*CAUGHT_UP)
        assert again.returncode == 0, again.stderr
        check_tables(shop, records)


@pytest.mark.slow
def test_a_run_without_an_end_has_its_own(shop: Desk, broker: Broker) -> None:
    send(broker, 0, 10)
    command = shop.start("run")
    while not any((shop.folder / "lake/silver/customers").glob("*.parquet")):
        assert command.poll() is None
        time.sleep(0.1)
    assert shop.engines() == []
    command.send_signal(signal.SIGTERM)
    assert finish(command).returncode == 0
