"""Commands on a kept engine: they say and write what they do on their own, whatever is killed."""

from __future__ import annotations

import re
import shutil
import time

import psutil
import pytest

from lakehouse.kafka.broker import Broker
from tests.kept.conftest import Desk, finish, has_ended, send

CAUGHT_UP = ("run", "--until", "caught-up")
OFF = {"LAKEHOUSE_SPARK_KEEP": "off"}
COMMANDS = (
    CAUGHT_UP,
    ("query", "select * from customers order by customer"),
    ("query", "select * from added order by customer"),
    ("past", "explain", "customers", "--key", "c1"),
    ("past", "changes", "latest", "--after", "1"),
    ("past", "checkout", "customers", "then", "--tick", "1"),
    ("past", "rebuild", "added", "--prove"),
    ("repair", "backfill", "customers", "added", "--plan"),
    ("repair", "backfill", "customers", "added", "--why", "a test"),
    ("test", "audit", "latest", "--deep"),
    ("sql", "-e", "SELECT * FROM customers WHERE customer = 'c2';"),
    ("past", "changes", "no_such_table"),
    CAUGHT_UP,
)
# Times differ in each run, and so do names that are drawn.
VARYING = re.compile(r"[\d.,]+ ?(s|seconds)\b|\d{4}-\d\d-\d\dT[\d:.]+Z?|-[0-9a-f]{8}\b")


def all_outputs(desk: Desk, broker: Broker, **variables: str) -> list[tuple[int, str, str]]:
    shutil.rmtree(desk.folder / "lake", ignore_errors=True)
    outputs = []
    for command in COMMANDS:
        done = desk.run(*command, **variables)
        outputs.append((done.returncode, VARYING.sub("~", done.stdout), VARYING.sub("~", done.stderr)))
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
@pytest.mark.timeout(1200)
def test_a_kept_and_a_cold_engine_give_the_same_output(shop: Desk, broker: Broker) -> None:
    send(broker, 0, 400)
    cold = all_outputs(shop, broker, **OFF)
    assert shop.engines() == []
    warm = all_outputs(shop, broker)
    (engine,) = shop.engines()
    warmer = all_outputs(shop, broker)
    assert [engine["pid"]] == [again["pid"] for again in shop.engines()]
    for command, *outputs in zip(COMMANDS, cold, warm, warmer, strict=True):
        assert outputs[1] == outputs[0], command
        assert outputs[2] == outputs[0], command


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("victim", ["client", "java"])
def test_killed_in_the_midst_of_a_write(shop: Desk, broker: Broker, victim: str) -> None:
    """In turn, while bronze, the first and the last table are written."""
    records = 0
    for place in ("bronze/records", "silver/latest", "silver/added"):
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
        if victim == "java" and done.returncode:
            assert "Spark's process has ended" in done.stderr.splitlines()[-1], done.stderr
        assert has_ended(engine["pid"]) if engine else True
        again = shop.run(*CAUGHT_UP)
        assert again.returncode == 0, again.stderr
        check_tables(shop, records)
