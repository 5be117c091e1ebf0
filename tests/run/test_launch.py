"""What the JVM writes on stderr comes through, but for one line; without a JVM."""

from __future__ import annotations

import subprocess
import sys

WRITES = r"""
import subprocess, sys
from lakehouse.spark.launch import _FILTERS, _without_java_greeting
line = b"\none\xff\0two\nWARNING: Using incubator modules: x\nthree\n"
with _without_java_greeting():
    subprocess.run([sys.executable, "-c", f"import sys; sys.stderr.buffer.write({line!r})"], check=True)
for one in _FILTERS:
    one.wait()
print("done")
"""


def test_bytes_that_are_no_text_hide_no_line() -> None:
    done = subprocess.run([sys.executable, "-c", WRITES], capture_output=True, check=True)
    assert done.stderr.split(b"\n")[-4:] == [b"", b"one\xff\0two", b"three", b""]
