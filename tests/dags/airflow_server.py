"""Runs in Airflow's Python, imports Airflow once, and does each command of `airflow_driver.py` in a process of its own.

Importing Airflow costs as much as most commands do. An order is a line of JSON on standard input: {"out", "log": paths,
"command", "argument", "environ"}; the answer, a line too, is the exit code of the process that did it.
"""

import json
import os
import sys
import traceback
from typing import Any, NoReturn

import airflow_driver


def do(order: dict[str, Any]) -> NoReturn:
    """Do an order in this process, which ends with it."""
    log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.environ.update(order["environ"])
    code = 1
    try:
        airflow_driver.do(order["out"], order["command"], order["argument"])
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def main() -> None:
    # What an import prints must not be taken for an answer.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    import airflow.dag_processing.dagbag
    import airflow.sdk
    import airflow.serialization.serialized_objects  # noqa: F401

    for line in sys.stdin:
        if (pid := os.fork()) == 0:
            do(json.loads(line))
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), file=answers, flush=True)


if __name__ == "__main__":
    main()
