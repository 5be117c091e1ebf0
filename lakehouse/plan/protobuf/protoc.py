"""The text of a .proto file, or a compiled file in base64, to a schema.

Registries give both: serializers in Java register the text, those in Python a FileDescriptorProto. A text is compiled
by protoc itself (grpcio-tools has it), in a process of its own: it says what is wrong on its standard error alone.
"""

from __future__ import annotations

import base64
import binascii
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Set
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from lakehouse.errors import ConfigError
from lakehouse.plan.protobuf.proto_schema import MessageType, ProtoField, ProtoSchema
from lakehouse.plan.refused.unfit_schema import UnfitSchema

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import (
        DescriptorProto,
        EnumDescriptorProto,
        FieldDescriptorProto,
        FileDescriptorProto,
    )

TIMEOUT_SECONDS = 30
# Schemas of these names are always at hand, and serializers do not register them.
KNOWN_FOLDERS = ("google/protobuf/", "google/type/", "confluent/")
_OWN_NAME = "registered_schema.proto"
_OTHER_LINE = re.compile(r"^WARNING: |^[IW][0-9]{4} |: warning: ")  # of the compiler's log
_CONFLUENT_DECIMAL = """syntax = "proto3";
package confluent.type;
message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }
"""
_CONFLUENT_META = """syntax = "proto3";
package confluent;
import "google/protobuf/descriptor.proto";
message Meta { string doc = 1; map<string, string> params = 2; repeated string tags = 3; }
extend google.protobuf.FileOptions { Meta file_meta = 1088; }
extend google.protobuf.MessageOptions { Meta message_meta = 1088; }
extend google.protobuf.FieldOptions { Meta field_meta = 1088; }
extend google.protobuf.EnumOptions { Meta enum_meta = 1088; }
extend google.protobuf.EnumValueOptions { Meta enum_value_meta = 1088; }
"""
_CONFLUENT_FILES = {
    "confluent/meta.proto": _CONFLUENT_META,
    "confluent/type/decimal.proto": _CONFLUENT_DECIMAL,
    "confluent/types/decimal.proto": _CONFLUENT_DECIMAL,
}


def missing_extra(error: ImportError) -> ConfigError:
    """Return the error for a Python without what Protobuf needs."""
    return ConfigError(
        f"Found no Protobuf in this Python ({error.name} is missing); it is an extra of lakehouse. Install it: "
        "pip install 'lakehouse[protobuf]'."
    )


def compile_proto(text: str, imported: Mapping[str, str]) -> ProtoSchema:
    """Return the schema of a file. imported: the texts of the files that it needs, by the names in its imports.

    Raises UnfitSchema, and ConfigError without the extra.
    """
    compiled: dict[str, FileDescriptorProto] = {}
    texts: dict[str, str] = {}
    own_file = _parse_compiled(text)
    own_name = _OWN_NAME if own_file is None else own_file.name or _OWN_NAME
    for name, file_text in {**imported, own_name: text}.items():
        if name.startswith(KNOWN_FOLDERS) and name != own_name:
            continue
        _check_file_name(name)
        if (file := _parse_compiled(file_text)) is None:
            texts[name] = file_text
        else:
            file.name = name
            compiled[name] = file
    needed_names = {name for file in compiled.values() for name in file.dependency} - compiled.keys() - texts.keys()
    for name in needed_names:
        _check_file_name(name)
        if not name.startswith(KNOWN_FOLDERS):
            raise UnfitSchema(f"the file {name!r} is imported, and is not there")
    if texts or needed_names:
        names = [own_name] if own_name in texts else [*texts, *sorted(needed_names)]
        compiled = _run_protoc(names, texts, compiled)
    return _proto_schema_of(compiled, own_name, frozenset(imported), is_compiled=own_file is not None)


def schema_of_files(data: bytes) -> ProtoSchema:
    """Return the schema of compiled files, a FileDescriptorSet as `ProtoSchema.files` is; the last one is its own.

    It needs no compiler. Raises ConfigError without the extra.
    """
    try:
        from google.protobuf.descriptor_pb2 import FileDescriptorSet
    except ImportError as error:
        raise missing_extra(error) from None
    files = FileDescriptorSet.FromString(data).file
    return _proto_schema_of({file.name: file for file in files}, files[-1].name, frozenset(), is_compiled=True)


def _parse_compiled(text: str) -> FileDescriptorProto | None:
    """Return the file in base64; None for a text, which always has characters that base64 does not."""
    try:
        from google.protobuf.descriptor_pb2 import FileDescriptorProto
        from google.protobuf.message import DecodeError
    except ImportError as error:
        raise missing_extra(error) from None
    try:
        data = base64.b64decode(text.strip(), validate=True)
    except (binascii.Error, ValueError):
        return None
    if not data:
        return None
    try:
        return FileDescriptorProto.FromString(data)
    except DecodeError as error:
        raise UnfitSchema("expected a .proto file or a FileDescriptorProto in base64, found other base64") from error


def _check_file_name(name: str) -> None:
    """Raise UnfitSchema for a name that is no path below a folder, or that the compiler takes for an option."""
    path = PurePosixPath(name)
    is_below = not path.is_absolute() and ".." not in path.parts and str(path) == name
    if not is_below or not name.isprintable() or "\\" in name or name.startswith(("-", "@")):
        raise UnfitSchema(f"{name!r} is no name of a file that can be imported")


def _run_protoc(
    names: list[str], texts: Mapping[str, str], compiled: Mapping[str, FileDescriptorProto]
) -> dict[str, FileDescriptorProto]:
    """Return files by name: those that are compiled already, those with these names, and all that they import."""
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    with tempfile.TemporaryDirectory(prefix="lakehouse-proto-") as folder_name:
        folder = Path(folder_name)
        sources, output = folder / "sources", folder / "output"
        for name, text in {**_CONFLUENT_FILES, **texts}.items():
            file = sources / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(text.encode("utf-8", "replace"))
        options = [f"--proto_path={path}" for path in (sources, *_include_folders())]
        if compiled:
            (folder / "compiled").write_bytes(FileDescriptorSet(file=compiled.values()).SerializeToString())
            options.append(f"--descriptor_set_in={folder / 'compiled'}")
        options += ["--include_imports", f"--descriptor_set_out={output}", *names]
        # -P: no module of the current folder.
        command = [sys.executable, "-P", "-m", "grpc_tools.protoc", *options]
        try:
            run = subprocess.run(command, capture_output=True, timeout=TIMEOUT_SECONDS, check=False)
        except subprocess.TimeoutExpired as error:
            raise UnfitSchema(f"it took longer than {TIMEOUT_SECONDS} seconds to compile") from error
        if run.returncode != 0 or not output.exists():
            raise UnfitSchema(_complaint(run.stderr.decode(errors="replace"), folder_name))
        files = FileDescriptorSet.FromString(output.read_bytes()).file
    return {**compiled, **{file.name: file for file in files}}


def _include_folders() -> list[Path]:
    """Return the folders with google/protobuf/ and google/type/."""
    try:
        import google.type.date_pb2
        import grpc_tools
    except ImportError as error:
        raise missing_extra(error) from None
    return [Path(grpc_tools.__path__[0]) / "_proto", Path(google.type.date_pb2.__file__).parents[2]]


def _complaint(text: str, folder_name: str) -> str:
    lines = text.replace(f"{folder_name}/sources/", "").splitlines()
    own_lines = [line for line in lines if line.strip() and not _OTHER_LINE.search(line)]
    message = "; ".join(line.removeprefix(f"{_OWN_NAME}:") for line in own_lines)
    return f"no schema of Protobuf: {message[:400] or 'protoc does not say why'}"


def _proto_schema_of(
    files: Mapping[str, FileDescriptorProto], own_name: str, imported_names: Set[str], *, is_compiled: bool
) -> ProtoSchema:
    from google.protobuf.descriptor_pb2 import FileDescriptorSet
    from google.protobuf.descriptor_pool import DescriptorPool

    ordered, pool = _in_order(files, own_name), DescriptorPool()
    try:
        for file in ordered:
            pool.Add(file)  # nobody has looked at a compiled one yet
    except TypeError as error:
        raise UnfitSchema(f"no schema of Protobuf: {str(error)[:400]}") from error
    messages: dict[str, MessageType] = {}
    enums: dict[str, tuple[tuple[str, int], ...]] = {}
    for file in ordered:
        edition = "" if file.syntax in ("", "proto2", "proto3") else file.syntax
        package = f"{file.package}." if file.package else ""
        for enum in file.enum_type:
            enums[package + enum.name] = _symbols(enum)
        for message in file.message_type:
            for name, part in _messages_in(package + message.name, message):
                messages[name] = _message_type(name, part, edition, is_proto3=file.syntax == "proto3")
                enums |= {f"{name}.{enum.name}": _symbols(enum) for enum in part.enum_type}
    own_file = files[own_name]
    prefix = f"{own_file.package}." if own_file.package else ""
    return ProtoSchema(
        messages,
        enums,
        tuple(prefix + message.name for message in own_file.message_type),
        is_compiled,
        FileDescriptorSet(file=ordered).SerializeToString(),
        tuple(file.name for file in ordered if file.name in imported_names and file.name != own_name),
    )


def _in_order(files: Mapping[str, FileDescriptorProto], own_name: str) -> list[FileDescriptorProto]:
    """Return a file and all that it needs, each behind those that it imports. Raises UnfitSchema if one is missing."""
    ordered: dict[str, FileDescriptorProto] = {}
    path: list[str] = []

    def visit(name: str) -> None:
        if name in ordered:
            return
        if name in path:
            raise UnfitSchema(f"the file {name!r} imports itself")
        if name not in files:
            raise UnfitSchema(f"the file {name!r} is imported, and is not there")
        path.append(name)
        for dependency in files[name].dependency:
            visit(dependency)
        path.pop()
        ordered[name] = files[name]

    visit(own_name)
    return list(ordered.values())


def _messages_in(name: str, message: DescriptorProto) -> Iterator[tuple[str, DescriptorProto]]:
    yield name, message
    for nested in message.nested_type:
        yield from _messages_in(f"{name}.{nested.name}", nested)


def _symbols(enum: EnumDescriptorProto) -> tuple[tuple[str, int], ...]:
    return tuple((value.name, value.number) for value in enum.value)


def _message_type(name: str, message: DescriptorProto, edition: str, *, is_proto3: bool) -> MessageType:
    return MessageType(
        name,
        # The key and the value of a map have their defaults where they are absent, in proto2, too.
        tuple(_field(item, is_proto3=is_proto3 or message.options.map_entry) for item in message.field),
        tuple(f"{name}.{nested.name}" for nested in message.nested_type),
        message.options.map_entry,
        edition,
        tuple((item.start, item.end - 1) for item in message.reserved_range),
        tuple(message.reserved_name),
    )


def _field(item: FieldDescriptorProto, *, is_proto3: bool) -> ProtoField:
    kind = item.Type.Name(item.type).removeprefix("TYPE_").lower()
    is_alone = item.HasField("oneof_index") and not item.proto3_optional
    return ProtoField(
        item.name,
        item.number,
        kind,
        item.type_name.removeprefix("."),
        item.label == item.LABEL_REPEATED,
        not is_proto3 or item.HasField("oneof_index") or kind in ("message", "group"),
        item.oneof_index if is_alone else -1,
    )
