"""Expressions of ksqlDB's SQL with ksqlDB's meaning, as Spark SQL: their types, casts, arithmetic and comparisons."""
