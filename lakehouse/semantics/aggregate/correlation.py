"""CORRELATION: how closely two columns of a group's records follow one line, from -1 to 1 (Pearson's coefficient)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

TYPE = "struct<n: bigint, x: double, y: double, xx: double, yy: double, xy: double>"


@dataclass(frozen=True, slots=True)
class Correlation:
    """CORRELATION(x, y), over structs {"x": ..., "y": ...}; those with a null are skipped.

    Over fewer than two records, or if one of the columns has only one value, it is NaN, as in ksqlDB. The accumulator
    has the means and the sums of squared distances from them, as in `Deviation`: sums of squares would lose digits.
    """

    def empty_accumulator(self) -> dict[str, Any]:
        return {"n": 0, "x": 0.0, "y": 0.0, "xx": 0.0, "yy": 0.0, "xy": 0.0}

    def add(self, accumulator: dict[str, Any], value: dict[str, Any] | None, record_position: object) -> dict[str, Any]:
        if value is None or value["x"] is None or value["y"] is None:
            return accumulator
        new_point = {"n": 1, "x": float(value["x"]), "y": float(value["y"]), "xx": 0.0, "yy": 0.0, "xy": 0.0}
        return self.merge(accumulator, new_point)

    def merge(self, earlier: dict[str, Any], later: dict[str, Any]) -> dict[str, Any]:
        if not (earlier["n"] and later["n"]):
            return later if later["n"] else earlier
        total_count = earlier["n"] + later["n"]
        x_distance, y_distance = (later[name] - earlier[name] for name in ("x", "y"))
        weight = earlier["n"] * later["n"] / total_count
        new_means = {
            name: earlier[name] + distance * later["n"] / total_count
            for name, distance in (("x", x_distance), ("y", y_distance))
        }
        square_distances = (
            ("xx", x_distance * x_distance),
            ("yy", y_distance * y_distance),
            ("xy", x_distance * y_distance),
        )
        return {
            "n": total_count,
            **new_means,
            **{name: earlier[name] + later[name] + distance * weight for name, distance in square_distances},
        }

    def result(self, accumulator: dict[str, Any]) -> float:
        scale = math.sqrt(accumulator["xx"]) * math.sqrt(accumulator["yy"])
        return accumulator["xy"] / scale if scale else math.nan
