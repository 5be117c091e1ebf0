"""`lakehouse demo`."""
