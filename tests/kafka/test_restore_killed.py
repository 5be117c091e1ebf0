"""A restore that is killed (SIGKILL) at any of its steps, and started again: it goes on as a lake that never stopped.

Each process finds what the one before it left.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .restoring import TABLES
from .sending import check_published
from .waiting import Sent, published, topic_of

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
# MANY has a state: two Delta tables; then the table behind a join of streams. An N-th call is that of one process.
RESTORES = (
    "filled:before:1", "files:state/many:1", "filled:after:1", "files:silver/many:1", "restored:after:1",
    "files:silver/outer:1",
)  # fmt: skip
RUNS = ("bronze:before:1", "bronze:after:1", "merge:before:2", "part:after:1", "transaction:before:2")


@pytest.fixture
def killed(broker: Any, tmp_path: Path) -> Any:
    """killed(lake, point): run a process that ends itself at the point, and see that it did."""

    def run(lake: Any, point: str) -> None:
        line = [sys.executable, "-m", "tests.kafka.restoring", lake.settings.lake.path, broker.bootstrap_servers, point]
        environ = {**os.environ, "PYTHONPATH": str(ROOT)}
        ended = subprocess.run(line, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=300, check=False)
        assert ended.returncode == -signal.SIGKILL, f"{point}: {ended.stderr[-3000:]}"

    return run


def test_a_restore_killed_at_every_step_goes_on_when_it_is_started_again(lake, cluster, send, records, killed) -> None:
    """After the kills a third lake is restored from what the killed one published."""
    app, sent = published(*TABLES), Sent(cluster, send)
    sent.more(30)
    lake("a").run(app, until="caught_up")
    one = lake("b")
    for point in RESTORES:
        killed(one, point)
    sent.more(20)
    for point in RUNS:
        killed(one, point)
    one.run(app, until="caught_up")
    sent.check(one, app)
    one = lake("c")
    for table in TABLES:
        one.restore(table, topic_of(table))
    sent.more(20)
    one.run(app, until="caught_up")
    sent.check(one, app)
    check_published(app, TABLES[1], sent.records, records(topic_of(TABLES[1])))
