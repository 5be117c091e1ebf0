"""`lakehouse kafka`."""
