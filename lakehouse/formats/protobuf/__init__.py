"""Protobuf: bytes to rows and back, by the schema of their writer."""
