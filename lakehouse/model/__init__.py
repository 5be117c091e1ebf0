"""The model: a plan run over lists, record by record, in plain Python. The oracle, and the quick feedback."""
