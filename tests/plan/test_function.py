"""The digest of a function: in every process equal for equal functions, and different for what does something else."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from lakehouse.plan.function import function_digest, value_text

RATE = 2


def helper(value: int) -> int:
    return value * RATE


def plain(value: int) -> int:
    """Twice the value."""
    return helper(value)


def renamed(value: int) -> int:
    # Another name, another comment, no docstring.
    return helper(
        value,
    )


def times(factor: int) -> Callable[[int], int]:
    return lambda value: value * factor


def with_default(value: int, rate: int = 3) -> int:
    return value * rate


def itself(value: int) -> int:
    return value and itself(value - 1)


class Adding:
    """A function that is an object."""

    def __init__(self, what: int) -> None:
        self.what = what

    def __call__(self, value: int) -> int:
        return value + self.what


def test_names_comments_and_formatting_do_not_matter() -> None:
    assert function_digest(plain) == function_digest(renamed)
    assert function_digest(lambda a: a + 1) == function_digest(
        lambda a: (
            a + 1  # one more
        )
    )


def test_what_it_does_matters() -> None:
    every = [
        plain, helper, with_default, itself, times(2), times(3), partial(with_default, rate=4),
        partial(with_default, rate=5), Adding(1), Adding(2), max, min, lambda a: a + 1, lambda a: a + 2,
    ]  # fmt: skip
    assert len({function_digest(function) for function in every}) == len(every)
    assert [function_digest(function) for function in every] == [function_digest(function) for function in every]
    assert function_digest(times(2)) == function_digest(times(2))


def module(folder: Path, text: str) -> dict[str, Any]:
    path = folder / "functions.py"
    path.write_text(text)
    found: dict[str, Any] = {}
    exec(compile(text, str(path), "exec"), found)
    return found


def test_what_it_uses_of_its_own_file_belongs_to_it(tmp_path: Path) -> None:
    far = "import math\nUNIT = {'km': 1.0}\ndef far(x):\n    return math.sqrt(x) * UNIT['km']\n"
    text = f"{far}def f(x):\n    return far(x)\n"
    found = function_digest(module(tmp_path, text)["f"])
    assert function_digest(module(tmp_path, text + "\n\nOTHER = 1\n")["f"]) == found
    assert function_digest(module(tmp_path, text.replace("1.0", "1.6"))["f"]) != found
    assert function_digest(module(tmp_path, text.replace("sqrt(x)", "sqrt(x + 1)"))["f"]) != found


def test_functions_on_one_line_are_told_apart(tmp_path: Path) -> None:
    one, other = module(tmp_path, "pair = (lambda a: a + 1, lambda a: a + 2)\n")["pair"]
    assert function_digest(one) != function_digest(other)
    assert function_digest(one) == function_digest(
        module(tmp_path, "pair = (lambda a: a + 1, lambda a: a + 3)\n")["pair"][0]
    )


PROGRAM = """
from lakehouse.plan.function import function_digest, value_text
f = eval("lambda a: a in {'x', 'y', 'z'} or a == 'it'")
print(function_digest(f), value_text({'a', 'b', 'c'}), value_text([object()]))
"""


def test_it_is_the_same_in_every_process() -> None:
    """Also without source. In every process sets have another order, and objects another address."""
    said = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }  # fmt: skip
    assert len(said) == 1


def test_values_are_told_apart_by_their_kind() -> None:
    assert len({value_text(value) for value in (1, 1.0, True, "1", None, [1], {1: 1}, {1}, b"1")}) == 9
    assert value_text({"b": 1, "a": 2}) == value_text({"a": 2, "b": 1})
