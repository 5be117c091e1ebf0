"""The digest of a function: in every process equal for equal functions, and different for what does something else."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lakehouse.plan.evolution.change import declaration_of
from lakehouse.plan.expression.function import function_digest, value_text
from lakehouse.run.start.application import load_app

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
        self.label = what

    def __call__(self, value: int) -> int:
        return value + self.label


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


def module(folder: Path, text: str, name: str = "functions") -> dict[str, Any]:
    path = folder / "functions.py"
    path.write_text(text)
    result: dict[str, Any] = {"__name__": name}
    exec(compile(text, str(path), "exec", dont_inherit=True), result)
    return result


def test_what_it_uses_of_its_own_file_belongs_to_it(tmp_path: Path) -> None:
    far = "import math\nUNIT = {'km': 1.0}\ndef far(x):\n    return math.sqrt(x) * UNIT['km']\n"
    text = f"{far}def f(x):\n    return far(x)\n"
    actual = function_digest(module(tmp_path, text)["f"])
    assert function_digest(module(tmp_path, text + "\n\nOTHER = 1\n")["f"]) == actual
    assert function_digest(module(tmp_path, text.replace("1.0", "1.6"))["f"]) != actual
    assert function_digest(module(tmp_path, text.replace("sqrt(x)", "sqrt(x + 1)"))["f"]) != actual


# A file with a function f, and what is written for § in it.
CLASS = "class C:\n    def __init__(self, n): self.n = n\n    def by(self, x): return x * self.n\n"
RATES = "from collections import namedtuple\nR = namedtuple('R', 'n')(§)\n"
WRAPPER = (
    "import functools\nclass D:\n    def __init__(self, g):\n        functools.update_wrapper(self, g)\n"
    "        self.g = g\n    def __call__(self, x): return self.g(x)"
)
ENUM = "import enum\nclass C(enum.Enum):\n    A = 1\n    B = 2\n"
PARTIAL = "import functools\nclass C:\n    def rate(self): return §\ndef g(c, x): return c.rate() * x\n"
OTHER_VALUES = {
    "Decimal": ("from decimal import Decimal\nR = Decimal('§')\ndef f(x): return x * R\n", "1.1", "1.2"),
    "pattern": ("import re\nR = re.compile('§')\ndef f(x): return R.sub('', x)\n", "a", "b"),
    "flags": ("import re\nR = re.compile('a', §)\ndef f(x): return R.sub('', x)\n", "0", "re.I"),
    "timedelta": ("from datetime import timedelta\nR = timedelta(§)\ndef f(x): return x + R\n", "1", "2"),
    "zone": ("from zoneinfo import ZoneInfo\nR = ZoneInfo('Europe/§')\ndef f(x): return R\n", "Rome", "Oslo"),
    "object": (CLASS + "R = C(§)\ndef f(x): return R.by(x)\n", "1", "2"),
    "namedtuple": (RATES + "def f(x): return x * R.n\n", "1", "2"),
    "dataclass": ("from dataclasses import dataclass\n@dataclass\nclass C:\n    n: int\nR = C(§)\n"
                  "def f(x): return x * R.n\n", "1", "2"),
    "enum": ("import enum\nclass C(enum.Enum):\n    A = §\ndef f(x): return x * C.A.value\n", "1", "2"),
    "member": ("import enum\nclass C(enum.Enum):\n    A = 1\n    B = 2\nR = C.§\ndef f(x): return R\n", "A", "B"),
    "static": ("class C:\n    @staticmethod\n    def g(x): return x * §\ndef f(x): return C.g(x)\n", "1", "2"),
    "class": ("class C:\n    N = §\ndef f(x): return x * C.N\n", "1", "2"),
    "made": (CLASS.replace("x *", "x §") + "def f(x): return C(1).by(x)\n", "+", "*"),
    "method": (CLASS + "f = C(§).by\n", "1", "2"),
    "helper method": (CLASS + "    def half(self, x): return self.by(x) / §\nf = C(1).half\n", "1", "2"),
    "callable": (CLASS.replace("x *", "x §") + "    __call__ = lambda self, x: self.by(x)\nf = C(1)\n", "+", "*"),
    "slots": ("class C:\n    __slots__ = ('n',)\n    def __init__(self, n): self.n = n\n"
              "    def __call__(self, x): return x * self.n\nf = C(§)\n", "1", "2"),
    "base": ("class B:\n    N = §\nclass C(B):\n    def __call__(self, x): return x * self.N\nf = C()\n", "1", "2"),
    "cache": ("import functools\n@functools.cache\ndef f(x): return x * §\n", "1", "2"),
    "cached helper": ("import functools\n@functools.cache\ndef g(x): return x * §\ndef f(x): return g(x)\n", "1", "2"),
    "partial": ("import functools\ndef g(n, x): return x * n\nh = functools.partial(g, §)\n"
                "def f(x): return h(x)\n", "1", "2"),
    "closure": (CLASS + "def around(c):\n    return lambda x: x * c.n\nf = around(C(§))\n", "1", "2"),
    "import": ("from math import § as g\ndef f(x): return g(x)\n", "floor", "ceil"),
    "getter": ("import operator\nf = operator.itemgetter('§')\n", "a", "b"),
    "attribute": ("def f(x): return x * f.n\nf.n = §\n", "1", "2"),
    "range": ("R = range(§)\ndef f(x): return x in R\n", "1", "2"),
    "read only": ("from types import MappingProxyType as M\nR = M({'a': §})\ndef f(x): return R[x]\n", "1", "2"),
    "arrow": ("import pyarrow as pa\nR = pa.array([0] * 2000 + [§] + [0] * 2000)\ndef f(x): return R\n", "1", "2"),
    "factory": ("import dataclasses\n@dataclasses.dataclass\nclass C:\n"
                "    n: dict = dataclasses.field(default_factory=lambda: {'a': §})\ndef f(x): return x * C().n['a']\n",
                "1", "2"),
    "compared field": ("import dataclasses\n@dataclasses.dataclass\nclass C:\n"
                       "    n: int = dataclasses.field(default=0, compare=§)\ndef f(x): return C(x) == C(1)\n",
                       "True", "False"),
    "ordered": ("import dataclasses\n@dataclasses.dataclass(order=§)\nclass C:\n    n: int = 0\n"
                "def f(x): return C(x) < C(1)\n", "True", "False"),
    "decorator object": (f"{WRAPPER} * §\n@D\ndef f(x): return x\n", "1", "2"),
    "decorated object": (f"{WRAPPER}\n@D\ndef h(x): return x * §\ndef f(x): return h(x)\n", "1", "2"),
    "dispatch": ("import functools\n@functools.singledispatch\ndef g(x): return x * §\ndef f(x): return g(x)\n",
                 "1", "2"),
    "dispatched": ("import functools\n@functools.singledispatch\ndef g(x): return x\n@g.register\n"
                   "def _(x: int): return x * §\ndef f(x): return g(x)\n", "1", "2"),
    "context": ("import contextlib\n@contextlib.contextmanager\ndef g(x): yield x * §\n"
                "def f(x):\n    with g(x) as y: return y\n", "1", "2"),
    "decorator of another file": ("from tests.decorators import repeat\n@repeat(2)\ndef g(x): return x * §\n"
                                  "def f(x): return g(x)\n", "1", "2"),
    "its option": ("from tests.decorators import repeat\n@repeat(§)\ndef g(x): return x\ndef f(x): return g(x)\n",
                   "1", "2"),
    "order of a dict": ("R = {§}\ndef f(x): return next(iter(R))\n", "'a': 1, 'b': 2", "'b': 2, 'a': 1"),
    "list or tuple": ("R = §\ndef f(x): return x.startswith(R)\n", "('a',)", "['a']"),
    "default in an order": ("def f(x, r={§}): return next(iter(r))\n", "'a': 1, 'b': 2", "'b': 2, 'a': 1"),
    "order of fields": ("import dataclasses\nC = dataclasses.make_dataclass('C', '§')\nC.__module__ = __name__\n"
                        "def f(x): return C(x, 1).a\n", "ab", "ba"),
    "order of an enum": ("import enum\nC = enum.Enum('C', {§}, module=__name__)\ndef f(x): return list(C)[0].name\n",
                         "'A': 1, 'B': 2", "'B': 2, 'A': 1"),
    "missing member": (ENUM + "    @classmethod\n    def _missing_(cls, v): return cls.§\ndef f(x): return C(x)\n",
                       "A", "B"),
    "order of members": (ENUM + "    def __lt__(self, o): return self.value § o.value\ndef f(x): return min(C)\n",
                         "<", ">"),
    "private of an enum": (ENUM + "    __n = §\n    def g(self): return self.__n\ndef f(x): return C(x).g()\n",
                           "1", "2"),
    "boundary": ("import enum\nclass C(enum.Flag, boundary=enum.§):\n    A = 1\ndef f(x): return C(x)\n",
                 "KEEP", "CONFORM"),
    "or of flags": ("import enum\nclass C(enum.Flag):\n    A = 1\n    def __or__(self, o): return §\n"
                    "def f(x): return C(x) | C.A\n", "self", "o"),
    "object in a partial": (PARTIAL + "f = functools.partial(g, C())\n", "1", "2"),
    "object in a partial of a helper": (PARTIAL + "h = functools.partial(g, C())\ndef f(x): return h(x)\n", "1", "2"),
    "object in a partial of an import": (PARTIAL + "import operator\nh = functools.partial(operator.add, C())\n"
                                         "def f(x): return h(x)\n", "1", "2"),
    "given class": ("class f:\n    def __new__(cls, a, b): return a § b\n", "+", "-"),
    "class in a partial": ("import functools\nclass C:\n    def __new__(cls, a, b): return a § b\n"
                           "f = functools.partial(C, 1)\n", "+", "-"),
    "class of fields": ("import dataclasses\n@dataclasses.dataclass\nclass f:\n    n: int = §\n", "1", "2"),
    "read only functions": ("from types import MappingProxyType as M\ndef g(x): return x § 1\nR = M({'a': g})\n"
                            "def f(x): return R['a'](x)\n", "+", "-"),
    "two underscores": ("__R = §\ndef f(x): return x * __R\n", "1", "2"),
    "numpy": ("import numpy as np\nR = np.array([0] * 2000 + [§] + [0] * 2000)\ndef f(x): return R\n", "1", "2"),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHER_VALUES)
def test_a_value_of_any_type_belongs_to_the_function_that_uses_it(tmp_path: Path, name: str) -> None:
    text, was, now = OTHER_VALUES[name]
    first, again, changed = (
        function_digest(module(tmp_path, text.replace("§", value) + end)["f"])
        for value, end in [(was, ""), (was, "\n# nothing\n"), (now, "")]
    )
    assert (first == again, first == changed) == (True, False)


NAMED = {
    "logger": "import logging\nlog = logging.getLogger(__name__)\ndef f(x):\n    log.info('so')\n    return x\n",
    "its adapter": "import logging\nlog = logging.LoggerAdapter(logging.getLogger(__name__ + '.a'), {})\n"
                   "def f(x):\n    log.info('so')\n    return x\n",
    "method of a logger": "import logging\nwarn = logging.getLogger(__name__).warning\ndef f(x): return warn(x)\n",
    "pickled name": "class C:\n    def __init__(self, n): pass\n    def __reduce__(self): return C, (__name__,)\n"
                    "R = C(1)\ndef f(x): return R\n",
    "wrapped": "import functools\nfrom tests.decorators import repeat\n@functools.wraps(repeat)\ndef g(x): return x\n"
               "def f(x): return g(x)\n",
}  # fmt: skip


@pytest.mark.parametrize("text", [*NAMED.values(), *(text.replace("§", was) for text, was, _ in OTHER_VALUES.values())])
def test_the_name_of_the_application_s_module_does_not_matter(tmp_path: Path, text: str) -> None:
    names = ("functions", "__main__2", "lakehouse_application_before")
    assert len({function_digest(module(tmp_path, text, name)["f"]) for name in names}) == 1


def test_the_order_in_which_attributes_were_set_does_not_matter(tmp_path: Path) -> None:
    text = "class C: pass\nR = C()\n§\ndef f(x): return R.a - R.b\nf.u = 1\nf.v = 2\n"
    orders = ("R.a = 1\nR.b = 2", "R.b = 2\nR.a = 1")
    one, other = (function_digest(module(tmp_path, text.replace("§", order))["f"]) for order in orders)
    assert one == other


def test_a_decorator_that_counts_its_calls_does_not_change_a_digest(tmp_path: Path) -> None:
    text = "from tests.decorators import repeat\n@repeat(2)\ndef g(x): return x * 3\ndef f(x): return g(x)\n"
    function = module(tmp_path, text)["f"]
    before = function_digest(function)
    assert function(2) == 18
    assert function_digest(function) == before


def test_an_attribute_is_no_value_of_the_file(tmp_path: Path) -> None:
    """A table called total is not used by a function that reads an attribute of that name."""
    text = "total = @\ndef f(x):\n    return x.total\n"
    first, changed = (function_digest(module(tmp_path, text.replace("@", value))["f"]) for value in "12")
    assert first == changed


def test_objects_that_no_process_can_write_down_do_not_change_a_digest(tmp_path: Path) -> None:
    text = "import logging, threading\nL = threading.Lock()\nlog = logging.getLogger('a')\nclass C:\n    me = None\n"
    text += "C.me = C()\nC.me.again = C.me\ndef f(x):\n    with L: log.info('so')\n    return C.me or x\n"
    assert len({function_digest(module(tmp_path, text)["f"]) for _ in range(3)}) == 1


def test_functions_on_one_line_are_told_apart(tmp_path: Path) -> None:
    one, other = module(tmp_path, "pair = (lambda a: a + 1, lambda a: a + 2)\n")["pair"]
    assert function_digest(one) != function_digest(other)
    assert function_digest(one) == function_digest(
        module(tmp_path, "pair = (lambda a: a + 1, lambda a: a + 3)\n")["pair"][0]
    )


PROGRAM = """
import re
from decimal import Decimal
from lakehouse.plan.evolution.change import declaration_of
from lakehouse.plan.expression.function import function_digest, value_text
from lakehouse.run.start.application import load_app
class C:
    def __init__(self): self.names = {'a', 'b', 'c'}; self.rate = Decimal('1.5')
print(value_text([C(), re.compile('a', re.I | re.M)]), function_digest(C().__init__))
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
    assert value_text([1]) != value_text((1,))  # "ab".startswith(("a",)), but not (["a"])
    # A function may return the first entry that fits: only sets have no order.
    assert value_text({"b": 1, "a": 2}) != value_text({"a": 2, "b": 1})


APPLICATION = """
import lakehouse as lh
def fee(total, amount):
    return total + amount * 2
orders = lh.stream("orders", key="id string", schema="city string, amount double")
app = lh.app(orders.group_by("city").agg(s=lh.reduce("amount", fee)).table("totals"))
"""


@pytest.mark.parametrize("edited", [APPLICATION.replace("* 2", "* 3  "), "# so\n" + APPLICATION, "def fee(", ""])
@pytest.mark.parametrize("is_early", [False, True])
def test_a_running_application_says_what_was_loaded(tmp_path: Path, edited: str, is_early: bool) -> None:
    """Its file is edited before its first fingerprint, or after it."""
    file = tmp_path / "app.py"
    file.write_text(APPLICATION)
    loaded = load_app(str(file))
    before = "" if is_early else declaration_of(loaded.table("totals"))
    file.write_text(edited)
    after = declaration_of(loaded.table("totals"))
    assert before in ("", after)
    file.write_text(APPLICATION)
    assert declaration_of(load_app(str(file)).table("totals")) == after
    if "* 3" in edited:
        file.write_text(edited)
        assert declaration_of(load_app(str(file)).table("totals")) != after


def test_the_source_of_a_function_without_an_application_is_read_once(tmp_path: Path) -> None:
    function = module(tmp_path, "def f(x): return x * 2\n")["f"]
    before = function_digest(function)
    changed = module(tmp_path, "def f(x): return x * 3  \n")["f"]
    assert function_digest(function) == before != function_digest(changed)
