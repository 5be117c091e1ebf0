"""ksqlDB's functions, one record each: its types, its null rule, its form in Spark SQL, golden cases."""
