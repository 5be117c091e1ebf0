"""Geometry of the demo's map: points along great circles, and a flat map of North America (Albers).

Places are numpy arrays in degrees, north and east positive; map coordinates are in Earth radii.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# The usual constants of a map of the United States: two standard parallels and the centre.
_SOUTH, _NORTH, _MIDDLE, _MERIDIAN = np.radians([29.5, 45.5, 38.0, -96.0])
_CONE = (np.sin(_SOUTH) + np.sin(_NORTH)) / 2
_SCALE = np.cos(_SOUTH) ** 2 + 2 * _CONE * np.sin(_SOUTH)


def project_to_map(latitude: Floats, longitude: Floats) -> tuple[Floats, Floats]:
    """Return the map coordinates x (east) and y (north) of places in degrees."""
    angle = _CONE * (np.radians(longitude) - _MERIDIAN)
    radius = np.sqrt(_SCALE - 2 * _CONE * np.sin(np.radians(latitude))) / _CONE
    middle = np.sqrt(_SCALE - 2 * _CONE * np.sin(_MIDDLE)) / _CONE
    return radius * np.sin(angle), middle - radius * np.cos(angle)


def points_along(start: tuple[float, float], end: tuple[float, float], fractions: Floats) -> tuple[Floats, Floats]:
    """Return latitudes and longitudes at fractions, 0 to 1, of the great circle between two places."""
    start_vector, end_vector = _unit_vector(start), _unit_vector(end)
    arc_angle = np.arccos(np.clip(start_vector @ end_vector, -1.0, 1.0))
    if arc_angle == 0.0:
        return np.full_like(fractions, start[0]), np.full_like(fractions, start[1])
    weights = (
        np.sin(np.outer(1 - fractions, arc_angle)) * start_vector + np.sin(np.outer(fractions, arc_angle)) * end_vector
    )
    x, y, z = (weights / np.sin(arc_angle)).T
    return np.degrees(np.arctan2(z, np.hypot(x, y))), np.degrees(np.arctan2(y, x))


def _unit_vector(place: tuple[float, float]) -> Floats:
    latitude, longitude = np.radians(place)
    return np.array([np.cos(latitude) * np.cos(longitude), np.cos(latitude) * np.sin(longitude), np.sin(latitude)])
