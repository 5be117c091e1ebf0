"""Standard streams that were closed before the process began."""

from __future__ import annotations

import os
import sys


def open_missing_streams() -> None:
    """Open /dev/null in place of a closed standard stream, as by `>&-`.

    Python has None for it. The number of the stream is taken, too, here and in processes that this one starts, so that
    no file gets it, and with it output.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is not None:
            continue
        null_number = os.open(os.devnull, os.O_RDWR)
        os.set_inheritable(null_number, True)
        try:
            os.fstat(number)
        except OSError:
            os.dup2(null_number, number)
        setattr(sys, name, os.fdopen(null_number, "r" if name == "stdin" else "w"))
