"""The demo's pictures: who is drawn and where, and the kind of file that is written."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from examples.year_of_flights.airmap import points_along, project_to_map
from examples.year_of_flights.picture import DrawnPlanes, planes_in_the_air

NOON = datetime(2013, 6, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def test_planes_that_are_up_are_drawn_and_others_counted(tmp_path: Path) -> None:
    def plane(took_off_at: datetime, **rest: object) -> dict[str, object]:
        return {"tailnum": "N1", "origin": "JFK", "dest": "SFO", "took_off_at": took_off_at, **rest}

    rows = [
        plane(NOON - HOUR, lands_at=NOON + HOUR),
        plane(NOON - HOUR, lands_at="2013-06-01T12:01:00Z"),
        plane(NOON, air_time=300.0),  # at this very moment
        plane(NOON - HOUR, lands_at=None, distance=2586),  # no landing on record: estimated
        plane(NOON - HOUR, lands_at=NOON),  # landed at this very moment
        plane(NOON + HOUR, air_time=300.0),  # not yet up
        plane(NOON - 240 * HOUR, lands_at=None, distance=2586),  # diverted ten days ago
    ]
    out = tmp_path / "air.png"
    assert planes_in_the_air(NOON, rows, out) == DrawnPlanes(placed=4, left_out=3)
    assert out.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("dest", ["HNL", "ANC", "SJU", "BOS"])
def test_far_places_and_none_at_all(tmp_path: Path, dest: str) -> None:
    row = {"origin": "EWR", "dest": dest, "took_off_at": "2013-06-01T11:50:00Z", "air_time": 40}
    assert planes_in_the_air(NOON, [row], tmp_path / "one.png") == DrawnPlanes(1, 0)
    assert planes_in_the_air(NOON, [], tmp_path / "none.png") == DrawnPlanes(0, 0)


def test_svg_is_text_with_the_count_and_the_same_bytes_again(tmp_path: Path) -> None:
    row = {"origin": "LGA", "dest": "ORD", "took_off_at": NOON - HOUR, "air_time": 110}
    for name in ("one.svg", "two.svg"):
        planes_in_the_air(NOON, [row], tmp_path / name)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
    assert "<svg" in (tmp_path / "one.svg").read_text()


def test_great_circle_ends_and_middle() -> None:
    #   (0, 0) --------- (0, 90)      along the equator; and over the pole from one side to the other
    latitudes, longitudes = points_along((0.0, 0.0), (0.0, 90.0), np.array([0.0, 0.5, 1.0]))
    np.testing.assert_allclose(latitudes, 0, atol=1e-9)
    np.testing.assert_allclose(longitudes, [0, 45, 90])
    latitudes, _ = points_along((60.0, 0.0), (60.0, 179.999), np.array([0.5]))
    assert latitudes[0] > 89.9
    assert points_along((1.0, 2.0), (1.0, 2.0), np.array([0.5])) == (np.array([1.0]), np.array([2.0]))


def test_the_map_has_north_up_and_keeps_areas() -> None:
    x, y = project_to_map(np.array([38.0, 48.0, 38.0]), np.array([-96.0, -96.0, -86.0]))
    assert (abs(x[0]) < 1e-9, abs(y[0]) < 1e-9, abs(x[1]) < 1e-9) == (True, True, True)
    assert y[1] > y[0]
    assert x[2] > x[0]

    def area(south: float, north: float) -> float:
        """Of a cell ten degrees wide, on the map."""
        edge = np.linspace(-100.0, -90.0, 400)
        low, high = project_to_map(np.full(400, south), edge), project_to_map(np.full(400, north), edge)
        xs = np.concatenate([low[0], high[0][::-1]])
        ys = np.concatenate([low[1], high[1][::-1]])
        return float(abs(np.dot(xs, np.roll(ys, 1)) - np.dot(ys, np.roll(xs, 1))) / 2)

    def on_the_globe(south: float, north: float) -> float:
        return float(np.radians(10) * (np.sin(np.radians(north)) - np.sin(np.radians(south))))

    assert area(20, 30) == pytest.approx(on_the_globe(20, 30), rel=1e-3)
    assert area(50, 60) == pytest.approx(on_the_globe(50, 60), rel=1e-3)
