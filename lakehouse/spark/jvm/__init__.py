"""Spark's and Delta's own Java objects: the session, Delta's log, cached frames, checkpoints, file systems."""
