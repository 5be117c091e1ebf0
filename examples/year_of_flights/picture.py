"""The demo's two pictures: the planes in the air at a moment, and the delays of a day at the airports.

Both take plain rows (dictionaries), which can come from a table at any version or moment.
Times in rows are ``datetime`` with a time zone, or ISO-8601 text; origins are EWR, JFK and LGA. The file's
ending says the format: .png, .svg or .pdf.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.markers import MarkerStyle
from matplotlib.path import Path as Outline
from matplotlib.patheffects import withStroke
from matplotlib.transforms import Affine2D

from . import source
from .airmap import points_along, project_to_map

Row = Mapping[str, Any]

_NEW_YORK = ZoneInfo("America/New_York")
_COLOURS = {"EWR": "#0072b2", "JFK": "#d55e00", "LGA": "#00845f"}  # distinguishable for the colour-blind, too
_NAMES = {"EWR": "Newark", "JFK": "JFK", "LGA": "LaGuardia"}
_INK, _SOFT, _FAINT, _SEA = "#1f2933", "#616e7c", "#cbd2d9", "#f7f9fb"

# Fractions of a figure's width; inches above and below the drawing.
_LEFT, _WIDTH = 0.06, 0.9
_ABOVE, _BELOW = 1.15, 0.75

# A plane seen from above, nose to the east, about two units long.
_PLANE = Outline(
    [
        (1.0, 0.0), (0.8, 0.12), (0.25, 0.14), (-0.25, 0.95), (-0.48, 0.95), (-0.2, 0.14), (-0.65, 0.12),
        (-0.9, 0.4), (-1.05, 0.4), (-0.9, 0.0), (-1.05, -0.4), (-0.9, -0.4), (-0.65, -0.12), (-0.2, -0.14),
        (-0.48, -0.95), (-0.25, -0.95), (0.25, -0.14), (0.8, -0.12), (1.0, 0.0),
    ],
    closed=True,
)  # fmt: skip

# For a flight with an unknown landing: 420 miles an hour all the way, and a quarter of an hour more.
_MINUTES_PER_MILE = 60 / 420
_MINUTES_MORE = 15


@dataclass(frozen=True, slots=True)
class DrawnPlanes:
    """The rows of a picture: how many it shows, and how many it leaves out because they are of another time."""

    placed: int
    left_out: int


def planes_in_the_air(moment: datetime, rows: Iterable[Row], picture_path: Path) -> DrawnPlanes:
    """Draw the planes in the air at a moment, each at its place on the great circle to its destination.

    A row has origin, dest and took_off_at; the landing is lands_at, or from air_time (minutes), or else estimated
    from distance (miles). A row that takes off after ``moment`` or is down by then is left out, and counted.
    Raises KeyError for an airport that is not in the data.
    """
    airports = source.read_airports()
    shares_flown = [(row, _share_flown(row, moment)) for row in rows]
    flying_rows = [(row, share) for row, share in shares_flown if share is not None]
    destinations = [row["dest"] for row, _ in flying_rows]
    (west, east), (south, north) = map_limits = _map_limits(airports, destinations)
    figure, axes = _make_figure(13.0, 13.0 * _WIDTH * (north - south) / (east - west))
    axes.set_axis_off()
    axes.set_xlim(*map_limits[0])
    axes.set_ylim(*map_limits[1])
    _draw_ground(axes, airports)
    for row, share in flying_rows:
        start_airport, end_airport = airports[row["origin"]], airports[row["dest"]]
        _draw_flight(
            axes,
            (start_airport.latitude, start_airport.longitude),
            (end_airport.latitude, end_airport.longitude),
            share,
            _COLOURS[row["origin"]],
        )
    _draw_airports(axes, airports, destinations)
    local_time = moment.astimezone(_NEW_YORK)
    plane_noun = "plane" if len(flying_rows) == 1 else "planes"
    _draw_title(
        figure,
        f"{len(flying_rows):,} {plane_noun} from New York in the air",
        f"{_format_day(moment.astimezone(UTC))}, {moment.astimezone(UTC):%H:%M} UTC  ·  {local_time:%H:%M} in New York",
    )
    counts_by_airport = {code: sum(row["origin"] == code for row, _ in flying_rows) for code in _COLOURS}
    _draw_legend(figure, {code: f"from {_NAMES[code]} ({counts_by_airport[code]})" for code in _COLOURS})
    left_out = len(shares_flown) - len(flying_rows)
    note_text = (
        "Places are estimates: constant speed along the great circle. Small dots: airfields of the United States."
    )
    if left_out:
        note_text += f" Not drawn: {left_out:,} not in the air then, or overdue with no landing on record."
    figure.text(_LEFT, 0.3 / figure.get_figheight(), note_text, fontsize=9, color=_SOFT)
    _save_figure(figure, picture_path)
    return DrawnPlanes(len(flying_rows), left_out)


def _share_flown(row: Row, moment: datetime) -> float | None:
    """Return the share of its way that a plane has flown, 0 to 1; None if it is not in the air."""
    took_off = _parse_time(row["took_off_at"])
    if row.get("lands_at") is not None:
        flight_time = _parse_time(row["lands_at"]) - took_off
    elif row.get("air_time") is not None:
        flight_time = timedelta(minutes=float(row["air_time"]))
    else:
        flight_time = timedelta(minutes=float(row["distance"]) * _MINUTES_PER_MILE + _MINUTES_MORE)
    return (moment - took_off) / flight_time if took_off <= moment < took_off + flight_time else None


def _parse_time(cell: datetime | str) -> datetime:
    return datetime.fromisoformat(cell) if isinstance(cell, str) else cell


def _map_limits(
    airports: Mapping[str, source.Airport], destinations: list[str]
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return the map's limits, x and y: lower states and Caribbean; Alaska, Hawaii when a plane goes there."""
    corners = [(24.0, -119.0), (49.5, -123.0), (48.0, -66.5), (17.0, -64.0)]
    corners += [(airports[code].latitude, airports[code].longitude) for code in destinations]
    x, y = project_to_map(*np.array(corners).T)
    return (x.min() - 0.03, x.max() + 0.03), (y.min() - 0.03, y.max() + 0.03)


def _draw_ground(axes: Axes, airports: Mapping[str, source.Airport]) -> None:
    """Draw a light graticule, and every airfield as a faint dot: together they show the country."""
    for latitude in range(15, 71, 5):
        axes.plot(*project_to_map(np.full(81, float(latitude)), np.linspace(-170.0, -50.0, 81)), color=_FAINT, lw=0.4)
    for longitude in range(-170, -49, 10):
        axes.plot(*project_to_map(np.linspace(15.0, 70.0, 56), np.full(56, float(longitude))), color=_FAINT, lw=0.4)
    airfield_places = np.array([(airport.latitude, airport.longitude) for airport in airports.values()])
    nearby_places = airfield_places[(airfield_places[:, 0] > 10) & (airfield_places[:, 1] < -50)]
    axes.scatter(
        *project_to_map(nearby_places[:, 0], nearby_places[:, 1]), s=5, color="#b8c4cf", linewidths=0, zorder=2
    )


def _draw_flight(
    axes: Axes, start_place: tuple[float, float], end_place: tuple[float, float], share: float, colour: str
) -> None:
    """Draw the flown way as a line, the rest as a fainter line, and the plane between them, nose ahead."""
    flown_way = project_to_map(*points_along(start_place, end_place, np.linspace(0.0, share, 40)))
    way_ahead = project_to_map(*points_along(start_place, end_place, np.linspace(share, 1.0, 40)))
    axes.plot(*flown_way, color=colour, lw=0.9, alpha=0.45, zorder=3)
    axes.plot(*way_ahead, color=colour, lw=0.5, alpha=0.18, zorder=3)
    heading = Affine2D().rotate(np.arctan2(way_ahead[1][1] - way_ahead[1][0], way_ahead[0][1] - way_ahead[0][0]))
    marker = MarkerStyle(_PLANE, transform=heading)
    axes.plot(
        way_ahead[0][0],
        way_ahead[1][0],
        marker=marker,
        ms=10,
        color=colour,
        mec="white",
        mew=0.5,
        ls="none",
        zorder=6,
    )


def _draw_airports(axes: Axes, airports: Mapping[str, source.Airport], destinations: list[str]) -> None:
    """Draw a dot for every destination, with its code for the most frequent ones; New York as a ring."""
    codes = sorted(set(destinations), key=lambda code: (-destinations.count(code), code))
    labelled_places: list[tuple[float, float]] = []
    for code in codes:
        x, y = (float(axis[0]) for axis in _map_place(airports[code]))
        axes.plot(x, y, "o", ms=4, color=_INK, mec="white", mew=0.7, zorder=4)
        # Leave out a label that would overlap another one; the busier airport came first.
        if all(abs(x - other_x) > 0.045 or abs(y - other_y) > 0.02 for other_x, other_y in labelled_places):
            labelled_places.append((x, y))
            _draw_label(axes, code, (x, y), (4, -10), 8.5)
    x, y = (float(axis[0]) for axis in _map_place(airports["JFK"]))
    axes.plot(x, y, "o", ms=13, mfc="none", mec=_INK, mew=1.4, zorder=7)
    _draw_label(axes, "New York", (x, y), (11, -4), 12)


def _draw_label(axes: Axes, text: str, place: tuple[float, float], offset: tuple[int, int], size: float) -> None:
    """Write text beside a place, in points; a rim in the ground's colour keeps it legible over lines."""
    label = axes.annotate(text, place, offset, textcoords="offset points", fontsize=size, color=_INK, zorder=8)
    label.set_path_effects([withStroke(linewidth=2.2, foreground=_SEA)])


def _map_place(airport: source.Airport) -> tuple[Any, Any]:
    return project_to_map(np.array([airport.latitude]), np.array([airport.longitude]))


def _make_figure(width: float, height: float) -> tuple[Figure, Axes]:
    """Return a figure in inches: room for the title, axes of the given height, room for the part below them."""
    whole_height = height + _ABOVE + _BELOW
    figure = Figure((width, whole_height), dpi=130, facecolor=_SEA)
    FigureCanvasAgg(figure)
    axes = figure.add_axes((_LEFT, _BELOW / whole_height, _WIDTH, height / whole_height))
    axes.set_facecolor(_SEA)
    return figure, axes


def _draw_title(figure: Figure, headline: str, subtitle: str) -> None:
    whole_height = figure.get_figheight()
    figure.text(_LEFT, 1 - 0.45 / whole_height, headline, fontsize=20, weight="bold", color=_INK, va="center")
    figure.text(_LEFT, 1 - 0.85 / whole_height, subtitle, fontsize=12, color=_SOFT, va="center")


def _draw_legend(figure: Figure, labels: Mapping[str, str]) -> None:
    colour_dots = [
        Line2D([], [], marker="o", ls="none", ms=7, color=_COLOURS[code], label=labels[code]) for code in labels
    ]
    corner = (_LEFT + _WIDTH, 1 - 0.85 / figure.get_figheight())
    figure.legend(
        handles=colour_dots,
        loc="center right",
        bbox_to_anchor=corner,
        ncols=3,
        frameon=False,
        labelcolor=_INK,
        fontsize=11,
    )


def _format_day(day: date) -> str:
    return f"{day:%A} {day.day} {day:%B %Y}"


def _save_figure(figure: Figure, picture_path: Path) -> None:
    with mpl.rc_context({"svg.hashsalt": "lakehouse"}):  # the same rows give the same bytes
        figure.savefig(picture_path, metadata={"Date": None} if picture_path.suffix == ".svg" else None)
