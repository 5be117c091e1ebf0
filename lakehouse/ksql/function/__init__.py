"""ksqlDB's functions, one record each: what it takes and gives, its null rule, its form in Spark SQL, golden cases."""
