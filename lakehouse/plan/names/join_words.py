"""The words for how streams and tables are joined."""

from __future__ import annotations

from typing import Literal

How = Literal["inner", "left"]
HOW = ("inner", "left")
HowJoined = Literal["inner", "left", "right", "outer"]  # of two streams or two tables
HOW_JOINED = ("inner", "left", "right", "outer")
AsOf = Literal["arrival", "event time"]
AS_OF = ("arrival", "event time")
