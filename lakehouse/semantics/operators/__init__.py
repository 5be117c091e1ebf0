"""The effect of a record on the rows of its key: without a window, in time windows, in sessions."""
