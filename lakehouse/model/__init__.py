"""The model: a plan run over lists, record by record, in plain Python. It is the oracle, and gives quick feedback."""
