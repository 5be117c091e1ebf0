"""The schemas of a registry that are pinned in files beside the application: a plan does not depend on the network.

schemas/orders-value.avsc   the schema of the values of topic orders; `lakehouse schema pull orders` writes it
schemas/orders-key.avsc     that of its keys
schemas/id-7.avsc           the schema with the id 7; `lakehouse schema pull --id 7` writes it
"""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

from lakehouse.errors import PlanError, reason_of_error
from lakehouse.plan.avro.avro_schema import AvroType, RecursiveSchema, UnfitSchema, parse_avro

_PACKAGE = str(Path(__file__).parents[2])
FOLDER = "schemas"


def pinned_file(folder: Path, topic: str, part_name: str) -> Path:
    """Return the file with the schema of a topic's "key" or "value". folder: that of the application's file."""
    return folder / FOLDER / f"{topic}-{part_name}.avsc"


def pinned_id_file(folder: Path, id: int) -> Path:
    """Return the file with the schema that has an id. folder: that of the application's file."""
    return folder / FOLDER / f"id-{id}.avsc"


def read_pinned(
    folder: Path, topic: str, part_name: str, subject: str, *, declaration: str = "", id: int | None = None
) -> AvroType:
    """Return the pinned schema of a topic's "key" or "value". Raises PlanError if there is none, or no valid one.

    declaration: how the columns are declared instead, for the message; empty: as in Python. id: of the schema that is
    meant, instead of the topic's newest one.
    """
    path = pinned_file(folder, topic, part_name) if id is None else pinned_id_file(folder, id)
    declaration = declaration or ("key=..." if part_name == "key" else "schema=...")
    pull = pull_line(folder, topic if id is None else f"--id {id}")
    advice = f"`{pull}` writes it out of the registry; or declare the columns, {declaration}"
    try:
        return parse_avro(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise PlanError(f"{subject}: no column is declared, and there is no file {path}. {advice}") from None
    except OSError as error:
        raise PlanError(f"{subject}: {path}: {reason_of_error(error)}. {advice}") from error
    except RecursiveSchema as error:
        raise PlanError(
            f"{subject}: {path}: {error}. No record of such a schema can be read here, whatever columns are declared; "
            "only its producer can change that."
        ) from error
    except (UnfitSchema, UnicodeDecodeError) as error:
        raise PlanError(f"{subject}: {path}: {error}. {advice}") from error


def pull_line(folder: Path, topic: str) -> str:
    """Return the command line that writes a topic's schemas beside the application's file. folder: that file's.

    topic: or the option that names an id.
    """
    elsewhere = "" if folder.resolve() == Path.cwd() else f" --folder {shlex.quote(os.path.relpath(folder))}"
    return f"lakehouse schema pull {topic}{elsewhere}"


def declaring_folder() -> Path:
    """Return the folder of the file that calls lakehouse; that of the process for a notebook or a text."""
    frame = sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    path = Path(frame.f_code.co_filename)
    return path.resolve().parent if path.is_file() else Path.cwd()
