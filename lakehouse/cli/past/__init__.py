"""`lakehouse past`."""
