"""A declared expression as a Spark column: guards that make it null where it fails, and ksqlDB's functions in Java."""
