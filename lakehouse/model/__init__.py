"""The model runs a plan over lists, record by record, in plain Python: an oracle for tests, and quick feedback."""
