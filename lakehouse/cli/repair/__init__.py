"""`lakehouse repair`."""
