"""Bronze that is older than what was made from it: a copy from an earlier time, or one made while a job ran.

Ticks are numbers. Bronze would give the numbers of ticks that its tables have to other records, and each table would
leave those records out, since it has their tick already.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from lakehouse.errors import NotFound, StorageError
from lakehouse.lake import reader
from lakehouse.lake.layout import Layout
from lakehouse.lake.place import TablePlace, bronze_place, intervention_log_place, own_topic_place
from lakehouse.lake.store import folder_names, is_table
from lakehouse.semantics.commit_number import NO_TICK

SHOWN = 5
READERS = 16  # a store answers many questions at once


def refuse_older_bronze(layout: Layout) -> None:
    """Raise StorageError if anything that was made from bronze has a tick that bronze does not have; without Spark.

    A table whose log can't be read is left out: whoever writes it says what is wrong with it.
    """
    made_places, next_places = _places_made_from(layout), _places_written_first(layout)
    with ThreadPoolExecutor(READERS) as readers:
        made_ticks, next_ticks = (list(readers.map(_read_tick, places)) for places in (made_places, next_places))
    # Bronze is read last: its writer, and those of the tables, may go on meanwhile.
    bronze_tick = _read_tick(bronze_place(layout))
    ahead = [(place, tick) for place, tick in zip(made_places, made_ticks, strict=True) if tick > bronze_tick]
    # What is written before bronze's main table is one tick ahead of it when a writer was killed in between.
    ahead += [(place, tick) for place, tick in zip(next_places, next_ticks, strict=True) if tick > bronze_tick + 1]
    if ahead:
        ticks_by_folder = {place.path.removeprefix(f"{layout.root}/"): tick for place, tick in ahead}
        raise older_bronze_error(ticks_by_folder, bronze_tick)


def older_bronze_error(ticks_by_folder: dict[str, int], bronze_tick: int) -> StorageError:
    """Return the error that bronze lacks ticks. ticks_by_folder: the ticks of what is ahead, by its folder."""
    folders = [f"{folder} is at tick {tick}" for folder, tick in list(ticks_by_folder.items())[:SHOWN]]
    more_text = f" and {len(ticks_by_folder) - SHOWN} more" if len(ticks_by_folder) > SHOWN else ""
    return StorageError(
        f"Found bronze at tick {bronze_tick}, while {', '.join(folders)}{more_text}; expected bronze ahead of all that "
        "is made from it. Bronze is an older copy, or the lake was copied while a job ran: what is ahead would leave "
        "out the next records in silence, so nothing was written. Put the whole lake back from one copy that was made "
        "while nothing ran. Or, if only tables and quarantines are ahead, remove silver/NAME, state/NAME, late/NAME "
        "and anchors/NAME of these tables, and quarantine/STREAM with the tables that read the stream: the next run "
        "builds them from bronze."
    )


def _places_made_from(layout: Layout) -> list[TablePlace]:
    """Return the places of the tables, and of the quarantines, that have a tick after bronze's main table has it."""
    return [
        TablePlace(f"{layout.tables}/{layer}/{name}", name if layer == "silver" else f"{layer}.{name}")
        for layer in ("silver", "state", "late", "quarantine")
        for name in folder_names(f"{layout.tables}/{layer}")
    ]


def _places_written_first(layout: Layout) -> list[TablePlace]:
    """Return the places that have a tick just before bronze's main table has it."""
    own_topics = folder_names(f"{layout.root}/bronze/own")
    return [*(own_topic_place(layout, topic) for topic in own_topics), intervention_log_place(layout)]


def _read_tick(place: TablePlace) -> int:
    if not is_table(place.path):
        return NO_TICK
    try:
        return reader.read_progress(reader.open_table(place.path, place.path), place.name).tick
    except (NotFound, StorageError):
        return NO_TICK
