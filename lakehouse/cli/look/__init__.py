"""`lakehouse look`, and `lakehouse query`."""
