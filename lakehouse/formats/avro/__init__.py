"""Avro: bytes to values and back, by the schema of their writer."""
