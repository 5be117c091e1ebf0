"""The characters that Java, Spark and JSON ignore around a text, and the pattern that lies between two characters."""

from __future__ import annotations

JAVA_BLANKS = "".join(map(chr, range(33)))  # String.trim(): the controls and the blank
SPARK_BLANKS = JAVA_BLANKS + "\x7f"  # UTF8String.trimAll(): where Spark reads integers, dates and timestamps itself
JSON_BLANKS = " \t\r\n"  # RFC 8259, section 2
BETWEEN_CHARACTERS = "(?s)(?<=.)(?=.)"  # a pattern: a text split by it gives its characters
