"""What a record does to the rows of its key: without a window, in time windows, in sessions."""
