"""Whatever text comes in, it is taken or refused by an error of lakehouse's own, without a trace, and soon.

python -m tests.fuzz.test_inputs 100000 [SEED]     that many texts for each input, and not only some
"""

from __future__ import annotations

import contextlib
import sys
import time
import traceback
from random import Random

import pytest

from lakehouse.errors import LakehouseError
from tests import seeds
from tests.fuzz.inputs import INPUTS, Input
from tests.fuzz.texts import draw_bytes, draw_text

TEXTS = 30
SECONDS_MAX = 5.0


def problem_of(item: Input, text: object) -> str | None:
    """Return what is wrong with how an input takes a text; None for nothing."""
    began = time.monotonic()
    try:
        item.take(text)
    except LakehouseError as error:
        if "Traceback" in str(error) or not str(error).strip():
            return f"an error that says nothing, or shows a trace: {error!r}"
    except RecursionError:
        return "RecursionError"
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__}: {error} at {place.filename}:{place.lineno}"
    seconds = time.monotonic() - began
    return f"took {seconds:.1f} s" if seconds > SECONDS_MAX else None


def draw(item: Input, seed: int) -> object:
    dice = Random(f"{item.name} {seed}")
    return draw_bytes(dice, item.examples) if item.takes_bytes else draw_text(dice, item.examples)


@pytest.mark.parametrize("item", INPUTS, ids=lambda item: item.name)
def test_any_text_is_taken_or_refused(item: Input, capfd: pytest.CaptureFixture[str]) -> None:
    """Also nothing is written on the way: a library that logs what it can't read would show a user its own words."""
    first_seed = seeds.draw()
    problems = [
        f"{problem}: seed {seed}, {text!r}"
        for seed in range(first_seed, first_seed + TEXTS)
        if (problem := problem_of(item, text := draw(item, seed)))
    ]
    assert problems == []
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("item", INPUTS, ids=lambda item: item.name)
def test_some_examples_are_valid(item: Input) -> None:
    """An input that refuses all would be no test."""
    taken = 0
    for example in item.examples:
        with contextlib.suppress(LakehouseError):
            item.take(example)
            taken += 1
    assert taken


def run(texts: int, first_seed: int) -> int:
    """Draw that many texts for each input; print each kind of problem once, and return their number."""
    kinds: dict[str, str] = {}
    for item in INPUTS:
        began = time.monotonic()
        for seed in range(first_seed, first_seed + texts):
            text = draw(item, seed)
            problem = problem_of(item, text)
            if problem is not None:
                kinds.setdefault(f"{item.name}: {problem.partition(':')[0]} {problem.rpartition(' at ')[2]}",
                                 f"{problem}: seed {seed}, {text!r}"[:1_000])  # fmt: skip
        print(f"{item.name}: {texts:,} texts in {time.monotonic() - began:.0f} s", flush=True)
    for kind, example in kinds.items():
        print(f"\n{kind}\n  {example}")
    return len(kinds)


if __name__ == "__main__":
    sys.exit(min(1, run(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else seeds.draw())))
