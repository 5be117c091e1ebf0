"""Protobuf schemas: how they are read, and which columns they have. Bytes are read in `lakehouse.formats.protobuf`."""
