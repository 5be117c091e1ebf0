"""Aggregates that keep many values: one key's records, every value another one, folded as a batch folds them.

    .venv/bin/python benchmarks/many_values.py [--values N ...]

No Spark: it is what one task does for one key. "Each step" also asks what shows after every record, as the changelog
per event does; for COLLECT_SET and HISTOGRAM that is the whole value, each time.
"""

from __future__ import annotations

import argparse
import time

from common import show

from lakehouse.semantics.aggregate.aggregate import Rule
from lakehouse.semantics.aggregate.collection import CollectList, CollectSet, CountDistinct, Histogram
from lakehouse.semantics.operators.cell import Arrival, Cells, KeyOperator, Plain
from lakehouse.semantics.operators.session import Sessions
from lakehouse.semantics.time.window import Session

RULES: dict[str, Rule] = {
    "count_distinct": CountDistinct(), "collect_set": CollectSet(), "collect_list": CollectList(),
    "histogram": Histogram(),
}  # fmt: skip


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--values", type=int, nargs="+", default=[1_000, 4_000, 16_000, 64_000])
    given = arguments.parse_args()
    rows = []
    for name, rule in RULES.items():
        ways: dict[str, KeyOperator] = {"no window": Plain((rule,)), "a session": Sessions((rule,), Session(10, 0))}
        for way, operator in ways.items():
            rows.append([name, way, *(f"{folded(operator, rule, n, each=False):.3f}" for n in given.values)])
    plain = Plain((RULES["count_distinct"],))
    steps = [f"{folded(plain, RULES['count_distinct'], n, each=True):.3f}" for n in given.values]
    rows.append(["count_distinct", "each step", *steps])
    columns = ["aggregate", "of", *(f"{n:,} values" for n in given.values)]
    show("seconds to fold so many different values of one key", columns, rows)


def folded(operator: KeyOperator, rule: Rule, values: int, *, each: bool) -> float:
    """Return the seconds for one key's records: every value another one, one millisecond apart."""
    began = time.monotonic()
    cells = Cells()
    for n in range(values):
        steps, _ = operator.apply(cells, Arrival(n, 0, n, (f"value {n}",)))
        if each and steps[-1].cell is not None:
            rule.result(steps[-1].cell.accumulators[0])
    (cell,) = cells.values()
    assert len(rule.result(cell.accumulators[0]) if not isinstance(rule, CountDistinct) else range(values)) == values
    return time.monotonic() - began


if __name__ == "__main__":
    main()
