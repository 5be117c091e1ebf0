"""The events of a running job for those who watch it, as lines of a log, and as metrics."""
