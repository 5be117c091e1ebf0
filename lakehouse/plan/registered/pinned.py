"""The schemas of a registry that are pinned in files beside the application: a plan does not depend on the network.

schemas/orders-value.avsc   the schema of the values of topic orders; `lakehouse schema pull orders` writes it
schemas/orders-key.avsc     that of its keys
schemas/orders-value.proto  the same in Protobuf: a text, or a compiled file in base64, as the
                            registry has it; without a registry (PROTOBUF_NOSR), as somebody has written it
schemas/orders-value/       the files that it imports, under the names by which it does so
schemas/id-7.avsc           the schema with the id 7; `lakehouse schema pull --id 7` writes it
"""

from __future__ import annotations

import base64
import os
import shlex
import sys
from pathlib import Path

from lakehouse.errors import PlanError, reason_of_error
from lakehouse.plan.avro.avro_schema import REGISTRY_KIND, AvroType
from lakehouse.plan.names.record_format import RecordFormat, parse_format
from lakehouse.plan.names.schema_options import SchemaOptions
from lakehouse.plan.protobuf.proto_schema import PROTOBUF_KIND
from lakehouse.plan.refused.unfit_schema import RecursiveSchema, UnfitSchema
from lakehouse.plan.registered.writer_schema import WriterSchema

_PACKAGE = str(Path(__file__).parents[2])
FOLDER = "schemas"
SUFFIXES = {REGISTRY_KIND: ".avsc", PROTOBUF_KIND: ".proto"}  # by the kinds of schemas


def pinned_file(folder: Path, topic: str, part_name: str, kind: str = REGISTRY_KIND) -> Path:
    """Return the file with the schema of a topic's "key" or "value". folder: that of the application's file."""
    return folder / FOLDER / f"{topic}-{part_name}{SUFFIXES.get(kind, SUFFIXES[REGISTRY_KIND])}"


def pinned_id_file(folder: Path, id: int, kind: str = REGISTRY_KIND) -> Path:
    """Return the file with the schema that has an id. folder: that of the application's file."""
    return folder / FOLDER / f"id-{id}{SUFFIXES.get(kind, SUFFIXES[REGISTRY_KIND])}"


def imported_folder(file: Path) -> Path:
    """Return the folder of the files that a schema in a file imports."""
    return file.with_name(file.name.removesuffix(file.suffix))


def read_schema_file(file: Path) -> WriterSchema:
    """Return the schema in a file, whose name tells its kind. Raises OSError, UnicodeDecodeError."""
    kind = next((kind for kind, suffix in SUFFIXES.items() if suffix == file.suffix), REGISTRY_KIND)
    folder = imported_folder(file)
    imported = sorted(filter(Path.is_file, folder.rglob("*"))) if kind == PROTOBUF_KIND else []
    return WriterSchema(
        kind,
        file.read_text(encoding="utf-8"),
        tuple(path.read_text(encoding="utf-8") for path in imported),
        tuple(path.relative_to(folder).as_posix() for path in imported),
    )


def read_pinned(
    folder: Path,
    topic: str,
    part_name: str,
    kind: str,
    subject: str,
    *,
    declaration: str = "",
    id: int | None = None,
) -> AvroType:
    """Return the type of the pinned schema of a topic's "key" or "value", as Avro writes types.

    kind: of the schema. declaration: how the columns are declared instead, for the message; empty: as in Python. id: of
    the schema that is meant, instead of the topic's newest one. Raises PlanError if there is none, or no valid one.
    """
    path = pinned_file(folder, topic, part_name, kind) if id is None else pinned_id_file(folder, id, kind)
    declaration = declaration or ("key=..." if part_name == "key" else "schema=...")
    pull = pull_line(folder, topic if id is None else f"--id {id}")
    advice = f"`{pull}` writes it out of the registry; or declare the columns, {declaration}"
    try:
        return read_schema_file(path).row_type
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


def with_own_schema(format: str, folder: Path, topic: str, part_name: str, subject: str) -> str:
    """Return a format of a topic's "key" or "value" with the schema of its messages, if these have no id and need one.

    Without a file it is returned as it is. Raises PlanError for a file without a schema that can be read.
    """
    if not parse_format(format).traits.has_own_schema:
        return format
    path = pinned_file(folder, topic, part_name, PROTOBUF_KIND)
    try:
        schema = read_schema_file(path).proto_schema
        schema.message()
    except FileNotFoundError:
        return format
    except OSError as error:
        raise PlanError(f"{subject}: {path}: {reason_of_error(error)}") from error
    except (UnfitSchema, UnicodeDecodeError) as error:
        raise PlanError(f"{subject}: {path}: {error}") from error
    options = SchemaOptions(schema=base64.b64encode(schema.files).decode())
    return str(RecordFormat(format, options=str(options)))


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
