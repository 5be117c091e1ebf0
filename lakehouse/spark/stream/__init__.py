"""The records of a stream in a batch: decoded, through its steps, joined with tables."""
