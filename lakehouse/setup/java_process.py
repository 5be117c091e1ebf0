"""The locale of the processes of Java: they name files in its encoding, which is ASCII for LC_ALL=C."""

from __future__ import annotations

import codecs
import locale
import os
import subprocess
from contextlib import suppress

UTF_8_LOCALE = {"LC_ALL": "C.UTF-8"}


def java_variables() -> dict[str, str]:
    """Return further variables for a Java, so that it names files in UTF-8; Python does so in each of these locales."""
    with suppress(LookupError):
        if codecs.lookup(locale.getencoding()).name == "utf-8":
            return {}
    return UTF_8_LOCALE


def file_name_encoding(java_path: str) -> str:
    """Return the encoding in which a Java with these variables names files; empty if it does not say."""
    process = subprocess.run(
        [java_path, "-XshowSettings:properties", "-version"], capture_output=True, text=True, errors="replace",
        check=False, env={**os.environ, **java_variables()},
    )  # fmt: skip
    names_and_values = (line.partition(" = ") for line in process.stderr.splitlines())
    return next((value.strip() for name, _, value in names_and_values if name.strip() == "sun.jnu.encoding"), "")
