"""`lakehouse deploy`."""
