"""What a stream, a table and a changelog mean: plain Python, no Spark, milliseconds to test."""
