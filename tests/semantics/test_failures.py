"""Functions of users that fail on records: how often, and the error of the first one."""

from __future__ import annotations

from lakehouse.semantics.aggregate.custom import Custom, Reduce
from lakehouse.semantics.failures import ERROR_LENGTH_MAX, FunctionFailures, Tally, error_text, merge_failures


def test_a_record_counts_once_and_the_first_error_is_kept() -> None:
    # 8 / 2 / 0 / 0, where each record is in two windows
    tally = Tally()
    rule = Reduce(lambda a, b: a / b).with_listener(tally)
    for position, value in enumerate((8, 2, 0, 0)):
        for _ in range(2):
            rule.add(8, value, None)
        tally.after(position)
    assert tally.take_tally() == (2, (2, "ZeroDivisionError: division by zero"))
    assert tally.take_tally() == (0, None)


def test_a_result_that_raises_counts_for_its_row() -> None:
    tally = Tally()
    rule = Custom(0, lambda a, b: a + b, lambda a: 1 // a).with_listener(tally)
    assert rule.result(0) is None
    tally.after("here")
    assert tally.take_tally()[0] == 1


def test_an_error_is_one_short_line_of_valid_text_whatever_it_says() -> None:
    class Worst(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert error_text(ValueError("a\nb\tc")) == "ValueError: a b c"
    assert error_text(ValueError("\ud800")) == "ValueError: \\ud800"
    assert len(error_text(ValueError("x" * 1000))) == ERROR_LENGTH_MAX
    assert error_text(Worst()) == "Worst"


def test_sums_keep_the_first_record_of_the_earlier_batch() -> None:
    before = (FunctionFailures("map b", 2, "t/0/1", "E: 1"),)
    new = (FunctionFailures("map b", 1, "t/0/9", "E: 9"), FunctionFailures("map a", 4, "t/0/8", "E: 8"))
    sums = merge_failures(before, new)
    assert sums == (FunctionFailures("map a", 4, "t/0/8", "E: 8"), FunctionFailures("map b", 3, "t/0/1", "E: 1"))
