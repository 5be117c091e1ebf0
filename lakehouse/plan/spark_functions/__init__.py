"""One table of all that lakehouse knows of Spark's functions; a function that is missing there is refused."""
