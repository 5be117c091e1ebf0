"""Snapshots as a source: the files there are, their rows, and what differs between them as records of a topic."""
