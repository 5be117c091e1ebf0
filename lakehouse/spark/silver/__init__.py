"""Silver: the writers of the tables, the query that wakes them up, and their upkeep."""
