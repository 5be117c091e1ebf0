"""`lakehouse test`."""
