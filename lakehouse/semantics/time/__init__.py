"""The times of records and of tables: stream time, windows, moments of the past, and the times that are possible."""
