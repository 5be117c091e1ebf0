"""What lakehouse knows of each Spark function, in one table; a function that is missing there is refused."""
