"""What guards expressions: conditions under which a value is null, and what is computed instead. Spark SQL as text."""
