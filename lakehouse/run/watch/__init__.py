"""What a running job tells those who watch it: its events, as lines of a log, and as metrics."""
