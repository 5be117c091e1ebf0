"""A record's key or value on Spark: how its bytes become columns, one class for each kind of format."""
