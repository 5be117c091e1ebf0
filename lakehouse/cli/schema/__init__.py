"""The commands of `lakehouse schema`."""
